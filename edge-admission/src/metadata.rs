//! Name, namespace and labels, which every object has.

use crate::{path::Path, refusal::Refusal};
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// A DNS subdomain (RFC 1123), as objects of custom kinds are called.
static SUBDOMAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok());
/// A DNS label, as namespaces are called.
static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").ok());
/// The part of a label's key behind the slash, and its value if there is one.
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$").ok());

const SUBDOMAIN_LIMIT: usize = 253;
const LABEL_LIMIT: usize = 63;

/// Names what is wrong with what every object has.
pub(crate) fn check(object: &Value, refusals: &mut Vec<Refusal>) {
    let path = Path::default().field("metadata");
    let metadata = &object["metadata"];
    match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
        (None | Some(""), None | Some("")) => refusals.push(Refusal::unnamed(&path.field("name"))),
        (Some(name), _) if !name.is_empty() && !is(&SUBDOMAIN, name, SUBDOMAIN_LIMIT) => {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                       and must start and end with an alphanumeric character";
            refusals.push(Refusal::invalid(&path.field("name"), &metadata["name"], why));
        }
        _ => {}
    }
    if let Some(namespace) = metadata["namespace"].as_str()
        && !namespace.is_empty()
        && !is(&LABEL, namespace, LABEL_LIMIT)
    {
        let why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                   and end with an alphanumeric character";
        refusals.push(Refusal::invalid(&path.field("namespace"), &metadata["namespace"], why));
    }
    labels(&metadata["labels"], &path.field("labels"), refusals);
}

fn labels(labels: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let (prefix, name) = key.rsplit_once('/').map_or((None, key.as_str()), |(p, n)| (Some(p), n));
        if !is(&NAME, name, LABEL_LIMIT) || prefix.is_some_and(|prefix| !is(&SUBDOMAIN, prefix, SUBDOMAIN_LIMIT)) {
            let why = "a key is a name of letters, digits, '-', '_' and '.', with a DNS subdomain and '/' before it at \
                       will";
            refusals.push(Refusal::invalid(path, &Value::from(key.as_str()), why));
        }
        let value_is_valid = value
            .as_str()
            .is_none_or(|text| text.is_empty() || is(&NAME, text, LABEL_LIMIT));
        if !value_is_valid {
            let why = "a value is empty, or letters, digits, '-', '_' and '.', at most 63 of them";
            refusals.push(Refusal::invalid(path, value, why));
        }
    }
}

fn is(pattern: &Option<Regex>, text: &str, limit: usize) -> bool {
    text.len() <= limit && pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}
