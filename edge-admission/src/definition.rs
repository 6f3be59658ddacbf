//! The kinds that are judged, by their definitions, and the judgement itself.

use crate::{
    complete, lists, metadata,
    path::Path,
    refusal::{Refusal, Verdict},
    rules::Rules,
    structure::{Check, Patterns},
    unknown,
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{LazyLock, OnceLock},
};

/// Which definitions of Gateway API a cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// What is there to stay.
    #[default]
    Standard,
    /// Besides, kinds and fields that may still change.
    Experimental,
}

/// Definitions as `cargo xtask gen` writes them: of Gateway API's channels, and ours.
const STANDARD: &str = include_str!("../definitions/gateway-api-standard.json");
const EXPERIMENTAL: &str = include_str!("../definitions/gateway-api-experimental.json");
const OURS: &str = include_str!("../definitions/gateway-edge.json");

/// A version of a kind.
#[derive(Debug, Deserialize)]
pub struct Definition {
    /// Group of the API.
    pub group: String,
    /// Version in it.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The structural schema, without descriptions and status.
    pub schema: Value,
    /// Its rules, once somebody needs them.
    #[serde(skip)]
    rules: OnceLock<Rules>,
    /// Its patterns likewise.
    #[serde(skip)]
    patterns: OnceLock<Patterns>,
}

/// The kinds that a cluster has.
#[derive(Debug)]
pub struct Catalogue(BTreeMap<(String, String), Definition>);

impl Catalogue {
    /// Those of a cluster with a channel of Gateway API, and ours.
    pub fn of(channel: Channel) -> &'static Self {
        static KNOWN: [LazyLock<Catalogue>; 2] = [
            LazyLock::new(|| Catalogue::read(&[STANDARD, OURS])),
            LazyLock::new(|| Catalogue::read(&[EXPERIMENTAL, OURS])),
        ];
        match channel {
            Channel::Standard => &KNOWN[0],
            Channel::Experimental => &KNOWN[1],
        }
    }

    fn read(files: &[&str]) -> Self {
        // The files are part of the program, and a test reads them.
        let read = |file: &&str| serde_json::from_str::<Vec<Definition>>(file).unwrap_or_default();
        let definitions = files.iter().flat_map(read);
        let named = definitions.map(|definition| {
            let api_version = format!("{}/{}", definition.group, definition.version);
            ((api_version, definition.kind.clone()), definition)
        });
        Self(named.collect())
    }

    /// The definition of a kind.
    pub fn definition(&self, api_version: &str, kind: &str) -> Option<&Definition> {
        self.0.get(&(api_version.to_owned(), kind.to_owned()))
    }

    /// Whether kinds of a group are judged.
    fn knows(&self, group: &str) -> bool {
        self.0.values().any(|definition| definition.group == group)
    }

    /// What an API server would say of an object that is created. None: kinds of its group are not judged, and it says
    /// what every object has to say.
    pub fn judge(&self, object: &Value) -> Option<Verdict> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if let Some(definition) = self.definition(api_version, kind) {
            return Some(definition.judge(object));
        }
        let refusal = self.refusal_of_unknown(object, api_version, kind)?;
        Some(Verdict {
            completed: object.clone(),
            refusals: vec![refusal],
        })
    }

    /// Why an object is refused of whose kind nothing more is known.
    fn refusal_of_unknown(&self, object: &Value, api_version: &str, kind: &str) -> Option<Refusal> {
        // What is no object at all is for who reads it to tell.
        object.as_object()?;
        let path = Path::default();
        for (field, text) in [("apiVersion", api_version), ("kind", kind)] {
            if text.is_empty() {
                return Some(Refusal::required(&path.field(field)));
            }
        }
        let is_ours = match api_version.split_once('/') {
            Some((group, _)) => self.knows(group),
            // Kinds without a group have one version: the group or the version was forgotten.
            None => api_version != "v1" || self.0.keys().any(|(_, known)| known == kind),
        };
        if is_ours {
            return Some(Refusal::no_kind(api_version, kind));
        }
        let metadata = &object["metadata"];
        let is_named = ["name", "generateName"]
            .iter()
            .any(|field| metadata[field].as_str().is_some_and(|name| !name.is_empty()));
        (!is_named).then(|| Refusal::unnamed(&path.field("metadata").field("name")))
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Definition> {
        self.0.values()
    }
}

impl Definition {
    /// What an API server would say of an object of this kind.
    pub fn judge(&self, object: &Value) -> Verdict {
        let mut refusals = Vec::new();
        let root = Path::default();
        unknown::name(&self.schema, object, &mut refusals);
        let mut completed = object.clone();
        complete::complete(&self.schema, &mut completed);
        metadata::check(&completed, &mut refusals);
        let mut check = Check {
            patterns: self.patterns.get_or_init(|| Patterns::of(&self.schema)),
            refusals: &mut refusals,
        };
        check.value(&self.schema, &completed, &root);
        lists::check(&self.schema, &completed, &root, &mut refusals);
        if !refusals.iter().any(Refusal::blocks_rules) {
            let rules = self.rules.get_or_init(|| Rules::of(&self.schema));
            rules.run(&completed, &mut refusals);
        }
        Verdict { completed, refusals }
    }
}
