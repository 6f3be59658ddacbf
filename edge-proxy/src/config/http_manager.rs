//! How HTTP behaves on a connection: the settings of Envoy's HTTP connection manager.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};

use crate::config::RouteTableId;
use crate::config::access_log::AccessLogs;
use crate::config::address::ClientAddress;
use crate::config::filter::HttpFilters;
use crate::config::header::HeaderSteps;
use crate::config::protocol::{Http1Options, Http2Options};
use crate::config::request_id::RequestId;
use crate::config::table::RouteTable;
use crate::config::timeouts::DownstreamTimeouts;
use crate::config::tracing::Tracing;
use crate::stats::HttpStats;

/// The settings of Envoy's HTTP connection manager, resolved.
#[derive(Debug)]
pub struct HttpManager {
    /// Who is told of its requests.
    pub access_logs: Option<Arc<AccessLogs>>,
    /// Which of them are traced, and how.
    pub tracing: Option<Arc<Tracing>>,
    /// Which protocol versions a connection may speak.
    pub codec: Codec,
    /// Where routes come from.
    pub routes: RouteSource,
    /// The filters before the router, in order.
    pub filters: HttpFilters,
    /// The router's own settings.
    pub router: RouterOptions,
    /// Edits of a request before anything but its form is looked at.
    pub early_edits: HeaderSteps,
    /// The names of the `x-envoy-*` headers under the configured prefix.
    pub prefixed: Arc<PrefixedHeaders>,
    /// How the client's address is found and what `x-forwarded-for` does.
    pub client_address: ClientAddress,
    /// The `server` header of responses.
    pub server_header: ServerHeader,
    /// The `via` value that is appended to requests and responses.
    pub via: Option<HeaderValue>,
    /// What happens to the path before routing.
    pub path: PathNormalization,
    /// Header names with `_`.
    pub underscores: UnderscoreAction,
    /// `x-request-id`.
    pub request_id: RequestId,
    /// The port in `Host`.
    pub strip_port: StripPort,
    /// Remove the dot at the end of the host.
    pub strip_trailing_host_dot: bool,
    /// Largest head of a request, in bytes.
    pub max_request_headers_bytes: usize,
    /// Largest number of request headers.
    pub max_request_headers: usize,
    /// HTTP/1.0 and trailers.
    pub http1: Http1Options,
    /// Windows, streams and keepalive.
    pub http2: Http2Options,
    /// Deadlines.
    pub timeouts: DownstreamTimeouts,
    /// After that many requests the connection is closed.
    pub max_requests_per_connection: Option<u32>,
    /// Upgrades allowed for every route that does not say otherwise, lower case (`websocket`).
    pub upgrades: Vec<Upgrade>,
    /// What to do with a request whose scheme the listener's transport contradicts.
    pub scheme: SchemeOverride,
    /// `x-forwarded-client-cert`.
    pub forward_client_cert: ForwardClientCert,
    /// The `http.<stat_prefix>.` counters.
    pub stats: Arc<HttpStats>,
}

/// Protocol of a downstream connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// By ALPN, and by the connection preface in cleartext.
    Auto,
    /// HTTP/1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
}

/// Where a connection manager finds its routes.
#[derive(Clone, Debug)]
pub enum RouteSource {
    /// Part of the listener.
    Inline(Arc<RouteTable>),
    /// By name, in the snapshot.
    Dynamic {
        /// The RouteConfiguration's name.
        name: Arc<str>,
        /// Its place in the snapshot.
        id: RouteTableId,
    },
}

/// Settings of the router filter.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    /// Who is told of attempts to get a response.
    pub attempt_logs: Option<Arc<AccessLogs>>,
    /// Leave out the `x-envoy-*` headers (service time, expected timeout, attempt count …).
    pub suppress_envoy_headers: bool,
}

