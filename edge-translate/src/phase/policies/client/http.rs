//! What clients may do over HTTP.

use super::{Problems, headers};
use crate::{
    api::{
        ClientTrafficPolicySpec,
        client_traffic::{
            self as api, ClientIpDetection, PathEscapedSlashAction, SchemeHeaderTransform, XForwardedFor,
        },
    },
    phase::{
        cidr::cidr,
        policies::{text_match::text_match, traffic},
    },
};
use edge_ir::{
    AgedConnection, AppendsPeer, ClientAddress, ClientLimits, ClientSettings, EscapedSlashes, HeaderCase,
    Http1Settings, Http10, MissingAddress, Scheme, Slashes, Trailers,
};
use std::sync::Arc;

/// What a policy lets clients do.
pub(super) fn settings(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> ClientSettings {
    let path = spec.path.as_ref();
    ClientSettings {
        address: spec
            .client_ip_detection
            .as_deref()
            .map_or_else(ClientAddress::default, |detection| address(detection, problems)),
        escaped_slashes: escaped_slashes(path, problems),
        slashes: match path {
            Some(path) if path.disable_merge_slashes => Slashes::Kept,
            Some(_) | None => Slashes::Merged,
        },
        scheme: match &spec.scheme {
            None | Some(SchemeHeaderTransform::Preserve) => Scheme::Client,
            Some(SchemeHeaderTransform::MatchBackend) => Scheme::Backend,
            Some(SchemeHeaderTransform::Other(other)) => {
                problems.add("Scheme", format_args!("{other} is not Preserve or MatchBackend"));
                Scheme::default()
            }
        },
        headers: spec
            .headers
            .as_deref()
            .map(|it| headers::headers(it, problems))
            .unwrap_or_default(),
        limits: limits(spec, problems),
        http1: spec.http1.as_deref().map(|it| http1(it, problems)).unwrap_or_default(),
        http2: spec
            .http2
            .as_deref()
            .map(|it| traffic::http2(it, problems))
            .unwrap_or_default(),
    }
}

fn escaped_slashes(path: Option<&api::PathSettings>, problems: &mut Problems) -> EscapedSlashes {
    match path.and_then(|path| path.escaped_slashes_action.as_ref()) {
        None | Some(PathEscapedSlashAction::UnescapeAndRedirect) => EscapedSlashes::Redirected,
        Some(PathEscapedSlashAction::UnescapeAndForward) => EscapedSlashes::Unescaped,
        Some(PathEscapedSlashAction::KeepUnchanged) => EscapedSlashes::Kept,
        Some(PathEscapedSlashAction::RejectRequest) => EscapedSlashes::Refused,
        Some(PathEscapedSlashAction::Other(other)) => {
            problems.add("Path", format_args!("unsupported escapedSlashesAction {other}"));
            EscapedSlashes::default()
        }
    }
}

const DETECTION: &str = "ClientIPDetection";

fn address(detection: &ClientIpDetection, problems: &mut Problems) -> ClientAddress {
    match (
        &detection.x_forwarded_for,
        &detection.custom_header,
        &detection.direct_source_ip,
    ) {
        (Some(forwarded), None, None) => forwarded_for(forwarded, problems),
        (None, Some(header), None) => ClientAddress::Header {
            name: problems.token(DETECTION, "customHeader", &header.name),
            missing: match header.fail_closed {
                true => MissingAddress::Refused,
                false => MissingAddress::Taken,
            },
        },
        (None, None, Some(_)) => ClientAddress::Connection,
        _ => {
            problems.add(
                DETECTION,
                "exactly one of xForwardedFor, customHeader, or directSourceIP must be set",
            );
            ClientAddress::default()
        }
    }
}

fn forwarded_for(forwarded: &XForwardedFor, problems: &mut Problems) -> ClientAddress {
    let append = match forwarded.disable_x_forwarded_for_append {
        true => AppendsPeer::No,
        false => AppendsPeer::Yes,
    };
    match (forwarded.num_trusted_hops, forwarded.trusted_cidrs.as_deref()) {
        (Some(proxies), None) => ClientAddress::Hops { proxies, append },
        (None, Some(networks)) if !networks.is_empty() => {
            for network in networks {
                if let Err(why) = cidr(network) {
                    problems.add(DETECTION, format_args!("invalid trustedCIDRs {network:?}: {why}"));
                }
            }
            ClientAddress::Networks {
                trusted: networks.iter().map(|network| Arc::from(&**network)).collect(),
                append,
            }
        }
        _ => {
            problems.add(DETECTION, "only one of numTrustedHops or trustedCIDRs must be set");
            ClientAddress::default()
        }
    }
}

fn limits(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> ClientLimits {
    const TIMEOUT: &str = "Timeout";
    let timeout = spec.timeout.as_deref();
    let http = timeout.and_then(|timeout| timeout.http.as_ref());
    let tcp = timeout.and_then(|timeout| timeout.tcp.as_ref());
    let connection = spec.connection.as_deref();
    let limit = connection.and_then(|connection| connection.connection_limit.as_deref());
    let requests = limit.and_then(|limit| limit.max_requests_per_connection);
    // A connection of HTTP is one of TCP; what is wrong with the limit of that is told with the connections.
    let of_connection = || {
        let text = tcp.and_then(|tcp| tcp.idle_timeout.as_ref());
        Problems::default().millis(TIMEOUT, "TCP IdleTimeout", text)
    };
    let mut of = |area, field, text| problems.millis(area, field, text);
    ClientLimits {
        request: of(
            TIMEOUT,
            "HTTP RequestReceivedTimeout",
            http.and_then(|http| http.request_received_timeout.as_ref()),
        ),
        request_headers: of(
            TIMEOUT,
            "HTTP RequestHeadersReceivedTimeout",
            http.and_then(|http| http.request_headers_received_timeout.as_ref()),
        ),
        idle: of(
            TIMEOUT,
            "HTTP IdleTimeout",
            http.and_then(|http| http.idle_timeout.as_ref()),
        )
        .or_else(of_connection),
        stream_idle: of(
            TIMEOUT,
            "HTTP StreamIdleTimeout",
            http.and_then(|http| http.stream_idle_timeout.as_ref()),
        ),
        connection: of(
            "Connection",
            "MaxConnectionDuration",
            limit.and_then(|limit| limit.max_connection_duration.as_ref()),
        ),
        stream: of(
            "Connection",
            "MaxStreamDuration",
            limit.and_then(|limit| limit.max_stream_duration.as_ref()),
        ),
        requests_per_connection: requests,
    }
}

fn http1(http1: &api::Http1Settings, problems: &mut Problems) -> Http1Settings {
    let upgrades = http1.ignored_upgrade_types.iter();
    Http1Settings {
        trailers: match http1.enable_trailers {
            true => Trailers::Passed,
            false => Trailers::Dropped,
        },
        header_case: match http1.preserve_header_case {
            true => HeaderCase::Kept,
            false => HeaderCase::Lower,
        },
        // For whom those without Host are, the listener knows.
        http10: match &http1.http10 {
            Some(_) => Http10::Taken,
            None => Http10::Refused,
        },
        aged: match http1.disable_safe_max_connection_duration {
            true => AgedConnection::Soon,
            false => AgedConnection::AfterResponse,
        },
        ignored_upgrades: upgrades
            .filter_map(|upgrade| text_match("HTTP1", upgrade, problems))
            .collect(),
    }
}
