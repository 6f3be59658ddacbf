//! What an API server makes of an object before it looks at it: nulls that mean nothing go, and defaults come.

use serde_json::{Map, Value};

/// Fills in the defaults of a schema, in place.
pub(crate) fn complete(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema["properties"].as_object() {
                declared(properties, fields);
            }
            for (name, value) in fields.iter_mut() {
                let below = match schema["properties"].get(name) {
                    Some(declared) => declared,
                    None => &schema["additionalProperties"],
                };
                complete(below, value);
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| complete(&schema["items"], entry)),
        _ => {}
    }
}

fn declared(properties: &Map<String, Value>, fields: &mut Map<String, Value>) {
    for (name, property) in properties {
        // A null where none may be stands for nothing at all.
        if fields.get(name) == Some(&Value::Null) && property["nullable"] != true {
            fields.remove(name);
        }
        if let (Some(default), false) = (property.get("default"), fields.contains_key(name)) {
            fields.insert(name.clone(), default.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_come_where_nothing_is_also_within_defaults() {
        let schema = json!({"properties": {
            "a": {"default": {}, "properties": {"b": {"default": 1}}},
            "c": {"items": {"properties": {"d": {"default": "x"}}}},
            "e": {"nullable": true, "default": 2},
            "f": {"type": "string"},
            "g": {"additionalProperties": {"properties": {"h": {"default": true}}}},
        }});
        let mut object = json!({"c": [{}, {"d": "y"}], "e": null, "f": null, "g": {"k": {}}, "z": null});
        complete(&schema, &mut object);
        let expected = json!({"a": {"b": 1}, "c": [{"d": "x"}, {"d": "y"}], "e": null, "g": {"k": {"h": true}},
                              "z": null});
        assert_eq!(object, expected);
    }
}
