//! Fields of a ClientTrafficPolicy that no listener can have which it governs, for what these listeners take.

use crate::api::{Listener, Protocol, TlsMode};
use serde_json::Value;

/// What a listener must do for a field to have an effect there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Take connections.
    Connections,
    /// Serve requests.
    Requests,
    /// Look at how TLS begins.
    Hello,
    /// End TLS.
    Termination,
    /// Serve requests in TLS.
    Https,
}

/// Fields and what they need. Those of TLS that aren't here need its end.
const FIELDS: [(&str, Need); 25] = [
    ("tcpKeepalive", Need::Connections),
    ("enableProxyProtocol", Need::Connections),
    ("proxyProtocol", Need::Connections),
    ("clientIPDetection", Need::Requests),
    ("tls.fingerprints", Need::Hello),
    ("path", Need::Requests),
    ("headers", Need::Requests),
    ("timeout.tcp.idleTimeout", Need::Connections),
    ("timeout.tcp.tlsHandshakeTimeout", Need::Termination),
    ("timeout.tcp.connectionInspectionTimeout", Need::Connections),
    ("timeout.http", Need::Requests),
    ("connection.connectionLimit.value", Need::Connections),
    ("connection.connectionLimit.closeDelay", Need::Connections),
    ("connection.connectionLimit.maxConnectionDuration", Need::Requests),
    ("connection.connectionLimit.maxRequestsPerConnection", Need::Requests),
    ("connection.connectionLimit.maxStreamDuration", Need::Requests),
    ("connection.bufferLimit", Need::Connections),
    ("connection.socketBufferLimit", Need::Connections),
    ("connection.maxAcceptPerSocketEvent", Need::Connections),
    ("http1", Need::Requests),
    ("http2", Need::Requests),
    ("http3", Need::Https),
    ("grpc", Need::Requests),
    ("healthCheck", Need::Requests),
    ("scheme", Need::Requests),
];

/// The fields of a spec that none of these listeners can have, and why.
pub(super) fn idle(spec: &Value, listeners: &[&Listener]) -> Vec<(String, &'static str)> {
    let of_tls = spec["tls"].as_object().into_iter().flatten();
    let of_tls = of_tls
        .map(|(name, _)| format!("tls.{name}"))
        .filter(|field| FIELDS.iter().all(|(known, _)| known != field))
        .map(|field| (field, Need::Termination));
    let fields = FIELDS.iter().map(|(field, need)| ((*field).to_owned(), *need));
    fields
        .chain(of_tls)
        .filter(|(field, need)| is_set(spec, field) && !listeners.iter().any(|listener| need.is_met(listener)))
        .map(|(field, need)| (field, need.why()))
        .collect()
}

fn is_set(spec: &Value, field: &str) -> bool {
    let value = field.split('.').fold(spec, |value, name| &value[name]);
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

impl Need {
    fn is_met(self, listener: &Listener) -> bool {
        let passes = || {
            let mode = listener.tls.as_deref().map(|tls| &tls.mode);
            mode == Some(&TlsMode::Passthrough)
        };
        match (self, &listener.protocol) {
            // What it is, nobody knows.
            (_, Protocol::Other(_)) => true,
            (Self::Connections, protocol) => *protocol != Protocol::Udp,
            (Self::Requests, protocol) => matches!(protocol, Protocol::Http | Protocol::Https),
            (Self::Hello, protocol) => matches!(protocol, Protocol::Https | Protocol::Tls),
            (Self::Termination, Protocol::Tls) => !passes(),
            (Self::Termination | Self::Https, protocol) => *protocol == Protocol::Https,
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Connections => "has datagrams alone",
            Self::Requests => "serves no HTTP",
            Self::Hello => "takes no TLS",
            Self::Termination => "terminates no TLS",
            Self::Https => "serves no HTTPS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listener(text: Value) -> Listener {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn one_listener_that_can_have_a_field_is_enough() {
        let udp = listener(json!({"name": "u", "protocol": "UDP", "port": 1}));
        let http = listener(json!({"name": "h", "protocol": "HTTP", "port": 2}));
        let passes = listener(json!({"name": "p", "protocol": "TLS", "port": 3, "tls": {"mode": "Passthrough"}}));
        let spec = json!({
            "http3": {}, "headers": {}, "enableProxyProtocol": false,
            "tls": {"minVersion": "1.3", "fingerprints": ["JA3"], "ciphers": []},
        });
        let told = |listeners: &[&Listener]| {
            let idle = idle(&spec, listeners).into_iter().map(|(field, _)| field);
            idle.collect::<Vec<_>>()
        };
        let all = ["tls.fingerprints", "headers", "http3", "tls.minVersion"];
        assert_eq!(told(&[&udp]), all);
        assert_eq!(told(&[&udp, &http]), ["tls.fingerprints", "http3", "tls.minVersion"]);
        assert_eq!(told(&[&http, &passes]), ["http3", "tls.minVersion"]);
    }
}
