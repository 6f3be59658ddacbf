//! The values of an installation: those of the chart, and over them files and single settings, as with Helm.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::{fs, path::Path};

/// The chart's own values, which document themselves.
const DEFAULTS: &str = include_str!("../../../charts/gateway-helm/values.yaml");
/// What values may be.
const SCHEMA: &str = include_str!("../../../charts/gateway-helm/values.schema.json");

/// Reads values: the defaults, then files in order, then settings in order.
///
/// # Errors
/// When a file can't be read, or the values aren't what the chart takes.
pub fn read(files: &[impl AsRef<Path>], settings: &[String]) -> Result<Value> {
    let mut values: Value = serde_yaml::from_str(DEFAULTS).context("the values of the chart")?;
    for file in files {
        let name = file.as_ref().display();
        let text = fs::read_to_string(file).with_context(|| format!("{name} can't be read"))?;
        let over: Value = serde_yaml::from_str(&text).with_context(|| format!("{name} is not YAML"))?;
        merge(&mut values, over);
    }
    for setting in settings {
        for part in split(setting, ',') {
            set(&mut values, &part).with_context(|| format!("--set {setting}"))?;
        }
    }
    let schema: Value = serde_json::from_str(SCHEMA).context("the schema of the values")?;
    check(&values, &schema, "")?;
    Ok(values)
}

