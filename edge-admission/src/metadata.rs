//! Name, namespace, labels and the rest of metadata, which every object has.

use crate::{path::Path, refusal::Refusal, rules::type_of};
use edge_translate::api::{Timestamp, label};
use regex::Regex;
use serde::Deserialize as _;
use serde_json::Value;
use std::sync::LazyLock;

/// A DNS subdomain (RFC 1123), as objects of custom kinds are called.
static SUBDOMAIN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok());
/// A DNS label, as namespaces are called.
static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").ok());

const SUBDOMAIN_LIMIT: usize = 253;
const LABEL_LIMIT: usize = 63;
/// What names of labels, annotations and finalizers are.
const QUALIFIED: &str =
    "a key is a name of letters, digits, '-', '_' and '.', with a DNS subdomain and '/' before it at will";

/// Names what is wrong with what every object has.
pub(crate) fn check(object: &Value, refusals: &mut Vec<Refusal>) {
    let path = Path::default().field("metadata");
    let metadata = &object["metadata"];
    shape(metadata, &path, refusals);
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
    annotations(&metadata["annotations"], &path.field("annotations"), refusals);
    finalizers(&metadata["finalizers"], &path.field("finalizers"), refusals);
    owners(&metadata["ownerReferences"], &path.field("ownerReferences"), refusals);
}

/// What a field of `ObjectMeta` holds.
#[derive(Clone, Copy)]
enum Holds {
    Text,
    /// Of 64 bits.
    Number,
    /// RFC 3339.
    Time,
    /// Texts by name.
    Texts,
    List,
}

/// The fields of `ObjectMeta` (apimachinery, meta/v1), which no schema of a kind repeats.
const FIELDS: [(&str, Holds); 15] = [
    ("name", Holds::Text),
    ("generateName", Holds::Text),
    ("namespace", Holds::Text),
    ("selfLink", Holds::Text),
    ("uid", Holds::Text),
    ("resourceVersion", Holds::Text),
    ("generation", Holds::Number),
    ("creationTimestamp", Holds::Time),
    ("deletionTimestamp", Holds::Time),
    ("deletionGracePeriodSeconds", Holds::Number),
    ("labels", Holds::Texts),
    ("annotations", Holds::Texts),
    ("ownerReferences", Holds::List),
    ("finalizers", Holds::List),
    ("managedFields", Holds::List),
];

/// Names what an API server can't even read. `null` is as good as nothing.
fn shape(metadata: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    for (name, value) in metadata.as_object().into_iter().flatten() {
        let path = path.field(name);
        match FIELDS.iter().find(|(known, _)| known == name) {
            None => refusals.push(Refusal::unknown(&path)),
            Some(_) if value.is_null() => {}
            Some((_, holds)) => held(*holds, value, &path, refusals),
        }
    }
}

fn held(holds: Holds, value: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    let wanted = match holds {
        Holds::Text if !value.is_string() => "string",
        Holds::Number if value.as_i64().is_none() => "integer",
        Holds::List if !value.is_array() => "array",
        Holds::Texts if !value.is_object() => "object",
        Holds::Texts => {
            // Nothing is read as an empty text there.
            let said = value
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(_, value)| !value.is_null());
            for (name, value) in said {
                held(Holds::Text, value, &path.key(name), refusals);
            }
            return;
        }
        Holds::Time => match value.as_str() {
            None => "string",
            Some(_) if Timestamp::deserialize(value).is_ok() => return,
            Some(text) => return refusals.push(Refusal::wrong_format(path, text, "date-time")),
        },
        Holds::Text | Holds::Number | Holds::List => return,
    };
    refusals.push(Refusal::wrong_type(path, type_of(value), wanted));
}

fn labels(labels: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if !label::is_qualified(key) {
            refusals.push(Refusal::invalid(path, &Value::from(key.as_str()), QUALIFIED));
        }
        if value.as_str().is_some_and(|text| !label::is_value(text)) {
            let why = "a value is empty, or letters, digits, '-', '_' and '.', at most 63 of them";
            refusals.push(Refusal::invalid(path, value, why));
        }
    }
}

/// How much all annotations of an object may hold, in bytes of names and values.
const ANNOTATIONS_LIMIT: usize = 256 << 10;

fn annotations(annotations: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Unlike a label's, capitals may stand in the domain.
        if !label::is_qualified(&key.to_lowercase()) {
            refusals.push(Refusal::invalid(path, &Value::from(key.as_str()), QUALIFIED));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        refusals.push(Refusal::too_long(path, ANNOTATIONS_LIMIT as u64));
    }
}

fn finalizers(finalizers: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    for name in finalizers.as_array().into_iter().flatten() {
        if name.as_str().is_some_and(|name| !label::is_qualified(name)) {
            refusals.push(Refusal::invalid(path, name, QUALIFIED));
        }
    }
}

fn owners(owners: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    let owners = owners.as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, owner) in owners.iter().enumerate().filter(|(_, owner)| owner.is_object()) {
        let path = path.index(at);
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        // Behind the group, which core kinds have none of.
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        let needed = [
            ("apiVersion", version, "version must not be empty"),
            ("kind", text("kind"), "kind must not be empty"),
            ("name", text("name"), "name must not be empty"),
            ("uid", text("uid"), "uid must not be empty"),
        ];
        for (field, said, why) in needed {
            if said.is_empty() {
                refusals.push(Refusal::invalid(&path.field(field), &Value::from(text(field)), why));
            }
        }
    }
    if owners.iter().filter(|owner| owner["controller"] == true).count() > 1 {
        let why = "only one reference can have controller set to true";
        refusals.push(Refusal::invalid(path, &Value::from(""), why));
    }
}

fn is(pattern: &Option<Regex>, text: &str, limit: usize) -> bool {
    text.len() <= limit && pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}
