//! Listeners and filter chains: where to accept, and which chain serves a connection. How HTTP behaves on it is in
//! [`http_manager`](crate::config::http_manager).
//!
//! Deliberately absent: network filters other than HTTP and TCP proxies (the compiler rejects them by name) and the
//! listening sockets themselves, which [`crate::shared`] hands to the workers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::config::ClusterId;
use crate::config::access::{AccessRules, Facts};
use crate::config::access_log::AccessLogs;
use crate::config::connection_limit::ConnectionLimit;
use crate::config::filter::jwt::RemoteKeys;
use crate::config::http_manager::{HttpManager, RouteSource};
use crate::config::socket::SocketOptions;
use crate::config::stream::{TcpProxy, UdpProxy};
use crate::config::tls::DownstreamTls;
use crate::proxy_protocol::Version;
use crate::stats::ListenerStats;

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
