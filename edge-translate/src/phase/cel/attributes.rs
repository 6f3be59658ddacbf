//! What Envoy 1.40 calls attributes. One that it doesn't know is never there, so that an expression about it says
//! nothing for ever.

use super::text_of;
use cel::common::ast::{CallExpr, Expr, SelectExpr};

/// A first part, and what may stand behind it.
struct Root {
    name: &'static str,
    /// None where that is whatever others have put there, or a message of protobuf.
    members: Option<&'static [&'static str]>,
}

const ROOTS: [Root; 11] = [
    Root {
        name: "request",
        members: Some(&[
            "duration",
            "headers",
            "headers_bytes",
            "host",
            "id",
            "method",
            "path",
            "protocol",
            "query",
            "referer",
            "scheme",
            "size",
            "time",
            "total_size",
            "url_path",
            "useragent",
        ]),
    },
    Root {
        name: "response",
        members: Some(&[
            "backend_latency",
            "code",
            "code_details",
            "flags",
            "grpc_status",
            "headers",
            "headers_bytes",
            "size",
            "total_size",
            "trailers",
        ]),
    },
    Root {
        name: "connection",
        members: Some(&[
            "dns_san_local_certificate",
            "dns_san_peer_certificate",
            "id",
            "mtls",
            "peer_certificate",
            "requested_server_name",
            "sha256_peer_certificate_digest",
            "subject_local_certificate",
            "subject_peer_certificate",
            "termination_details",
            "tls_version",
            "transport_failure_reason",
            "uri_san_local_certificate",
            "uri_san_peer_certificate",
        ]),
    },
    Root {
        name: "upstream",
        members: Some(&[
            "address",
            "cx_pool_ready_duration",
            "dns_san_local_certificate",
            "dns_san_peer_certificate",
            "local_address",
            "locality",
            "num_endpoints",
            "peer_certificate",
            "port",
            "request_attempt_count",
            "sha256_peer_certificate_digest",
            "subject_local_certificate",
            "subject_peer_certificate",
            "tls_version",
            "transport_failure_reason",
            "uri_san_local_certificate",
            "uri_san_peer_certificate",
        ]),
    },
    Root {
        name: "source",
        members: Some(&["address", "port"]),
    },
    Root {
        name: "destination",
        members: Some(&["address", "port"]),
    },
    Root {
        name: "xds",
        members: Some(&[
            "cluster_metadata",
            "cluster_name",
            "filter_chain_name",
            "listener_direction",
            "listener_metadata",
            "node",
            "route_metadata",
            "route_name",
            "upstream_host_locality_metadata",
            "upstream_host_metadata",
            "virtual_host_metadata",
            "virtual_host_name",
        ]),
    },
    Root {
        name: "metadata",
        members: None,
    },
    Root {
        name: "filter_state",
        members: None,
    },
    Root {
        name: "upstream_filter_state",
        members: None,
    },
    // Names of types begin with it.
    Root {
        name: "google",
        members: None,
    },
];

/// Names of types, as `type()` gives them.
const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// A name that stands for itself: a first part, or a type.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    match ROOTS.iter().any(|root| root.name == name) || TYPES.contains(&name) {
        true => Ok(()),
        false => Err(unknown(name)),
    }
}

/// What is selected from something.
pub(super) fn check_selected(select: &SelectExpr) -> Result<(), String> {
    check_member(&select.operand.expr, &select.field)
}

/// What is called up by a constant name.
pub(super) fn check_called_up(call: &CallExpr) -> Result<(), String> {
    match called_up(call) {
        Some((of, name)) => check_member(of, name),
        None => Ok(()),
    }
}

/// Whose member `of[name]` is.
pub(super) fn called_up(call: &CallExpr) -> Option<(&Expr, &str)> {
    match call.args.as_slice() {
        [of, name] if call.func_name == "_[_]" => Some((&of.expr, text_of(&name.expr)?)),
        _ => None,
    }
}

fn check_member(of: &Expr, name: &str) -> Result<(), String> {
    let Expr::Ident(root) = of else {
        return Ok(());
    };
    let known = ROOTS.iter().find(|known| known.name == root.as_str());
    match known.and_then(|known| known.members) {
        Some(members) if !members.contains(&name) => Err(unknown(&format!("{root}.{name}"))),
        _ => Ok(()),
    }
}

fn unknown(name: &str) -> String {
    format!("{name} is no attribute that proxies know")
}
