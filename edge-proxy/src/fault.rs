//! What can go wrong with a request, and what follows from it.
//!
//! One enum of faults and one table: who caused it, whether another attempt may help, and the answer that the
//! client gets. Why one place: retries, local replies, counters and logs must agree about a fault.
//! The texts and codes are those of Envoy's router, so that clients and dashboards can't tell the difference.

mod tls;

use std::fmt;

use http::StatusCode;

pub(crate) use tls::TlsFailure;
pub use tls::TlsReports;

/// Who caused a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The client.
    Downstream,
    /// The backend, or the way to it.
    Upstream,
    /// This proxy: its configuration or its limits.
    Internal,
}

/// Which of a retry policy's words covers a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// None: another attempt is pointless or dangerous.
    Never,
    /// `connect-failure`: nothing was sent.
    ConnectFailure,
    /// `refused-stream`: the backend promises that it did nothing.
    RefusedStream,
    /// `reset`: the backend may have acted on the request.
    Reset,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No virtual host or no route takes the request.
    NoRoute,
    /// The route's cluster is not defined; the route says with which code that is answered.
    NoCluster(StatusCode),
    /// The cluster has no usable endpoint.
    NoHealthyUpstream,
    /// The cluster has lost the host of a session; the route says with which code that is answered.
    NoSuchHost(StatusCode),
    /// The host that the request asks for has no address that is known.
    Unresolved,
    /// The route's rewrite makes something of the path that can't be sent.
    BadRewrite,
    /// A circuit breaker is open.
    Overflow,
    /// No connection came about.
    ConnectFailure,
    /// The connection was refused.
    ConnectRefused,
    /// The connection stands, but not TLS on it.
    TlsFailure(TlsFailure),
    /// The connection was not ready in time.
    ConnectTimeout,
    /// The backend closed the connection before a response.
    ConnectionTermination,
    /// The backend reset the stream.
    RemoteReset,
    /// The backend reset the stream without having looked at it.
    RefusedStream,
    /// The backend's response is not HTTP.
    ProtocolError,
    /// The route's timeout.
    RouteTimeout,
    /// The timeout of one attempt.
    PerTryTimeout,
    /// Nothing moved while the request was still arriving.
    IdleRequest,
    /// Nothing moved while the response was awaited.
    IdleResponse,
    /// The head did not arrive in time.
    HeadTimeout,
    /// The request did not arrive in time.
    RequestTimeout,
    /// The stream's longest life.
    MaxDuration,
    /// The client went away or broke off its body.
    DownstreamReset,
    /// The request is malformed, or refused by a rule of the listener.
    BadRequest,
    /// The transfer coding is not understood (RFC 9112 §6.1).
    TransferCoding,
    /// Nobody says who the client is; the listener says with which code that is answered.
    NoClientAddress(StatusCode),
    /// HTTP/1.0 is not served here.
    UpgradeRequired,
    /// No upgrade of this kind on this route.
    UpgradeForbidden,
    /// The head has too many fields.
    HeadTooLarge,
}

/// What follows from a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Who caused it.
    pub(crate) source: Source,
    /// Whether a retry policy may cover it.
    pub(crate) retry: Retry,
    /// The answer's status.
    pub(crate) status: StatusCode,
    /// Envoy's response flag, for logs; empty when it has none.
    pub(crate) flag: &'static str,
    /// Why the answer is what it is, in Envoy's words (`%RESPONSE_CODE_DETAILS%`).
    pub(crate) details: &'static str,
    /// The answer's body.
    pub(crate) body: &'static str,
}

macro_rules! before {
    ($reason:literal) => {
        concat!("upstream_reset_before_response_started{", $reason, "}")
    };
}

macro_rules! reset {
    ($reason:literal) => {
        concat!(
            "upstream connect error or disconnect/reset before headers. reset reason: ",
            $reason
        )
    };
}

