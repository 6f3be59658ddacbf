//! The objects that golden cases hold.

use anyhow::{Context, Result};
use serde_json::Value;
use std::{fs, path::Path};

/// An object of a case.
#[derive(Debug)]
pub struct Given {
    /// `topic/case`.
    pub case: String,
    /// The object.
    pub object: Value,
}

/// The group of kinds that cases make up, as users of extension services do.
const MADE_UP: &str = "sample.example.com/";

/// All objects of all cases that a cluster knows the kind of, but of topics that are about texts which can't be read,
/// or have something wrong as texts.
pub fn objects(without: &[&str]) -> Result<Vec<Given>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let mut all = Vec::new();
    for topic in fs::read_dir(golden)? {
        let topic = topic?;
        if without.iter().any(|name| topic.file_name() == *name) {
            continue;
        }
        for case in fs::read_dir(topic.path())? {
            let case = case?;
            let name = [topic.file_name(), case.file_name()].map(|part| part.to_string_lossy().into_owned());
            for document in fs::read_to_string(case.path().join("input.yaml"))?.split("\n---") {
                let case = name.join("/");
                let object: Value = serde_yaml::from_str(document).with_context(|| case.clone())?;
                let is_made_up = object["apiVersion"]
                    .as_str()
                    .is_some_and(|version| version.starts_with(MADE_UP));
                // A document may be empty, or nothing but a comment.
                if object.is_object() && !is_made_up {
                    all.push(Given { case, object });
                }
            }
        }
    }
    Ok(all)
}
