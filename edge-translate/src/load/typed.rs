//! Free JSON to types, by the reader that documents go through: what a policy says is kept as it was written until it
//! is known what it merges with, and errors in it read as those of any other object.

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::load::de::{Reader, What};
use crate::load::node::Node;

/// Why free JSON isn't of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistyped {
    /// Path of the value at fault, such as `extProc[0].messageTimeout`; empty for the whole.
    pub(crate) path: String,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl Mistyped {
    /// What is wrong of a value that stands in a field of this path.
    pub(crate) fn under(&self, parent: &str) -> String {
        let Self { path, message } = self;
        match path.is_empty() {
            true => format!("{parent}: {message}"),
            false => format!("{parent}.{path}: {message}"),
        }
    }
}

/// Reads free JSON as a type. Null members count as absent, and a field that the type doesn't know is passed over: the
/// reader of the document has told of it. A number isn't text here, as for an API server.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, Mistyped> {
    of_node(&Node::from_value(value))
}

/// The same of a mapping with these fields.
pub(crate) fn typed_fields<'a, T: DeserializeOwned>(
    fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<T, Mistyped> {
    of_node(&Node::from_fields(fields))
}

fn of_node<T: DeserializeOwned>(node: &Node<'_>) -> Result<T, Mistyped> {
    let odd = RefCell::new(Vec::new());
    let read = T::deserialize(Reader::new(node, &odd)).map_err(|error| Mistyped {
        path: error.place.map(|(_, path)| path).unwrap_or_default(),
        // The place where a reference was written is a field of ours, and nobody's to write (`phase/policies/written`).
        message: error.message.replace("`~home`, ", ""),
    })?;
    let unquoted = odd.into_inner().into_iter().find(|odd| odd.what == What::Unquoted);
    match unquoted {
        Some(odd) => Err(Mistyped {
            path: odd.path,
            message: "this must be text: put it in quotes".to_owned(),
        }),
        None => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::{Mistyped, typed};

    #[derive(Debug, Deserialize, PartialEq)]
    struct Probe {
        path: String,
        #[serde(default)]
        times: Vec<u16>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reference {
        #[serde(rename = "~home")]
        _home: Option<String>,
        #[serde(rename = "name")]
        _name: Option<String>,
        #[serde(rename = "port")]
        _port: Option<u16>,
    }

    #[test]
    fn a_field_of_ours_is_not_offered() {
        let error = typed::<Reference>(&json!({ "Name": "a" })).unwrap_err();
        assert!(error.message.contains("`Name`"), "{}", error.message);
        assert!(error.message.contains("`name`"), "{}", error.message);
        assert!(!error.message.contains('~'), "{}", error.message);
    }

    fn fault(value: serde_json::Value) -> (String, String) {
        let Mistyped { path, message } = typed::<Probe>(&value).unwrap_err();
        (path, message)
    }

    #[test]
    fn values_are_read_as_their_types() {
        let read: Probe = typed(&json!({ "path": "/x", "times": null, "unknown": 1 })).unwrap();
        assert_eq!(read.path, "/x");
        assert!(read.times.is_empty());
    }

    #[test]
    fn faults_have_their_path() {
        let (path, message) = fault(json!({ "path": "/x", "times": [1, "2"] }));
        assert_eq!(path, "times[1]");
        assert!(message.contains("take the quotes away"), "{message}");
        let (path, message) = fault(json!({ "path": 7 }));
        assert_eq!(path, "path");
        assert!(message.contains("put it in quotes"), "{message}");
        let (path, message) = fault(json!({}));
        assert_eq!(path, "");
        assert!(message.contains("`path` is missing"), "{message}");
    }
}
