//! What Envoy 1.40 calls attributes. One that it doesn't know is never there, so that an expression about it says
//! nothing for ever.

use super::text_of;
use cel::common::ast::{CallExpr, Expr, SelectExpr};

/// What an attribute gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// True or false.
    Truth,
    /// The header fields of a message, whose values are texts.
    Fields,
    /// A text, a number or the like.
    Other,
    /// Whatever others have put there.
    Anything,
}

/// A first part, and what may stand behind it.
struct Root {
    name: &'static str,
    /// None where that is whatever others have put there, or a message of protobuf.
    members: Option<Members>,
}

/// Names by what they give.
struct Members {
    truths: &'static [&'static str],
    fields: &'static [&'static str],
    others: &'static [&'static str],
}

impl Root {
    fn gives(&self, name: &str) -> Option<Gives> {
        let Some(members) = &self.members else {
            return Some(Gives::Anything);
        };
        let kinds = [
            (members.truths, Gives::Truth),
            (members.fields, Gives::Fields),
            (members.others, Gives::Other),
        ];
        let found = kinds.into_iter().find(|(names, _)| names.contains(&name));
        found.map(|(_, gives)| gives)
    }
}

static ROOTS: [Root; 11] = [
    Root {
        name: "request",
        members: Some(Members {
            truths: &[],
            fields: &["headers"],
            others: &[
                "duration",
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
            ],
        }),
    },
    Root {
        name: "response",
        members: Some(Members {
            truths: &[],
            fields: &["headers", "trailers"],
            others: &[
                "backend_latency",
                "code",
                "code_details",
                "flags",
                "grpc_status",
                "headers_bytes",
                "size",
                "total_size",
            ],
        }),
    },
    Root {
        name: "connection",
        members: Some(Members {
            truths: &["mtls"],
            fields: &[],
            others: &[
                "dns_san_local_certificate",
                "dns_san_peer_certificate",
                "id",
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
            ],
        }),
    },
    Root {
        name: "upstream",
        members: Some(Members {
            truths: &[],
            fields: &[],
            others: &[
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
            ],
        }),
    },
    Root {
        name: "source",
        members: Some(Members {
            truths: &[],
            fields: &[],
            others: &["address", "port"],
        }),
    },
    Root {
        name: "destination",
        members: Some(Members {
            truths: &[],
            fields: &[],
            others: &["address", "port"],
        }),
    },
    Root {
        name: "xds",
        members: Some(Members {
            truths: &[],
            fields: &[],
            others: &[
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
            ],
        }),
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
    match root(name).is_some() || TYPES.contains(&name) {
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
    let Expr::Ident(first) = of else {
        return Ok(());
    };
    match root(first) {
        Some(root) if root.gives(name).is_none() => Err(unknown(&format!("{first}.{name}"))),
        _ => Ok(()),
    }
}

/// What the member of a first part gives, if both are known.
pub(super) fn gives(first: &str, name: &str) -> Option<Gives> {
    root(first)?.gives(name)
}

fn root(name: &str) -> Option<&'static Root> {
    ROOTS.iter().find(|root| root.name == name)
}

fn unknown(name: &str) -> String {
    format!("{name} is no attribute that proxies know")
}

#[cfg(test)]
mod tests {
    use super::{Gives, check_name, gives};

    /// Where our proxy has its own table of what it tells: it knows nothing of the translation, and shares no table.
    const OF_PROXY: &str = include_str!("../../../../edge-proxy/src/compile/expression.rs");

    /// All texts in a constant of the proxy's.
    fn texts(constant: &str) -> Vec<&'static str> {
        let (_, rest) = OF_PROXY.split_once(&format!("const {constant}: ")).unwrap();
        let (table, _) = rest.split_once("];").unwrap();
        table.split('"').skip(1).step_by(2).collect()
    }

    #[test]
    fn whatever_our_proxy_tells_may_be_asked_for() {
        let roots = texts("ROOTS");
        assert!(
            roots.len() > 5 && roots.iter().all(|root| check_name(root).is_ok()),
            "{roots:?}"
        );
        let attributes = texts("ATTRIBUTES");
        assert!(attributes.len() > 20, "{attributes:?}");
        for attribute in attributes.chunks(2) {
            let expected = match attribute {
                ["connection", "mtls"] => Gives::Truth,
                _ => Gives::Other,
            };
            assert_eq!(gives(attribute[0], attribute[1]), Some(expected), "{attribute:?}");
        }
        for field in texts("FIELDS").chunks(2) {
            assert_eq!(gives("request", field[0]), Some(Gives::Other), "{field:?}");
        }
    }
}
