//! Command operators: the parts of a format (`%REQ(:PATH)%`) that a proxy fills in, for access logs, tags of traces and
//! bodies of answers.
//!
//! A proxy refuses a whole listener or route table for one operator that it doesn't know. So what a format says is
//! checked here, by the list of what Envoy 1.40 knows. `%%` stands for one percent sign.

/// What stands behind an operator's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    None,
    Optional,
    Needed,
}

/// Operators by what stands behind their names, separated by spaces.
const KNOWN: [(Argument, &str); 3] = [
    (
        Argument::Needed,
        "\
CLUSTER_METADATA COMMON_DURATION DYNAMIC_METADATA ENVIRONMENT FILTER_STATE METADATA QUERY_PARAM REQ \
    REQUEST_HEADER RESP RESPONSE_HEADER RESPONSE_TRAILER TRAILER UPSTREAM_FILTER_STATE UPSTREAM_METADATA",
    ),
    (
        Argument::Optional,
        "\
DOWNSTREAM_PEER_CERT_V_END DOWNSTREAM_PEER_CERT_V_START EMIT_TIME EMIT_TIME_LOCAL GRPC_STATUS PATH QUERY_PARAMS \
    REQUESTED_SERVER_NAME START_TIME START_TIME_LOCAL UPSTREAM_PEER_CERT_V_END UPSTREAM_PEER_CERT_V_START",
    ),
    (
        Argument::None,
        "\
ACCESS_LOG_TYPE BYTES_RECEIVED BYTES_RETRANSMITTED BYTES_SENT CONNECTION_ID CONNECTION_TERMINATION_DETAILS \
    CUSTOM_FLAGS DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT \
    DOWNSTREAM_DETECTED_CLOSE_TYPE DOWNSTREAM_DIRECT_LOCAL_ADDRESS DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT \
    DOWNSTREAM_DIRECT_LOCAL_PORT DOWNSTREAM_DIRECT_REMOTE_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT \
    DOWNSTREAM_DIRECT_REMOTE_PORT DOWNSTREAM_HANDSHAKE_DURATION DOWNSTREAM_HEADER_BYTES_RECEIVED \
    DOWNSTREAM_HEADER_BYTES_SENT DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT \
    DOWNSTREAM_LOCAL_CLOSE_REASON DOWNSTREAM_LOCAL_DNS_SAN DOWNSTREAM_LOCAL_EMAIL_SAN DOWNSTREAM_LOCAL_IP_SAN \
    DOWNSTREAM_LOCAL_OTHERNAME_SAN DOWNSTREAM_LOCAL_PORT DOWNSTREAM_LOCAL_SUBJECT DOWNSTREAM_LOCAL_URI_SAN \
    DOWNSTREAM_PEER_CERT DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1 DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256 \
    DOWNSTREAM_PEER_CHAIN_SERIALS DOWNSTREAM_PEER_DNS_SAN DOWNSTREAM_PEER_EMAIL_SAN DOWNSTREAM_PEER_FINGERPRINT_1 \
    DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_IP_SAN DOWNSTREAM_PEER_ISSUER DOWNSTREAM_PEER_OTHERNAME_SAN \
    DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_SUBJECT DOWNSTREAM_PEER_URI_SAN DOWNSTREAM_REMOTE_ADDRESS \
    DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_REMOTE_PORT DOWNSTREAM_TLS_CIPHER DOWNSTREAM_TLS_SESSION_ID \
    DOWNSTREAM_TLS_VERSION DOWNSTREAM_TRANSPORT_FAILURE_REASON DOWNSTREAM_WIRE_BYTES_RECEIVED \
    DOWNSTREAM_WIRE_BYTES_SENT DURATION FILTER_CHAIN_NAME GRPC_STATUS_NUMBER HOSTNAME LISTENER_NAME LOCAL_REPLY_BODY \
    PACKETS_RETRANSMITTED PROTOCOL REQUEST_DURATION REQUEST_HEADERS_BYTES REQUEST_TX_DURATION RESPONSE_CODE \
    RESPONSE_CODE_DETAILS RESPONSE_DURATION RESPONSE_FLAGS RESPONSE_FLAGS_LONG RESPONSE_HEADERS_BYTES \
    RESPONSE_TRAILERS_BYTES RESPONSE_TX_DURATION ROUNDTRIP_DURATION ROUTE_NAME SPAN_ID STREAM_ID TLS_JA3_FINGERPRINT \
    TLS_JA4_FINGERPRINT TRACE_ID UNIQUE_ID UPSTREAM_CLUSTER UPSTREAM_CLUSTER_RAW UPSTREAM_CONNECTION_ID \
    UPSTREAM_CONNECTION_IDS_ATTEMPTED UPSTREAM_CONNECTION_POOL_READY_DURATION \
    UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT UPSTREAM_DETECTED_CLOSE_TYPE \
    UPSTREAM_HEADER_BYTES_RECEIVED UPSTREAM_HEADER_BYTES_SENT UPSTREAM_HOST UPSTREAM_HOSTS_ATTEMPTED \
    UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT UPSTREAM_HOST_NAME UPSTREAM_HOST_NAMES_ATTEMPTED \
    UPSTREAM_HOST_NAME_WITHOUT_PORT UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT \
    UPSTREAM_LOCAL_CLOSE_REASON UPSTREAM_LOCAL_DNS_SAN UPSTREAM_LOCAL_IP_SAN UPSTREAM_LOCAL_PORT \
    UPSTREAM_LOCAL_URI_SAN UPSTREAM_PEER_CERT UPSTREAM_PEER_DNS_SAN UPSTREAM_PEER_IP_SAN UPSTREAM_PEER_ISSUER \
    UPSTREAM_PEER_SUBJECT UPSTREAM_PEER_URI_SAN UPSTREAM_PROTOCOL UPSTREAM_REMOTE_ADDRESS \
    UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT UPSTREAM_REMOTE_PORT UPSTREAM_REQUEST_ATTEMPT_COUNT UPSTREAM_SERVER_NAME \
    UPSTREAM_TLS_CIPHER UPSTREAM_TLS_SESSION_ID UPSTREAM_TLS_VERSION UPSTREAM_TRANSPORT_FAILURE_REASON \
    UPSTREAM_WIRE_BYTES_RECEIVED UPSTREAM_WIRE_BYTES_SENT VIRTUAL_CLUSTER_NAME",
    ),
];