impl Fault {
    /// The fault in an error of opening a connection.
    pub(crate) fn of_connecting(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::ConnectionRefused {
            return Self::ConnectRefused;
        }
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailure>());
        tls.map_or(Self::ConnectFailure, |failure| Self::TlsFailure(*failure))
    }

    /// Whether what a client is answered then is an answer of the cluster, as its counters have it. What the client
    /// fails to do isn't, and nor is the end of a time that the listener gives (as in Envoy, where no router hears of
    /// these).
    pub(crate) fn is_of_cluster(self) -> bool {
        !matches!(self, Self::IdleResponse | Self::MaxDuration) && self.verdict().source != Source::Downstream
    }

    /// Why there is no connection to the backend; empty when nothing is known.
    pub(crate) fn transport_failure(self) -> &'static str {
        match self {
            Self::ConnectRefused => "delayed connect error: Connection refused",
            Self::TlsFailure(failure) => failure.transport_failure(),
            _ => "",
        }
    }

    /// Why a backend's stream ended before its response, in Envoy's words; empty where none did.
    pub(crate) fn reset_reason(self) -> &'static str {
        let reason = self.verdict().body.split_once("reset reason: ");
        reason.map_or("", |(_, reason)| reason)
    }

    /// The table.
    #[rustfmt::skip]
    pub(crate) fn verdict(self) -> Verdict {
        use Source::{Downstream, Internal, Upstream};
        let row = |source, retry, status, flag, details, body| Verdict {
            source,
            retry,
            status,
            flag,
            details,
            body,
        };
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        match self {
            Self::NoRoute => row(Downstream, Retry::Never, StatusCode::NOT_FOUND, "NR", "route_not_found", ""),
            Self::NoCluster(status) => row(Internal, Retry::Never, status, "NC", "cluster_not_found", ""),
            Self::BadRewrite => row(Internal, Retry::Never, StatusCode::INTERNAL_SERVER_ERROR, "", "path_rewrite_failed", "path rewrite failed"),
            Self::NoHealthyUpstream => row(Upstream, Retry::Never, unavailable, "UH", "no_healthy_upstream", "no healthy upstream"),
            Self::NoSuchHost(status) => row(Upstream, Retry::Never, status, "UH", "no_healthy_upstream", "no healthy upstream"),
            Self::Unresolved => row(Internal, Retry::Never, unavailable, "DF", "dns_resolution_failure", "DNS resolution failure"),
            Self::Overflow => row(Internal, Retry::Never, unavailable, "UO", before!("overflow"), reset!("overflow")),
            Self::ConnectFailure => row(Upstream, Retry::ConnectFailure, unavailable, "UF", before!("remote_connection_failure"), reset!("remote connection failure")),
            Self::ConnectRefused => row(Upstream, Retry::ConnectFailure, unavailable, "UF", before!("remote_connection_failure|delayed_connect_error:_Connection_refused"), reset!("remote connection failure")),
            Self::TlsFailure(_) => row(Upstream, Retry::ConnectFailure, unavailable, "UF", before!("remote_connection_failure"), reset!("remote connection failure")),
            Self::ConnectTimeout => row(Upstream, Retry::ConnectFailure, unavailable, "UF", before!("connection_timeout"), reset!("connection timeout")),
            Self::ConnectionTermination => row(Upstream, Retry::Reset, unavailable, "UC", before!("connection_termination"), reset!("connection termination")),
            Self::RemoteReset => row(Upstream, Retry::Reset, unavailable, "UR", before!("remote_reset"), reset!("remote reset")),
            Self::RefusedStream => row(Upstream, Retry::RefusedStream, unavailable, "UR", before!("remote_refused_stream_reset"), reset!("remote refused stream reset")),
            Self::ProtocolError => row(Upstream, Retry::Reset, StatusCode::BAD_GATEWAY, "UPE", before!("protocol_error"), reset!("protocol error")),
            Self::RouteTimeout => row(Upstream, Retry::Never, StatusCode::GATEWAY_TIMEOUT, "UT", "response_timeout", "upstream request timeout"),
            Self::PerTryTimeout => row(Upstream, Retry::Reset, StatusCode::GATEWAY_TIMEOUT, "UT", "upstream_per_try_timeout", "upstream request timeout"),
            Self::IdleRequest => row(Downstream, Retry::Never, StatusCode::REQUEST_TIMEOUT, "SI", "stream_idle_timeout", "stream timeout"),
            Self::IdleResponse => row(Upstream, Retry::Never, StatusCode::GATEWAY_TIMEOUT, "SI", "stream_idle_timeout", "stream timeout"),
            Self::HeadTimeout => row(Downstream, Retry::Never, StatusCode::REQUEST_TIMEOUT, "", "request_header_timeout", "request header timeout"),
            Self::RequestTimeout => row(Downstream, Retry::Never, StatusCode::REQUEST_TIMEOUT, "", "request_overall_timeout", "request timeout"),
            Self::MaxDuration => row(Internal, Retry::Never, StatusCode::GATEWAY_TIMEOUT, "DT", "max_duration_timeout", "downstream duration timeout"),
            Self::DownstreamReset => row(Downstream, Retry::Never, StatusCode::BAD_REQUEST, "DC", "downstream_remote_disconnect", ""),
            Self::BadRequest => row(Downstream, Retry::Never, StatusCode::BAD_REQUEST, "DPE", "http1.codec_error", "Bad Request"),
            Self::TransferCoding => row(Downstream, Retry::Never, StatusCode::NOT_IMPLEMENTED, "DPE", "http1.invalid_transfer_encoding", "Not Implemented"),
            Self::NoClientAddress(status) => row(Downstream, Retry::Never, status, "", "rejecting_because_detection_failed", ""),
            Self::UpgradeRequired => row(Downstream, Retry::Never, StatusCode::UPGRADE_REQUIRED, "DPE", "low_version", ""),
            Self::UpgradeForbidden => row(Downstream, Retry::Never, StatusCode::FORBIDDEN, "", "upgrade_failed", ""),
            Self::HeadTooLarge => row(Downstream, Retry::Never, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "DPE", "http1.headers_too_large", ""),
        }
    }
}

