//! Listeners, filter chains and the HTTP connection manager's settings.
//!
//! What: where to accept, which chain serves a connection, and how HTTP behaves on it.
//! Deliberately absent: network filters other than HTTP and TCP proxies (the compiler rejects them by name) and the
//! listening sockets themselves, which [`crate::shared`] hands to the workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};

use crate::config::access::{AccessRules, Facts};
use crate::config::access_log::AccessLogs;
use crate::config::connection_limit::ConnectionLimit;
use crate::config::filter::HttpFilters;
use crate::config::filter::jwt::RemoteKeys;
use crate::config::header::HeaderSteps;
pub use crate::config::protocol::{Http1Options, Http1Upstream, Http2Options};
use crate::config::request_id::RequestId;
use crate::config::socket::SocketOptions;
use crate::config::stream::{TcpProxy, UdpProxy};
use crate::config::table::RouteTable;
pub use crate::config::timeouts::DownstreamTimeouts;
use crate::config::tls::DownstreamTls;
use crate::config::tracing::Tracing;
use crate::config::{ClusterId, RouteTableId};
use crate::proxy_protocol::Version;
use crate::stats::{HttpStats, ListenerStats};

mod chains;

pub use chains::{FilterChains, Hello};

/// A listener that is ready to serve.
#[derive(Debug)]
pub struct Listener {
    /// The resource's name.
    pub name: Arc<str>,
    /// Every address it listens on (the first is the main one).
    pub addresses: Vec<ListenAddress>,
    /// Chains, chosen by [`Listener::chain_for`]; none when the listener takes datagrams.
    pub chains: FilterChains,
    /// What happens to datagrams; `None` for a listener that accepts connections.
    pub udp: Option<Arc<UdpProxy>>,
    /// What connections begin with, if a proxy stands before this one.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// What is written of connections that no chain is for, if anything.
    pub unmatched_logs: Option<Arc<AccessLogs>>,
    /// True when a chain needs the server name of the TLS client hello.
    pub inspects_tls: bool,
    /// How much may be buffered for one connection, in bytes.
    pub per_connection_buffer_limit: usize,
    /// How long it may take to read what a chain is chosen by: the PROXY header and the client hello.
    pub inspection_timeout: Duration,
    /// True for the listeners that must answer even under overload (readiness and metrics).
    pub bypass_overload: bool,
    /// The `listener.<address>.` counters.
    pub stats: Arc<ListenerStats>,
}

/// A header of the PROXY protocol, before anything else on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// Connections without one are served too, as their peers' own.
    pub optional: bool,
    /// The versions that count.
    pub versions: Box<[Version]>,
}

/// One address to accept connections on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// For `::`: also take IPv4 connections.
    pub family: DualStack,
    /// Connections or datagrams.
    pub protocol: SocketProtocol,
    /// Options of the socket; what it accepts has them too.
    pub socket: SocketOptions,
}

/// What a listening socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketProtocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Whether an IPv6 socket takes IPv4 connections too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DualStack {
    /// One family only.
    Single,
    /// Envoy's `ipv4_compat`: both.
    Mapped,
}

impl Listener {
    /// The chain for what a client begins with ([`FilterChains::find`]). `None` means that the connection must be
    /// closed.
    pub fn chain_for(&self, hello: Hello<'_>, client: IpAddr) -> Option<&Arc<FilterChain>> {
        self.chains.find(hello, client)
    }

    /// What serves HTTP.
    fn managers(&self) -> impl Iterator<Item = &Arc<HttpManager>> {
        let chains = self.chains.all().into_iter();
        chains.filter_map(|chain| chain.network.http())
    }

    /// The keys of tokens that servers have.
    pub fn remote_keys(&self) -> impl Iterator<Item = &Arc<RemoteKeys>> {
        self.managers().flat_map(|manager| manager.filters.remote_keys())
    }

    /// The tables that it names.
    pub fn route_tables(&self) -> impl Iterator<Item = &Arc<str>> {
        self.managers().filter_map(|manager| match &manager.routes {
            RouteSource::Dynamic { name, .. } => Some(name),
            RouteSource::Inline(_) => None,
        })
    }

    /// The clusters that its streams and datagrams go to, and those that its filters ask.
    pub fn clusters(&self) -> Vec<ClusterId> {
        let chains = self.chains.all();
        let streams = chains.iter().filter_map(|chain| match &chain.network {
            Network::Tcp(proxy) | Network::Passthrough(proxy) => Some(proxy.shares.clusters()),
            Network::Http(_) => None,
        });
        let filters = self.managers().flat_map(|manager| manager.filters.clusters());
        let datagrams = self.udp.iter().flat_map(|proxy| proxy.route.clusters());
        let networks = chains.iter().map(|chain| &chain.network);
        let logs = log_clusters(networks, self.udp.as_ref(), self.unmatched_logs.as_ref());
        streams.flatten().chain(filters).chain(datagrams).chain(logs).collect()
    }
}

