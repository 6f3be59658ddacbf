//! Changes to the default bootstrap, and what they must not change.

use crate::{
    json::{Codec, JsonError, Names},
    names::{CONTROLLER_CLUSTER, METRICS_CLUSTER},
    patch::breach,
};
use edge_ir::{BootstrapPatch, JsonPatchOperation};
use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
use json_patch::{Patch, PatchOperation};
use prost::{Message as _, Name as _};
use serde_json::Value;

/// Why a customised bootstrap is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// The text is neither YAML nor JSON.
    #[error("the bootstrap is not valid YAML: {0}")]
    Syntax(String),
    /// It is no mapping.
    #[error("the bootstrap must be a mapping of fields")]
    NotAnObject,
    /// An operation is not one of RFC 6902.
    #[error("operation {index}: {message}")]
    Operation {
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The operations don't apply to the default bootstrap.
    #[error("the patch can't be applied: {0}")]
    Patch(String),
    /// The result is not a bootstrap.
    #[error("the bootstrap is invalid at {0}")]
    Invalid(#[from] JsonError),
    /// A value in it is one that Envoy doesn't take: it wouldn't start.
    #[error("the bootstrap is invalid: {0}")]
    Value(String),
    /// The proxy would take its configuration from elsewhere.
    #[error("dynamic_resources must not be changed")]
    DynamicResources,
    /// The proxy would look for the controller elsewhere.
    #[error("the endpoints of cluster xds_cluster must not be changed")]
    XdsCluster,
}

/// Applies a change to the default bootstrap. What comes back reads as a bootstrap and still leads to the controller.
pub fn customise(default: Value, patch: &BootstrapPatch) -> Result<Value, BootstrapError> {
    let changed = match patch {
        BootstrapPatch::Replace(text) => parse(text)?,
        BootstrapPatch::Merge(text) => {
            let mut merged = default.clone();
            merge(&mut merged, parse(text)?);
            merged
        }
        BootstrapPatch::JsonPatch(operations) => {
            let mut patched = default.clone();
            let operations: Result<_, _> = operations
                .iter()
                .enumerate()
                .map(|(index, one)| operation(index, one))
                .collect();
            json_patch::patch(&mut patched, &Patch(operations?))
                .map_err(|error| BootstrapError::Patch(error.to_string()))?;
            patched
        }
    };
    let (default, mut canonical) = (canonical(default)?, canonical(changed)?);
    shorten_host(&mut canonical, &default);
    lead_to_admin(&mut canonical, &default);
    if default["dynamic_resources"] != canonical["dynamic_resources"] {
        return Err(BootstrapError::DynamicResources);
    }
    let endpoints =
        |bootstrap: &Value| xds_cluster(bootstrap).map(|cluster| cluster["load_assignment"]["endpoints"].clone());
    if endpoints(&default) != endpoints(&canonical) {
        return Err(BootstrapError::XdsCluster);
    }
    Ok(canonical)
}

/// Who copies the bootstrap of a running proxy copies the controller's full name,
/// `edge-gateway.<namespace>.svc.<domain>`. It is written by its short one, like any other, and so leads to the
/// controller that it is used by.
fn shorten_host(bootstrap: &mut Value, default: &Value) {
    let mut short = None;
    let mut copy = default.clone();
    controller_addresses(&mut copy, |address| short = address.as_str().map(str::to_owned));
    let Some(short) = short else { return };
    controller_addresses(bootstrap, |address| {
        let rest = address.as_str().and_then(|address| address.strip_prefix(&*short));
        if rest.is_some_and(|rest| rest.starts_with('.') && rest.contains(".svc.")) {
            *address = short.as_str().into();
        }
    });
}

/// Metrics come from the admin interface: where a change moves that and says nothing of the cluster that leads there,
/// the cluster follows.
fn lead_to_admin(bootstrap: &mut Value, default: &Value) {
    let moved = &bootstrap["admin"]["address"]["socket_address"];
    if moved.is_null() || *moved == default["admin"]["address"]["socket_address"] {
        return;
    }
    let port = moved["port_value"].clone();
    // What listens on every address is found on the loopback.
    let address = match moved["address"].as_str() {
        Some("0.0.0.0") => "127.0.0.1",
        Some("::") => "::1",
        other => other.unwrap_or("127.0.0.1"),
    };
    let address = Value::from(address);
    let Some(usual) = cluster(default, METRICS_CLUSTER).map(|cluster| cluster["load_assignment"].clone()) else {
        return;
    };
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
    let mut clusters = clusters.into_iter().flatten();
    let Some(own) = clusters.find(|own| own["name"] == METRICS_CLUSTER && own["load_assignment"] == usual) else {
        return;
    };
    let place = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    if let Some(Value::Object(socket)) = own.pointer_mut(place) {
        socket.insert("port_value".to_owned(), port);
        socket.insert("address".to_owned(), address);
    }
}

/// Changes the addresses of the controller.
pub(super) fn controller_addresses(bootstrap: &mut Value, mut change: impl FnMut(&mut Value)) {
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
    let clusters = clusters.into_iter().flatten();
    for cluster in clusters.filter(|cluster| cluster["name"] == CONTROLLER_CLUSTER) {
        let localities = cluster["load_assignment"]["endpoints"].as_array_mut();
        let endpoints = localities.into_iter().flatten();
        let endpoints = endpoints.filter_map(|locality| locality["lb_endpoints"].as_array_mut());
        for endpoint in endpoints.flatten() {
            change(&mut endpoint["endpoint"]["address"]["socket_address"]["address"]);
        }
    }
}

/// Reads strictly and writes again, so that both spellings of a field and explicit defaults compare equal.
fn canonical(value: Value) -> Result<Value, BootstrapError> {
    let codec = Codec::for_value::<Bootstrap>(&value)?;
    let bootstrap: Bootstrap = codec.from_json(value)?;
    if let Some(breach) = breach(&codec, &Bootstrap::full_name(), &bootstrap.encode_to_vec())? {
        return Err(BootstrapError::Value(breach.to_string()));
    }
    let mut bootstrap = codec.to_json(&bootstrap, Names::Proto)?;
    write_whole(&mut bootstrap);
    Ok(bootstrap)
}

/// Writes whole numbers without a fraction. Values of free form, such as those of the runtime, are floating point in
/// protobuf, and Envoy takes `8.0` in a bootstrap for a text, which is no limit to it.
fn write_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < EXACT);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole),
        Value::Object(fields) => fields.values_mut().for_each(write_whole),
        _ => {}
    }
}

