//! What became of probes, for whoever wants to know: a line of JSON each, in the form of Envoy's `HealthCheckEvent`.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::calendar::iso;
use crate::config::endpoint::{Host, HostAddress};
use crate::config::health::Probe;
use crate::health::course::Failure;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A host is unhealthy from now on.
    Ejected(Failure),
    /// It is healthy from now on.
    Added {
        /// By its first probe.
        first: bool,
    },
    /// A probe passed and changed nothing.
    Passed,
    /// A probe failed.
    Failed {
        /// Why.
        failure: Failure,
        /// It was the first.
        first: bool,
    },
    /// The host says that it is degraded.
    Degraded,
    /// It doesn't any more.
    NoLongerDegraded,
}

/// The line of an event, with its end.
pub(super) fn line(probe: &Probe, cluster: &str, host: &Host, event: Event) -> Vec<u8> {
    let (name, content) = match event {
        Event::Ejected(failure) => ("eject_unhealthy_event", told(failure, None)),
        Event::Added { first } => ("add_healthy_event", json!({ "first_check": first })),
        Event::Passed => ("successful_health_check_event", json!({})),
        Event::Failed { failure, first } => ("health_check_failure_event", told(failure, Some(first))),
        Event::Degraded => ("degraded_healthy_host", json!({})),
        Event::NoLongerDegraded => ("no_longer_degraded_host", json!({})),
    };
    let line = json!({
        "health_checker_type": kind(probe),
        "host": address(&host.address),
        "cluster_name": cluster,
        "timestamp": iso(SystemTime::now()),
        name: content,
    });
    let mut text = line.to_string().into_bytes();
    text.push(b'\n');
    text
}

fn kind(probe: &Probe) -> &'static str {
    match probe {
        Probe::Http(_) => "HTTP",
        Probe::Tcp { .. } => "TCP",
        Probe::Grpc { .. } => "GRPC",
    }
}

fn told(failure: Failure, first: Option<bool>) -> Value {
    let mut told = json!({ "failure_type": failure.kind, "http_status_code": failure.status });
    if let (Some(first), Some(fields)) = (first, told.as_object_mut()) {
        fields.insert("first_check".to_owned(), first.into());
    }
    told
}

fn address(address: &HostAddress) -> Value {
    match address {
        HostAddress::Socket(address) => json!({ "socket_address": {
            "protocol": "TCP",
            "address": address.ip().to_string(),
            "resolver_name": "",
            "ipv4_compat": false,
            "port_value": address.port(),
        }}),
        HostAddress::Pipe(path) => json!({ "pipe": { "path": path.to_string_lossy(), "mode": 0 } }),
        HostAddress::Internal(name) => json!({ "envoy_internal_address": { "server_listener_name": &**name } }),
    }
}