/// Shows what a proxy was started with, which is none of the business of who owns a route, or of its clients.
const OF_THE_PROXY: &str = "ENVIRONMENT";

/// Operators that a proxy knows where extensions are given to a format, as with access logs.
const BY_EXTENSION: [&str; 2] = ["CEL", "REQ_WITHOUT_QUERY"];

/// Whose format it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Of a route.
    Route,
    /// Of a span, which goes to who runs the proxies.
    Span,
    /// Of who runs the proxies.
    Fleet,
}

/// Whether a proxy takes the format of a route; if not, why.
pub(crate) fn check(format: &str) -> Result<(), String> {
    check_of(Owner::Route, format)
}

/// Whether a proxy takes a format of spans; if not, why.
pub(crate) fn check_of_span(format: &str) -> Result<(), String> {
    check_of(Owner::Span, format)
}

/// Whether a proxy takes a format of access logs; if not, why.
pub(crate) fn check_of_fleet(format: &str) -> Result<(), String> {
    check_of(Owner::Fleet, format)
}

fn check_of(owner: Owner, format: &str) -> Result<(), String> {
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        rest = match after.strip_prefix('%') {
            Some(after) => after,
            None => operator(owner, after)?,
        };
    }
    Ok(())
}

/// Checks the operator that a text begins with; returns what is behind it.
fn operator(owner: Owner, text: &str) -> Result<&str, String> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    let (argument, behind) = match behind.strip_prefix('(') {
        None => (None, behind),
        Some(inner) => closed(inner).ok_or_else(|| format!("%{name}( has no closing )%"))?,
    };
    let Some(rest) = behind.strip_prefix('%') else {
        return Err(format!(
            "\"%{}\" begins no command operator; write %% for a percent sign",
            text.chars().take(20).collect::<String>().escape_debug()
        ));
    };
    let of = |(_, names): &&(Argument, &str)| names.split(' ').any(|known| known == name);
    let by_extension = (owner == Owner::Fleet && BY_EXTENSION.contains(&name)).then_some(&Argument::Needed);
    let Some(wanted) = by_extension.or_else(|| KNOWN.iter().find(of).map(|(wanted, _)| wanted)) else {
        return Err(format!("%{name}% is no command operator that proxies know"));
    };
    if name == OF_THE_PROXY && owner == Owner::Route {
        return Err(format!(
            "%{name}% shows the proxy's own environment, which is not for routes"
        ));
    }
    match (wanted, argument) {
        (Argument::Needed, None | Some("")) => Err(format!("%{name}% needs an argument in parentheses")),
        (Argument::None, Some(_)) => Err(format!("%{name}% takes no argument")),
        _ => Ok(rest),
    }
}

/// An argument with what is behind it: it ends at the first parenthesis that closes the operator, with or without a
/// length.
fn closed(inner: &str) -> Option<(Option<&str>, &str)> {
    inner.match_indices(')').find_map(|(at, _)| {
        let behind = &inner[at + 1..];
        let length = behind.strip_prefix(':').unwrap_or_default();
        let rest = match length.find(|c: char| !c.is_ascii_digit()) {
            Some(n) if n > 0 => &length[n..],
            _ => behind,
        };
        rest.starts_with('%').then_some((Some(&inner[..at]), rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_a_proxy_reads_them() {
        for good in [
            "",
            "plain",
            "100%%",
            "%START_TIME%",
            "%START_TIME(%s.%3f)%",
            "%REQ(X-A?:PATH):10% %RESP(x-b)%",
            "%PATH% %PATH(NQ:PATH)%",
            "%DYNAMIC_METADATA(a:b)%\n",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "100% sure",
            "%",
            "%NOBODY%",
            "%REQ%",
            "%REQ()%",
            "%REQ(x%",
            "%ROUTE_NAME(x)%",
            "%PROTOCOL:5%",
            "%REQ(x):%",
            "%lower%",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn routes_do_not_see_what_a_proxy_was_started_with() {
        assert!(check("%ENVIRONMENT(HOME)%").is_err());
        assert!(check_of_fleet("%ENVIRONMENT(HOME)%").is_ok());
    }

    #[test]
    fn access_logs_know_more_operators() {
        for format in ["%CEL(request.headers['x'].size())%", "%REQ_WITHOUT_QUERY(:PATH)%"] {
            assert!(check(format).is_err(), "{format}");
            assert_eq!(check_of_fleet(format), Ok(()), "{format}");
        }
    }
}
