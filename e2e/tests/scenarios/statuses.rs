//! What the status document says.

use serde_json::Value;

/// The message of the first condition of this type and status among the listeners of a Gateway.
pub(crate) fn listener_says(document: &Value, gateway: &str, condition: &str, status: &str) -> Option<String> {
    let resources = document["resources"].as_array()?.iter();
    let gateways = resources.filter(|r| r["kind"] == "Gateway" && r["name"] == gateway);
    let listeners = gateways.flat_map(|g| g["status"]["listeners"].as_array().into_iter().flatten());
    let mut conditions = listeners.flat_map(|l| l["conditions"].as_array().into_iter().flatten());
    let found = conditions.find(|c| c["type"] == condition && c["status"] == status)?;
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}