/// Maps are merged; all else replaces, and `null` takes away.
pub(super) fn merge(values: &mut Value, over: Value) {
    match (values, over) {
        (Value::Object(values), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    values.remove(&name);
                } else {
                    merge(values.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        // A file with comments only.
        (_, Value::Null) => {}
        (values, over) => *values = over,
    }
}

/// One setting, `a.b[0].c=value`.
fn set(values: &mut Value, setting: &str) -> Result<()> {
    let Some((path, text)) = setting.split_once('=') else {
        bail!("{setting:?} is not of the form name=value");
    };
    let value = scalar(text);
    let mut place = values;
    let segments = split(path, '.');
    for (number, segment) in segments.iter().enumerate() {
        if value.is_null() && number + 1 == segments.len() && !segment.contains('[') {
            // As in a file: it takes the value of the chart away.
            if let Some(members) = place.as_object_mut() {
                members.remove(segment);
            }
            return Ok(());
        }
        let (name, index) = match segment.split_once('[') {
            Some((name, index)) => (name.to_owned(), Some(index.trim_end_matches(']').parse::<usize>()?)),
            None => (segment.clone(), None),
        };
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
        if let Some(index) = index {
            // More than anybody lists; a slip must not eat the memory.
            if index > 1000 {
                bail!("index {index} is too large");
            }
            if !place.is_array() {
                *place = Value::Array(Vec::new());
            }
            if let Value::Array(items) = place
                && items.len() <= index
            {
                items.resize(index + 1, Value::Null);
            }
            place = &mut place[index];
        }
    }
    *place = value;
    Ok(())
}

/// A value, of the type that Helm takes it for.
fn scalar(text: &str) -> Value {
    if let Some(items) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        return Value::Array(split(items, ',').iter().map(|item| scalar(item)).collect());
    }
    match text.to_ascii_lowercase().as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        "0" => 0.into(),
        // A name of digits, such as a short hash.
        _ if text.starts_with('0') => text.into(),
        _ => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// Parts between marks that no backslash takes for letters, and that are in no braces.
fn split(text: &str, mark: char) -> Vec<String> {
    let (mut parts, mut depth, mut letters) = (vec![String::new()], 0_usize, text.chars());
    while let Some(letter) = letters.next() {
        let part = parts.last_mut();
        match (letter, part) {
            ('\\', Some(part)) => match letters.next() {
                Some(next) if next == mark => part.push(next),
                // For another mark.
                next => part.extend(['\\'].into_iter().chain(next)),
            },
            (letter, _) if letter == mark && depth == 0 => parts.push(String::new()),
            (letter, Some(part)) => {
                match letter {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                part.push(letter);
            }
            (_, None) => {}
        }
    }
    parts
}

/// The part of JSON Schema that the chart's schema uses.
fn check(value: &Value, schema: &Value, path: &str) -> Result<()> {
    let path_or_root = if path.is_empty() { "the values" } else { path };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is(value, name)) {
        bail!("{path_or_root} must be of type {}, and is {value}", types.join(" or "));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        bail!("{path_or_root} must be one of {}, and is {value}", schema["enum"]);
    }
    let bound = |name: &str| schema[name].as_i64().zip(value.as_i64());
    if bound("minimum").is_some_and(|(least, value)| value < least) {
        bail!("{path_or_root} must be at least {}, and is {value}", schema["minimum"]);
    }
    if bound("maximum").is_some_and(|(most, value)| value > most) {
        bail!("{path_or_root} must be at most {}, and is {value}", schema["maximum"]);
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.get(name).is_none() {
            bail!("{path_or_root} lacks {name}");
        }
    }
    if let Value::Object(members) = value {
        for (name, value) in members {
            let inner = format!("{path}{}{name}", if path.is_empty() { "" } else { "." });
            match schema["properties"]
                .get(name)
                .or_else(|| schema.get("additionalProperties"))
            {
                Some(Value::Bool(false)) => {
                    bail!("{inner}: there is no such value; see `helm show values` or the chart")
                }
                Some(schema) => check(value, schema, &inner)?,
                None => {}
            }
        }
    }
    if let (Value::Array(items), Some(schema)) = (value, schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            check(item, schema, &format!("{path}[{index}]"))?;
        }
    }
    Ok(())
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NO_FILES: [&str; 0] = [];

    fn with(setting: &str) -> Result<Value> {
        read(&NO_FILES, &[setting.to_owned()])
    }

    #[test]
    fn settings_go_over_the_defaults() {
        let values = with("deployment.replicas=3,commonLabels.a\\.b/c=d,certgen.job.args={x,y}").unwrap();
        assert_eq!(values["deployment"]["replicas"], 3);
        assert_eq!(values["commonLabels"], json!({"a.b/c": "d"}));
        assert_eq!(values["certgen"]["job"]["args"], json!(["x", "y"]));
        assert_eq!(values["service"]["type"], "ClusterIP", "the rest stays");
        let values = with("deployment.ports[1].port=5").unwrap();
        assert_eq!(
            values["deployment"]["ports"][1],
            json!({"name": "ratelimit", "port": 5, "targetPort": 18001})
        );
    }

    #[test]
    fn settings_have_the_types_that_helm_gives_them() {
        for (text, value) in [
            ("0123", json!("0123")),
            ("0", json!(0)),
            ("-5", json!(-5)),
            ("True", json!(true)),
            ("1.5", json!("1.5")),
            ("{01,2}", json!(["01", 2])),
        ] {
            assert_eq!(scalar(text), value, "{text}");
        }
    }

    #[test]
    fn a_setting_of_null_takes_away() {
        let values = with("deployment.edgeGateway.resources.limits=null,hpa=null").unwrap();
        let resources = &values["deployment"]["edgeGateway"]["resources"];
        assert_eq!(*resources, json!({"requests": {"cpu": "100m", "memory": "256Mi"}}));
        assert!(values.get("hpa").is_none(), "{values}");
        let values = with("service.annotations.none=null").unwrap();
        assert_eq!(values["service"]["annotations"], json!({}), "what isn't there");
    }

    #[test]
    fn a_slip_is_named_with_its_place() {
        for (setting, said) in [
            ("deployment.replica=3", "deployment.replica: there is no such value"),
            (
                "deployment.replicas=many",
                "deployment.replicas must be of type integer, and is \"many\"",
            ),
            ("deployment.replicas=-1", "deployment.replicas must be at least 0"),
            ("service.type=External", "service.type must be one of"),
            (
                "deployment.ports[0].port=70000",
                "deployment.ports[0].port must be at most 65535",
            ),
            ("deployment.ports[4].port=1", "deployment.ports[4] lacks name"),
            ("deployment", "not of the form name=value"),
            ("deployment.ports[5000000].port=1", "too large"),
        ] {
            let error = format!("{:#}", with(setting).unwrap_err());
            assert!(error.contains(said), "{setting}: {error}");
        }
    }

    #[test]
    fn files_are_merged_and_null_takes_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.yaml");
        fs::write(
            &path,
            "deployment: {replicas: 2, edgeGateway: {resources: {limits: null}}}\n",
        )
        .unwrap();
        let values = read(&[&path], &[]).unwrap();
        assert_eq!(values["deployment"]["replicas"], 2);
        assert_eq!(
            values["deployment"]["edgeGateway"]["resources"],
            json!({"requests": {"cpu": "100m", "memory": "256Mi"}})
        );
    }
}