/// In words, for the process's own log.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict();
        let words = [
            self.transport_failure(),
            self.reset_reason(),
            verdict.body,
            verdict.details,
        ];
        f.write_str(words.into_iter().find(|words| !words.is_empty()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_in_words() {
        for (fault, told) in [
            (Fault::NoHealthyUpstream, "no healthy upstream"),
            (Fault::ConnectTimeout, "connection timeout"),
            (Fault::ConnectRefused, "delayed connect error: Connection refused"),
            (Fault::NoCluster(StatusCode::NOT_FOUND), "cluster_not_found"),
        ] {
            assert_eq!(fault.to_string(), told);
        }
    }

    /// The whole table once more, as a specification: source, retry word, status, flag, start of the body.
    #[test]
    #[rustfmt::skip]
    fn every_fault_has_its_row() {
        use Retry::{ConnectFailure, Never, RefusedStream, Reset};
        use Source::{Downstream, Internal, Upstream};
        let rows = [
            (Fault::NoRoute, Downstream, Never, 404, "NR", ""),
            (Fault::NoCluster(StatusCode::INTERNAL_SERVER_ERROR), Internal, Never, 500, "NC", ""),
            (Fault::BadRewrite, Internal, Never, 500, "", "path rewrite failed"),
            (Fault::NoHealthyUpstream, Upstream, Never, 503, "UH", "no healthy upstream"),
            (Fault::NoSuchHost(StatusCode::GONE), Upstream, Never, 410, "UH", "no healthy upstream"),
            (Fault::Unresolved, Internal, Never, 503, "DF", "DNS resolution failure"),
            (Fault::Overflow, Internal, Never, 503, "UO", "upstream connect error"),
            (Fault::ConnectFailure, Upstream, ConnectFailure, 503, "UF", "upstream connect error"),
            (Fault::TlsFailure(TlsFailure::Expired), Upstream, ConnectFailure, 503, "UF", reset!("remote connection failure")),
            (Fault::ConnectRefused, Upstream, ConnectFailure, 503, "UF", "upstream connect error"),
            (Fault::ConnectTimeout, Upstream, ConnectFailure, 503, "UF", "upstream connect error"),
            (Fault::ConnectionTermination, Upstream, Reset, 503, "UC", "upstream connect error"),
            (Fault::RemoteReset, Upstream, Reset, 503, "UR", "upstream connect error"),
            (Fault::RefusedStream, Upstream, RefusedStream, 503, "UR", "upstream connect error"),
            (Fault::ProtocolError, Upstream, Reset, 502, "UPE", "upstream connect error"),
            (Fault::RouteTimeout, Upstream, Never, 504, "UT", "upstream request timeout"),
            (Fault::PerTryTimeout, Upstream, Reset, 504, "UT", "upstream request timeout"),
            (Fault::IdleRequest, Downstream, Never, 408, "SI", "stream timeout"),
            (Fault::IdleResponse, Upstream, Never, 504, "SI", "stream timeout"),
            (Fault::HeadTimeout, Downstream, Never, 408, "", "request header timeout"),
            (Fault::RequestTimeout, Downstream, Never, 408, "", "request timeout"),
            (Fault::MaxDuration, Internal, Never, 504, "DT", "downstream duration timeout"),
            (Fault::DownstreamReset, Downstream, Never, 400, "DC", ""),
            (Fault::BadRequest, Downstream, Never, 400, "DPE", "Bad Request"),
            (Fault::TransferCoding, Downstream, Never, 501, "DPE", "Not Implemented"),
            (Fault::NoClientAddress(StatusCode::FORBIDDEN), Downstream, Never, 403, "", ""),
            (Fault::UpgradeRequired, Downstream, Never, 426, "DPE", ""),
            (Fault::UpgradeForbidden, Downstream, Never, 403, "", ""),
            (Fault::HeadTooLarge, Downstream, Never, 431, "DPE", ""),
        ];
        for (fault, source, retry, status, flag, body) in rows {
            let verdict = fault.verdict();
            assert_eq!((verdict.source, verdict.retry), (source, retry), "{fault:?}");
            assert_eq!((verdict.status.as_u16(), verdict.flag), (status, flag), "{fault:?}");
            assert!(
                verdict.body.starts_with(body) && (body.is_empty() == verdict.body.is_empty()),
                "{fault:?}"
            );
        }
    }
}
