//! From types to definitions, as a cluster takes them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{
    backend::Backend, backend_traffic::BackendTrafficPolicy, client_traffic::ClientTrafficPolicy,
    edge_proxy::EdgeProxy, extension::EdgeExtensionPolicy, patch::EdgePatchPolicy, route_filter::HttpRouteFilter,
    security::SecurityPolicy,
};

/// The definition of every kind that a cluster serves, sorted by name.
///
/// # Errors
/// When a definition isn't JSON, which is a fault of a type here.
pub fn all() -> serde_json::Result<Vec<Value>> {
    let kinds: [CustomResourceDefinition; 8] = [
        Backend::crd(),
        BackendTrafficPolicy::crd(),
        ClientTrafficPolicy::crd(),
        EdgeExtensionPolicy::crd(),
        EdgePatchPolicy::crd(),
        EdgeProxy::crd(),
        HttpRouteFilter::crd(),
        SecurityPolicy::crd(),
    ];
    kinds.iter().map(definition).collect()
}

/// The definitions as files: their names and what they hold.
///
/// # Errors
/// When a definition can't be written, which is a fault of a type here.
pub fn files() -> Result<Vec<(String, String)>, Box<dyn std::error::Error + Send + Sync>> {
    let mut files = Vec::new();
    for definition in all()? {
        let name = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let text = serde_yaml::to_string(&definition)?;
        files.push((format!("{name}.yaml"), format!("{HEADER}{text}")));
    }
    Ok(files)
}

const HEADER: &str = "# Made from the types of edge-crds by `cargo xtask gen`.\n";

fn definition(crd: &CustomResourceDefinition) -> serde_json::Result<Value> {
    let mut whole = serde_json::to_value(crd)?;
    // Whoever removes a release or chart must not take every object of these kinds along.
    whole["metadata"]["annotations"] = json!({
        "gateway.edge/bundle-version": concat!("v", env!("CARGO_PKG_VERSION")),
        "helm.sh/resource-policy": "keep",
    });
    if let Some(schema) = whole.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        plain(schema);
        describe_root(schema);
    }
    Ok(whole)
}

/// Apart from the spec, every object has what all objects have.
fn describe_root(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let common = [
        (
            "apiVersion",
            json!({"type": "string", "description": "Group and version of the kind."}),
        ),
        ("kind", json!({"type": "string", "description": "The kind."})),
        ("metadata", json!({"type": "object"})),
    ];
    for (name, schema) in common {
        properties.insert(name.to_owned(), schema);
    }
    for (name, description) in [("spec", "What is wanted."), ("status", "What became of it.")] {
        if let Some(property) = properties.get_mut(name) {
            property["description"] = description.into();
        }
    }
}

/// Takes out of a schema what a cluster warns of or what says something else there.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            absent_is_absent(members);
            width(members);
            whole_bounds(members);
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// An optional field may be absent, but `null` is not a value of its own: a cluster then drops it, as the loader of
/// files does.
fn absent_is_absent(members: &mut Map<String, Value>) {
    members.retain(|name, value| name != "nullable" || !value.is_boolean());
    if let Some(Value::Array(options)) = members.get_mut("enum")
        && options.len() > 1
    {
        options.retain(|option| !option.is_null());
    }
    let only = match members.get("anyOf").and_then(Value::as_array) {
        Some(forms) => forms
            .iter()
            .find(|form| !is_null(form))
            .cloned()
            .filter(|_| forms.iter().any(is_null)),
        None => None,
    };
    if let Some(Value::Object(only)) = only {
        members.remove("anyOf");
        for (name, value) in only {
            members.entry(name).or_insert(value);
        }
    }
}

fn is_null(schema: &Value) -> bool {
    schema["enum"] == json!([null]) || schema["type"] == "null"
}

/// Clusters know signed widths only; what the unsigned ones bound becomes bounds.
fn width(members: &mut Map<String, Value>) {
    let Some(format) = members.get("format").and_then(Value::as_str) else {
        return;
    };
    let (signed, most) = match format {
        "uint8" => ("int32", Some(u64::from(u8::MAX))),
        "uint16" => ("int32", Some(u64::from(u16::MAX))),
        "uint32" => ("int64", Some(u64::from(u32::MAX))),
        "uint" | "uint64" => ("int64", None),
        _ => return,
    };
    members.insert("format".to_owned(), signed.into());
    members.entry("minimum").or_insert_with(|| 0.into());
    if let Some(most) = most {
        members.entry("maximum").or_insert_with(|| most.into());
    }
}

/// Bounds of whole numbers are whole numbers.
fn whole_bounds(members: &mut Map<String, Value>) {
    if members.get("type").and_then(Value::as_str) != Some("integer") {
        return;
    }
    for bound in ["minimum", "maximum"] {
        let whole = members.get(bound).and_then(Value::as_f64).map(|value| value as i64);
        if let Some(whole) = whole {
            members.insert(bound.to_owned(), whole.into());
        }
    }
}
