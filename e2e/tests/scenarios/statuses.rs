//! What the status document says.

use serde_json::Value;

/// The messages of a route's conditions of this type and status, under all its parents.
pub(crate) fn route_says(document: &Value, route: &str, condition: &str, status: &str) -> Vec<String> {
    let resources = document["resources"].as_array().into_iter().flatten();
    let routes = resources.filter(|r| r["kind"] == "HTTPRoute" && r["name"] == route);
    let parents = routes.flat_map(|r| r["status"]["parents"].as_array().into_iter().flatten());
    let conditions = parents.flat_map(|p| p["conditions"].as_array().into_iter().flatten());
    let found = conditions.filter(|c| c["type"] == condition && c["status"] == status);
    found
        .map(|c| c["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The message of the first condition of this type and status among the listeners of a Gateway.
pub(crate) fn listener_says(document: &Value, gateway: &str, condition: &str, status: &str) -> Option<String> {
    let resources = document["resources"].as_array()?.iter();
    let gateways = resources.filter(|r| r["kind"] == "Gateway" && r["name"] == gateway);
    let listeners = gateways.flat_map(|g| g["status"]["listeners"].as_array().into_iter().flatten());
    let mut conditions = listeners.flat_map(|l| l["conditions"].as_array().into_iter().flatten());
    let found = conditions.find(|c| c["type"] == condition && c["status"] == status)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

/// The messages of a policy's conditions of this type and status, under all its ancestors.
pub(crate) fn policy_says(document: &Value, kind: &str, policy: &str, condition: &str, status: &str) -> Vec<String> {
    let resources = document["resources"].as_array().into_iter().flatten();
    let policies = resources.filter(|r| r["kind"] == kind && r["name"] == policy);
    let ancestors = policies.flat_map(|p| p["status"]["ancestors"].as_array().into_iter().flatten());
    let conditions = ancestors.flat_map(|a| a["conditions"].as_array().into_iter().flatten());
    let found = conditions.filter(|c| c["type"] == condition && c["status"] == status);
    found
        .map(|c| c["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}
