//! Lists that are sets or maps: no entry twice.

use crate::{path::Path, refusal::Refusal};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Names every entry that stands in its list already, once.
pub(crate) fn check(schema: &Value, value: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match schema["properties"].get(name) {
                    Some(declared) => check(declared, value, &path.field(name), refusals),
                    None => check(&schema["additionalProperties"], value, &path.key(name), refusals),
                }
            }
        }
        Value::Array(entries) => {
            match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => repeated(entries, path, refusals, Value::clone),
                Some("map") => repeated(entries, path, refusals, |entry| key(schema, entry)),
                _ => {}
            }
            for (index, entry) in entries.iter().enumerate() {
                check(&schema["items"], entry, &path.index(index), refusals);
            }
        }
        _ => {}
    }
}

fn repeated(entries: &[Value], path: &Path, refusals: &mut Vec<Refusal>, key: impl Fn(&Value) -> Value) {
    let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
    for (index, entry) in entries.iter().enumerate() {
        let key = key(entry);
        if !seen.insert(key.to_string()) && told.insert(key.to_string()) {
            refusals.push(Refusal::duplicate(&path.index(index), &key));
        }
    }
}

/// The fields of an entry that tell it from others.
fn key(schema: &Value, entry: &Value) -> Value {
    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
    let parts = keys.filter_map(|key| {
        let name = key.as_str()?;
        Some((name.to_owned(), entry.get(name)?.clone()))
    });
    Value::Object(parts.collect::<Map<_, _>>())
}
