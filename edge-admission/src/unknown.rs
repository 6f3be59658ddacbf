//! Fields that a schema doesn't have. An API server that is asked to be strict, as `kubectl` asks it, refuses them.

use crate::{path::Path, refusal::Refusal};
use serde_json::Value;

/// Names every field that nobody knows.
pub(crate) fn name(schema: &Value, object: &Value, refusals: &mut Vec<Refusal>) {
    let Some(fields) = object.as_object() else { return };
    let root = Path::default();
    for (name, value) in fields {
        match (name.as_str(), schema["properties"].get(name)) {
            // Every object has them; status is for others to write.
            ("apiVersion" | "kind" | "metadata" | "status", _) => {}
            (_, Some(declared)) => walk(declared, value, &root.field(name), refusals),
            (_, None) => refusals.push(Refusal::unknown(&root.field(name))),
        }
    }
}

fn walk(schema: &Value, value: &Value, path: &Path, refusals: &mut Vec<Refusal>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let (declared, others) = (schema["properties"].get(name), &schema["additionalProperties"]);
                match (declared, others) {
                    (Some(declared), _) => walk(declared, value, &path.field(name), refusals),
                    (None, Value::Object(_)) => walk(others, value, &path.key(name), refusals),
                    (None, Value::Bool(true)) => {}
                    // What isn't an object by its schema has the wrong type, which is said elsewhere.
                    (None, _) if schema["type"] == "object" => refusals.push(Refusal::unknown(&path.field(name))),
                    (None, _) => {}
                }
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                walk(&schema["items"], entry, &path.index(index), refusals);
            }
        }
        _ => {}
    }
}