/// Every cluster that the logs and traces of a listener tell something.
pub(crate) fn log_clusters<'a>(
    networks: impl Iterator<Item = &'a Network> + Clone,
    udp: Option<&'a Arc<UdpProxy>>,
    unmatched: Option<&'a Arc<AccessLogs>>,
) -> impl Iterator<Item = ClusterId> {
    let managers = networks.clone().filter_map(Network::http);
    let logs = networks.filter_map(|network| match network {
        Network::Http(manager) => manager.access_logs.as_ref(),
        Network::Tcp(proxy) | Network::Passthrough(proxy) => proxy.access_logs.as_ref(),
    });
    let attempts = managers
        .clone()
        .filter_map(|manager| manager.router.attempt_logs.as_ref());
    let others = udp
        .and_then(|proxy| proxy.access_logs.as_ref())
        .into_iter()
        .chain(unmatched)
        .chain(attempts);
    let traces = managers.filter_map(|manager| manager.tracing.as_ref());
    let traces = traces.map(|tracing| tracing.collector.cluster);
    logs.chain(others).flat_map(|logs| logs.clusters()).chain(traces)
}

/// What serves the connections of one set of server names.
#[derive(Debug)]
pub struct FilterChain {
    /// Its name, may be empty.
    pub name: Arc<str>,
    /// TLS termination with certificates and ALPN; `None` is cleartext.
    pub tls: Option<Arc<DownstreamTls>>,
    /// How long the TLS handshake may take; where no client hello is looked for, with that.
    pub handshake_timeout: Duration,
    /// What is done with the bytes.
    pub network: Network,
    /// Rules that must all let a connection in.
    pub guards: Arc<[AccessRules]>,
    /// How many connections it serves at a time.
    pub limits: Arc<[ConnectionLimit]>,
    /// Hash of its settings and secrets. A chain that an update leaves alone also stays the same `Arc`.
    pub fingerprint: u64,
    /// Hash of its settings with the secret that says who is let in: what was agreed with a peer holds on when a
    /// certificate is renewed.
    pub settings: u64,
    /// Hash of its transport and its guards alone: of the TLS settings with the secret that says who is let in, and of
    /// rules. A connection that was accepted by one may be served by another with the same.
    pub transport: u64,
}

impl FilterChain {
    /// What a client has begun with that it has taken, as far as that isn't known by the server name.
    pub fn hello<'a>(&self, server_name: Option<&'a str>) -> Hello<'a> {
        let is_tls = self.tls.is_some() || matches!(self.network, Network::Passthrough(_)) || server_name.is_some();
        match is_tls {
            true => Hello::Tls(server_name),
            false => Hello::Cleartext,
        }
    }

    /// Why a connection isn't let in; `None` if it is.
    pub fn why_denied(&self, facts: &Facts<'_>) -> Option<String> {
        self.guards.iter().find_map(|rules| {
            let (is_let, policy) = rules.judge(facts);
            (!is_let).then(|| rules.why_denied(policy))
        })
    }
}

/// What a chain does with the bytes of a connection.
#[derive(Clone, Debug)]
pub enum Network {
    /// HTTP is spoken.
    Http(Arc<HttpManager>),
    /// They are handed on.
    Tcp(Arc<TcpProxy>),
    /// They are handed on if they are TLS, which stays closed: only the server name in the client hello was read.
    Passthrough(Arc<TcpProxy>),
}

impl Network {
    /// The settings of HTTP, where it is spoken.
    pub fn http(&self) -> Option<&Arc<HttpManager>> {
        match self {
            Self::Http(http) => Some(http),
            Self::Tcp(_) | Self::Passthrough(_) => None,
        }
    }
}

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

/// How the client's address is found.
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// Take the peer's address (and append it to `x-forwarded-for`) instead of trusting the header.
    pub use_remote_address: bool,
    /// How many entries at the right end of `x-forwarded-for` are trusted proxies.
    pub xff_trusted_hops: u32,
    /// Do not append the peer to `x-forwarded-for`.
    pub skip_xff_append: bool,
    /// Addresses that count as internal (`x-envoy-internal: true`).
    pub internal_ranges: Vec<AddressRange>,
    /// Where it is looked for instead, when the peer isn't taken.
    pub detection: Option<Detection>,
}

/// Places where a client's address is told.
#[derive(Clone, Debug)]
pub enum Detection {
    /// In `x-forwarded-for`, if the peer is a proxy of these networks: the last entry that isn't one.
    Networks {
        /// Where our proxies are.
        trusted: Vec<AddressRange>,
        /// Do not append such a peer to `x-forwarded-for`.
        skip_append: bool,
    },
    /// In a header.
    Header {
        /// Its name.
        name: HeaderName,
        /// What it says may make a request internal.
        is_trusted: bool,
        /// What requests are refused with that don't say it.
        missing: Option<StatusCode>,
    },
}

impl ClientAddress {
    /// Whether an address counts as internal.
    pub fn is_internal(&self, address: IpAddr) -> bool {
        self.internal_ranges.iter().any(|range| range.contains(address))
    }
}

/// A network in CIDR form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Any address of the network.
    pub address: IpAddr,
    /// Number of leading bits that count.
    pub prefix_len: u8,
}

impl AddressRange {
    /// Whether the address lies in this network; an IPv4-mapped IPv6 address is looked at as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix_len.min(32));
                shift == 32 || u32::from(net) >> shift == u32::from(ip) >> shift
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix_len.min(128));
                shift == 128 || u128::from(net) >> shift == u128::from(ip) >> shift
            }
            _ => false,
        }
    }
}

/// Some of all addresses; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressFilter {
    /// In these networks.
    pub ranges: Box<[AddressRange]>,
    /// Whether it is the addresses in none of them.
    pub inverted: bool,
}

impl AddressFilter {
    /// Whether an address is one of these.
    pub fn has(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) != self.inverted
    }
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