/// Up to here every whole number is a floating point number (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

fn xds_cluster(bootstrap: &Value) -> Option<&Value> {
    cluster(bootstrap, CONTROLLER_CLUSTER)
}

fn cluster<'a>(bootstrap: &'a Value, name: &str) -> Option<&'a Value> {
    let clusters = bootstrap["static_resources"]["clusters"].as_array()?;
    clusters.iter().find(|cluster| cluster["name"] == name)
}

fn parse(text: &str) -> Result<Value, BootstrapError> {
    let value: Value =
        serde_yaml::from_str(text).map_err(|error| BootstrapError::Syntax(first_line(&error.to_string())))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(BootstrapError::NotAnObject)
    }
}

/// Merges deeply. In lists, an element with the name of an existing one is merged into it; others are appended.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(existing) => merge(existing, value),
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            for value in from {
                let same = into
                    .iter_mut()
                    .find(|item| value.get("name").is_some() && item.get("name") == value.get("name"));
                match same {
                    Some(existing) => merge(existing, value),
                    None => into.push(value),
                }
            }
        }
        (into, from) => *into = from,
    }
}

fn operation(index: usize, operation: &JsonPatchOperation) -> Result<PatchOperation, BootstrapError> {
    let failed = |message: String| BootstrapError::Operation { index, message };
    if operation.json_path.is_some() {
        return Err(failed(
            "jsonPath is not supported in a bootstrap patch: name the place by path".to_owned(),
        ));
    }
    let path = operation.path.as_deref().unwrap_or_default();
    crate::patch::step(operation, path).map_err(failed)
}

/// The message without the picture below it: it ends up in a condition.
fn first_line(message: &str) -> String {
    message
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}
