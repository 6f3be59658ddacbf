//! What definitions say of fields.

use edge_crds::definition;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The schemas of all kinds.
pub(super) fn definitions() -> BTreeMap<String, Value> {
    let all = definition::all().unwrap();
    let named = all.into_iter().map(|definition| {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        (kind, schema["properties"]["spec"].clone())
    });
    named.collect()
}

/// A value with every field that a schema has.
pub(super) fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("64Ki");
    }
    match schema["type"].as_str() {
        Some("object") => match schema["properties"].as_object() {
            Some(properties) => {
                let members = properties.iter().map(|(name, schema)| (name.clone(), sample(schema)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            None => match schema.get("additionalProperties") {
                Some(inner) => json!({ "default": sample(inner) }),
                None => json!({}),
            },
        },
        Some("array") => json!([sample(&schema["items"])]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("string") if is_duration(schema) => json!("1s"),
        Some("string") if schema["format"] == "byte" => json!("YWJj"),
        Some("string") => json!("a.example"),
        _ => json!({}),
    }
}

/// A field of a spec.
#[derive(Debug)]
pub(super) struct Field {
    /// `rules[].limit.requests`; `.*` for the members of a map.
    pub(super) path: String,
    /// Its first sentence.
    pub(super) meaning: String,
}

impl Field {
    /// Whether it is a part of another field.
    pub(super) fn is_below(&self, above: &str) -> bool {
        let rest = self.path.strip_prefix(above);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

/// So many fields are told where they stand each time; larger structures once.
const SMALL: usize = 6;

/// The fields of a schema, each above those that it is made of. `told`: structures that were told already, and where.
pub(super) fn fields(kind: &str, schema: &Value, told: &mut BTreeMap<String, String>) -> Vec<Field> {
    let mut all = Vec::new();
    collect(kind, schema, String::new(), told, &mut all);
    all
}

fn collect(kind: &str, schema: &Value, path: String, told: &mut BTreeMap<String, String>, all: &mut Vec<Field>) {
    if schema["items"].is_object() {
        return collect(kind, &schema["items"], format!("{path}[]"), told, all);
    }
    if schema["additionalProperties"].is_object() {
        return collect(kind, &schema["additionalProperties"], format!("{path}.*"), told, all);
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let shape = schema["properties"].to_string();
    if let (Some(place), Some(last)) = (told.get(&shape), all.last_mut()) {
        last.meaning.push_str(&format!(" Fields as of {place}."));
        return;
    }
    let before = all.len();
    for (name, inner) in properties {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        all.push(Field {
            path: path.clone(),
            meaning: one_line(&inner["description"]),
        });
        collect(kind, inner, path, told, all);
    }
    if all.len() - before > SMALL && !path.is_empty() {
        told.insert(shape, format!("`{path}` of {kind}"));
    }
}

/// A description as a cell of a table.
pub(super) fn one_line(description: &Value) -> String {
    let words: Vec<&str> = description.as_str().unwrap_or_default().split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Whether a text is one of Gateway API's durations (GEP-2257).
pub(super) fn is_duration(schema: &Value) -> bool {
    let pattern = schema["pattern"].as_str();
    pattern.is_some_and(|pattern| pattern.contains("(h|m|s|ms)"))
}

/// What a value is, in the words of those who write YAML.
pub(super) fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    if schema["items"].is_object() {
        return format!("list of {}", type_of(&schema["items"]));
    }
    if schema["additionalProperties"].is_object() {
        return format!("map of {}", type_of(&schema["additionalProperties"]));
    }
    match schema["type"].as_str() {
        Some("string") if schema["format"] == "byte" => "text (base64)".to_owned(),
        Some("string") if is_duration(schema) => "duration".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("object") => "object".to_owned(),
        _ => "anything".to_owned(),
    }
}
