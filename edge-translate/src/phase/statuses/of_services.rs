//! Settings of services which have no effect, those that a policy asks and those that a proxy tells: what they say is
//! of the requests of clients.

use crate::api::edge_proxy::EdgeProxySpec;
use serde_json::Value;
use std::fmt;

/// Where a service that is asked has its settings.
const SETTINGS: &str = "backendSettings";

/// Members of settings, and why they come to nothing; where none is said here, limits of who asks hold.
const IDLE: [(&[&str], Option<&str>); 5] = [
    (&["loadBalancer", "consistentHash"], Some(HASHES_NOTHING)),
    (
        &["loadBalancer", "endpointOverride"],
        Some("the service gets no header of a client"),
    ),
    (&["timeout", "http", "requestTimeout"], None),
    (&["timeout", "http", "streamIdleTimeout"], None),
    (&["timeout", "http", "maxStreamDuration"], None),
];

const HASHES_NOTHING: &str = "a proxy hashes nothing of the requests that it makes itself";
const LIMITED: &str = "the policy's own limit holds";
const UNLIMITED: &str = "a proxy has limits of its own for what it tells";

/// A place in what was written, told by the one around it: a path is written for what there is something to say of, and
/// that is hardly ever.
#[derive(Clone, Copy)]
enum FieldPath<'a> {
    Top(&'static str),
    Member(&'a FieldPath<'a>, &'a str),
    Entry(&'a FieldPath<'a>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(name),
            Self::Member(around, name) => write!(f, "{around}.{name}"),
            Self::Entry(around, n) => write!(f, "{around}[{n}]"),
        }
    }
}

/// The settings without an effect in a policy, a sentence each.
pub(super) fn of_policy(spec: &Value) -> Vec<String> {
    let mut told = Vec::new();
    look(LIMITED, FieldPath::Top("spec"), spec, &mut told);
    told
}

/// The same for those whom an EdgeProxy names.
pub(super) fn of_proxy(spec: &EdgeProxySpec) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(Ok(telemetry)) = spec.telemetry.as_ref().map(serde_json::to_value) {
        look(UNLIMITED, FieldPath::Top("spec.telemetry"), &telemetry, &mut told);
    }
    told
}

fn look(limits: &str, place: FieldPath<'_>, value: &Value, told: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let place = FieldPath::Member(&place, name);
                match name == SETTINGS {
                    true => told.extend(idle(limits, place, member)),
                    false => look(limits, place, member, told),
                }
            }
        }
        Value::Array(entries) => {
            for (n, entry) in entries.iter().enumerate() {
                look(limits, FieldPath::Entry(&place, n), entry, told);
            }
        }
        _ => {}
    }
}

fn idle<'a>(limits: &'a str, place: FieldPath<'a>, settings: &'a Value) -> impl Iterator<Item = String> + 'a {
    let is_set = move |field: &[&str]| !field.iter().fold(settings, |at, name| &at[*name]).is_null();
    let set = IDLE.iter().filter(move |(field, _)| is_set(field));
    set.map(move |(field, why)| format!("{place}.{} has no effect: {}", field.join("."), why.unwrap_or(limits)))
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
            of_policy(&spec),
            [
                format!("spec.extAuth.http.backendSettings.timeout.http.requestTimeout has no effect: {LIMITED}"),
                format!("spec.extProc[1].backendSettings.loadBalancer.consistentHash has no effect: {HASHES_NOTHING}"),
            ]
        );
    }
}
