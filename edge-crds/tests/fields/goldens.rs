//! Which fields golden cases have, and what becomes of the objects that have them.

use super::schema::definitions;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// An object of ours in a golden case.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) kind: String,
    /// `topic/case`.
    pub(super) case: String,
    /// What it has, as [`Field`](super::schema::Field) names it.
    pub(super) fields: BTreeSet<String>,
    pub(super) is_accepted: bool,
    /// Whether its status warns of something, such as a field without an effect there.
    pub(super) is_warned: bool,
    /// What edge-proxy refuses of the case.
    pub(super) refused_by_edge_proxy: Option<String>,
}

/// All objects of our kinds.
pub(super) fn uses() -> Vec<Use> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let schemas = definitions();
    let mut all = Vec::new();
    for topic in sorted(&golden).iter().filter(|topic| !topic.ends_with("input")) {
        for case in sorted(topic) {
            read(&case, &schemas, &mut all);
        }
    }
    all
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all
}

fn read(case: &Path, schemas: &BTreeMap<String, Value>, all: &mut Vec<Use>) {
    let text = fs::read_to_string(case.join("input.yaml")).unwrap();
    let status = fs::read_to_string(case.join("status.yaml")).unwrap_or_default();
    let status: Value = serde_yaml::from_str(&status).unwrap_or_default();
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    let refused = comments.find_map(|line| line.strip_prefix("# edge-proxy refuses: "));
    let parts: Vec<_> = case
        .components()
        .rev()
        .take(2)
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    for document in text.split("\n---") {
        let Ok(object) = serde_yaml::from_str::<Value>(document) else {
            continue;
        };
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(schema) = schemas
            .get(kind)
            .filter(|_| object["apiVersion"] == "gateway.edge/v1alpha1")
        else {
            continue;
        };
        let mut fields = BTreeSet::new();
        collect(&object["spec"], schema, "", &mut fields);
        all.push(Use {
            kind: kind.to_owned(),
            case: format!("{}/{}", parts[1], parts[0]),
            fields,
            is_accepted: is_accepted(&object, &status["statuses"]),
            is_warned: has(status_of(&object, &status["statuses"]), "type", "Warning"),
            refused_by_edge_proxy: refused.map(str::to_owned),
        });
    }
}

fn collect(value: &Value, schema: &Value, path: &str, fields: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list
            .iter()
            .for_each(|member| collect(member, &schema["items"], &format!("{path}[]"), fields)),
        Value::Object(members) => {
            for (name, inner) in members {
                if schema["additionalProperties"].is_object() {
                    collect(inner, &schema["additionalProperties"], &format!("{path}.*"), fields);
                    continue;
                }
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                collect(inner, &schema["properties"][name], &path, fields);
                fields.insert(path);
            }
        }
        _ => {}
    }
}

/// Whether a status accepts an object. Of kinds without one those speak that refer to it: nothing of the case is
/// refused.
fn is_accepted(object: &Value, statuses: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    let status = status_of(object, statuses);
    let own = accepted(status);
    // What waits for something serves nobody yet.
    if has(status, "reason", "Pending") {
        return false;
    }
    match own.is_empty() {
        false => own.contains(&true),
        true => {
            !["HTTPRouteFilter", "EdgeProxy"].iter().all(|other| *other != kind) && {
                let all = statuses.as_object();
                all.is_some_and(|all| all.values().all(|status| !accepted(status).contains(&false)))
            }
        }
    }
}

fn status_of<'a>(object: &Value, statuses: &'a Value) -> &'a Value {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    let namespace = text("/metadata/namespace").unwrap_or("default");
    let kind = text("/kind").unwrap_or_default();
    &statuses[format!("{kind}/{namespace}/{name}")]
}

/// Whether a condition under an ancestor has a value in a field.
fn has(status: &Value, field: &str, value: &str) -> bool {
    let holders = status["ancestors"].as_array().into_iter().flatten();
    let conditions = holders.filter_map(|holder| holder["conditions"].as_array()).flatten();
    conditions.into_iter().any(|condition| condition[field] == value)
}

/// What all conditions of a status say that accept something, or what it refers to.
fn accepted(status: &Value) -> Vec<bool> {
    let lists = ["ancestors", "parents", "listeners"]
        .iter()
        .flat_map(|list| status[list].as_array());
    let holders = lists.flatten().chain([status]);
    let conditions = holders.filter_map(|holder| holder["conditions"].as_array()).flatten();
    let telling = conditions.filter(|condition| {
        ["Accepted", "ResolvedRefs"]
            .iter()
            .any(|kind| condition["type"] == *kind)
    });
    telling.map(|condition| condition["status"] == "True").collect()
}
