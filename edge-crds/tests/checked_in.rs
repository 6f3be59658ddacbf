//! The definitions that are checked in are those of the types, and a cluster can do something with them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]
#![allow(clippy::disallowed_methods, reason = "a test reads files")]

use edge_crds::definition;
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

#[test]
fn files_are_those_of_the_types() {
    // To write them where the rest of `cargo xtask gen` isn't wanted.
    let update = std::env::var_os("EDGE_UPDATE").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/gateway-crds-helm/templates");
    let wanted: BTreeMap<_, _> = definition::files().unwrap().into_iter().collect();
    for (name, text) in wanted.iter().filter(|_| update) {
        fs::write(folder.join(name), text).unwrap();
    }
    let found: BTreeMap<_, _> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&wanted), "run `cargo xtask gen`");
    for (name, text) in &wanted {
        assert!(found[name] == *text, "{name} is out of date: run `cargo xtask gen`");
    }
}

#[test]
fn schemas_are_structural() {
    for definition in definition::all().unwrap() {
        let name = definition["metadata"]["name"].as_str().unwrap();
        structural(schema(&definition), name);
    }
}

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Every place has one type (or is free), no alternatives, a description where it is ours, and keys where it is a map.
fn structural(schema: &Value, path: &str) {
    for word in [
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "nullable",
        "definitions",
        "const",
    ] {
        assert!(schema.get(word).is_none(), "{path}: {word}");
    }
    let free = schema["x-kubernetes-preserve-unknown-fields"] == true || schema["x-kubernetes-int-or-string"] == true;
    assert!(free || schema["type"].is_string(), "{path}: no type in {schema}");
    if let Some(format) = schema["format"].as_str() {
        let known = ["int32", "int64", "float", "double", "byte", "date-time"];
        assert!(known.contains(&format), "{path}: a cluster knows no format {format}");
    }
    for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
        let items = &schema["items"];
        let required = items["required"].as_array().is_some_and(|names| names.contains(key));
        let given = items["properties"][key.as_str().unwrap()].get("default").is_some();
        assert!(required || given, "{path}: key {key} may be absent");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        structural(property, &format!("{path}.{name}"));
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(word) {
            structural(inner, &format!("{path}[]"));
        }
    }
}

#[test]
fn a_definition_fits_into_a_request() {
    for (name, text) in definition::files().unwrap() {
        // What etcd takes by default is 1.5 MiB.
        assert!(text.len() < 1 << 20, "{name}: {} bytes", text.len());
    }
}
