//! What the status document says, and what clients are told meanwhile.

use anyhow::{Result, ensure};
use e2e::{
    http::{Request, Response},
    stack::Stack,
};
use serde_json::Value;

/// A condition of a policy: kind and name of the policy, type and status of the condition.
pub(crate) type Said<'a> = [&'a str; 4];

/// Waits until the status of a policy says something, and why.
pub(crate) fn wait_until_said(stack: &Stack, said: Said<'_>, why: &str) -> Result<()> {
    stack.look_until(&format!("a status that says {why:?}"), || {
        let says = policy_says(&stack.status()?, said);
        ensure!(says.iter().any(|says| says.contains(why)), "it says {says:?}");
        Ok(Some(()))
    })
}

/// Waits until a host's root is answered so: with this status, and with this header or without it.
pub(crate) fn wait_until_answered(stack: &Stack, host: &str, status: u16, told: (&str, Option<&str>)) -> Result<()> {
    let is_wanted = |answer: &Response| answer.status == status && answer.header(told.0) == told.1;
    let request = Request::get(host, "/");
    stack
        .ask_until(&format!("{status} with {told:?}"), &request, is_wanted)
        .map(drop)
}

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
pub(crate) fn policy_says(document: &Value, [kind, policy, condition, status]: Said<'_>) -> Vec<String> {
    let resources = document["resources"].as_array().into_iter().flatten();
    let policies = resources.filter(|r| r["kind"] == kind && r["name"] == policy);
    let ancestors = policies.flat_map(|p| p["status"]["ancestors"].as_array().into_iter().flatten());
    let conditions = ancestors.flat_map(|a| a["conditions"].as_array().into_iter().flatten());
    let found = conditions.filter(|c| c["type"] == condition && c["status"] == status);
    found
        .map(|c| c["message"].as_str().unwrap_or_default().to_owned())
        .collect()
}