/// `x-envoy-…` names under the prefix of the bootstrap's `header_prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixedHeaders {
    /// `<prefix>-internal`
    pub internal: HeaderName,
    /// `<prefix>-external-address`
    pub external_address: HeaderName,
    /// `<prefix>-expected-rq-timeout-ms`
    pub expected_rq_timeout_ms: HeaderName,
    /// `<prefix>-upstream-service-time`
    pub upstream_service_time: HeaderName,
    /// `<prefix>-attempt-count`
    pub attempt_count: HeaderName,
    /// `<prefix>-original-path`
    pub original_path: HeaderName,
    /// `<prefix>-original-host`
    pub original_host: HeaderName,
    /// `<prefix>-upstream-rq-timeout-ms`
    pub upstream_rq_timeout_ms: HeaderName,
    /// `<prefix>-upstream-rq-per-try-timeout-ms`
    pub upstream_rq_per_try_timeout_ms: HeaderName,
    /// `<prefix>-overloaded`
    pub overloaded: HeaderName,
    /// `<prefix>-ratelimited`
    pub rate_limited: HeaderName,
    /// `-degraded`: the host is degraded.
    pub degraded: HeaderName,
    /// `<prefix>-force-trace`
    pub force_trace: HeaderName,
    /// `<prefix>-downstream-service-cluster`
    pub downstream_service_cluster: HeaderName,
    /// `<prefix>-immediate-health-check-fail`
    pub immediate_health_check_fail: HeaderName,
    /// `<prefix>-upstream-healthchecked-cluster`
    pub upstream_healthchecked_cluster: HeaderName,
    /// Removed where the client itself connects to this proxy and isn't trusted.
    pub edge_only: Vec<HeaderName>,
    /// Removed unless the client is trusted.
    pub internal_only: Vec<HeaderName>,
    /// Orders to the router, removed like those; and from a trusted client's request once they are read.
    pub consumed: Vec<HeaderName>,
}

/// What happens to `server` on responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHeader {
    /// Replace whatever the backend said.
    Overwrite(HeaderValue),
    /// Add when the backend said nothing.
    AppendIfAbsent(HeaderValue),
    /// Leave as it is.
    PassThrough,
}

/// What happens to the path of a request before routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathNormalization {
    /// RFC 3986 normalisation (dot segments, case of escapes); a path that can't be normalised is answered 400.
    pub normalize: bool,
    /// Fold `//` into `/`.
    pub merge_slashes: bool,
    /// `%2F` and `%5C`.
    pub escaped_slashes: EscapedSlashes,
}

/// What to do with `%2F` and `%5C` in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// Leave them.
    Keep,
    /// Answer 400.
    Reject,
    /// Answer 307 to the unescaped path.
    UnescapeAndRedirect,
    /// Unescape and go on.
    UnescapeAndForward,
}

/// What to do with request headers that have `_` in their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderscoreAction {
    /// Let them pass.
    Allow,
    /// Answer 400 (HTTP/2: reset the stream).
    Reject,
    /// Drop the header.
    Drop,
}

/// What to cut from the port in `Host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripPort {
    /// Nothing.
    Keep,
    /// The port if it is the listener's.
    Matching,
    /// Any port.
    Any,
}

/// One kind of upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Lower case protocol token; [`Upgrade::CONNECT`] for CONNECT.
    pub protocol: Box<str>,
    /// False forbids it where a wider setting allows it.
    pub enabled: bool,
    /// Where it ends, if it is CONNECT.
    pub connect: Connect,
}

/// Where a CONNECT ends (RFC 9110 §9.3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connect {
    /// At a backend, which is a proxy and gets it as it came.
    #[default]
    Beyond,
    /// Here: a backend gets what is in the tunnel.
    Here,
}

impl Upgrade {
    /// Not in lower case: no token of a client's `upgrade` is the same.
    pub const CONNECT: &str = "CONNECT";
}

/// Scheme of requests as the backend and redirects see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemeOverride {
    /// By the downstream transport.
    Downstream,
    /// Always this one.
    Fixed(&'static str),
    /// By the upstream transport.
    MatchUpstream,
}

/// `x-forwarded-client-cert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardClientCert {
    /// Remove what the client sent (Envoy's default).
    Sanitize,
    /// Pass it on as it came when the client has shown a certificate.
    ForwardOnly,
    /// The same, and add what is said of this client's.
    AppendForward(CertificateDetails),
    /// Say this alone of the client's certificate.
    SanitizeSet(CertificateDetails),
    /// Pass it on always.
    AlwaysForwardOnly,
}

/// What is said of a client's certificate besides its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct CertificateDetails {
    /// The name of its subject.
    pub subject: bool,
    /// All of it.
    pub certificate: bool,
    /// All that the client has shown, up to its authority.
    pub chain: bool,
    /// Its alternative names that are URIs.
    pub uri: bool,
    /// Its alternative names that are host names.
    pub dns: bool,
}
