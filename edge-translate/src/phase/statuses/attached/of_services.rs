//! Settings of the services that a policy asks which have no effect: what they say is of the requests of clients.

use serde_json::Value;

/// Where a service that is asked has its settings.
const SETTINGS: &str = "backendSettings";

/// Members of these, and why they come to nothing.
const IDLE: [(&[&str], &str); 5] = [
    (&["loadBalancer", "consistentHash"], HASHES_NOTHING),
    (
        &["loadBalancer", "endpointOverride"],
        "the service gets no header of a client",
    ),
    (&["timeout", "http", "requestTimeout"], LIMITED),
    (&["timeout", "http", "streamIdleTimeout"], LIMITED),
    (&["timeout", "http", "maxStreamDuration"], LIMITED),
];

const HASHES_NOTHING: &str = "a proxy hashes nothing of the requests that it makes itself";
const LIMITED: &str = "the policy's own limit holds";

/// The settings without an effect in a policy, a sentence each.
pub(super) fn told(spec: &Value) -> Vec<String> {
    let mut told = Vec::new();
    look("spec", spec, &mut told);
    told
}

fn look(path: &str, value: &Value, told: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                match name == SETTINGS {
                    true => told.extend(idle(&path, member)),
                    false => look(&path, member, told),
                }
            }
        }
        Value::Array(entries) => {
            for (n, entry) in entries.iter().enumerate() {
                look(&format!("{path}[{n}]"), entry, told);
            }
        }
        _ => {}
    }
}

fn idle(path: &str, settings: &Value) -> impl Iterator<Item = String> {
    let is_set = move |field: &[&str]| !field.iter().fold(settings, |at, name| &at[*name]).is_null();
    let set = IDLE.iter().filter(move |(field, _)| is_set(field));
    set.map(move |(field, why)| format!("{path}.{} has no effect: {why}", field.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_service_is_told_of_by_its_place() {
        let timeout =
            json!({"http": {"requestTimeout": "1s", "connectionIdleTimeout": "9s"}, "tcp": {"connectTimeout": "1s"}});
        let hashed = json!({"type": "ConsistentHash", "consistentHash": {"type": "SourceIP"}});
        let spec = json!({
            "extAuth": {"http": {"backendSettings": {"timeout": timeout}}},
            "extProc": [{}, {"backendSettings": {"loadBalancer": hashed}}],
            "jwt": {"providers": [{"remoteJWKS": {"backendSettings": {"loadBalancer": {"type": "Random"}}}}]},
        });
        assert_eq!(
            told(&spec),
            [
                format!("spec.extAuth.http.backendSettings.timeout.http.requestTimeout has no effect: {LIMITED}"),
                format!("spec.extProc[1].backendSettings.loadBalancer.consistentHash has no effect: {HASHES_NOTHING}"),
            ]
        );
    }
}
