//! Clusters: how to talk to a set of endpoints.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::config::ClusterId;
use crate::config::dynamic_forward_proxy::Naming;
use crate::config::endpoint::{EndpointSet, Host};
use crate::config::health::HealthPolicy;
use crate::config::load::{HostSource, LoadWeights};
use crate::config::protocol::{Http1Upstream, Http2Options};
use crate::config::socket::SocketOptions;
use crate::config::tls::UpstreamTls;
use crate::config::zones::{LocalProxies, ZoneAwareness};
use crate::proxy_protocol::Version;
use crate::stats::ClusterStats;

/// A cluster as a snapshot holds it. An endpoint update replaces this, not what it points to.
#[derive(Debug)]
pub struct ClusterEntry {
    /// Its place in the snapshot.
    pub id: ClusterId,
    /// The settings.
    pub cluster: Arc<Cluster>,
    /// The endpoints of now.
    pub endpoints: Arc<EndpointSet>,
    /// The proxies of the fleet, where this one knows of them.
    pub proxies: Option<Arc<LocalProxies>>,
}

/// The settings of a cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its name.
    pub name: Arc<str>,
    /// Deadline of a new connection, with TLS and HTTP/2 handshake.
    pub connect_timeout: Duration,
    /// How a host is chosen.
    pub balancing: Balancing,
    /// What reports of load make of its hosts.
    pub loads: Option<Box<LoadWeights>>,
    /// Where requests may name their host.
    pub named: Arc<[HostSource]>,
    /// Its hosts are those that requests ask for.
    pub naming: Option<Naming>,
    /// What is spoken to the hosts.
    pub protocol: UpstreamProtocol,
    /// Connections begin with a header that says whom they are for.
    pub proxy_protocol: Option<Version>,
    /// TLS to the hosts; `None` is cleartext.
    pub tls: Option<Arc<UpstreamTls>>,
    /// The same for hosts that have [a socket of their own](Host::socket).
    pub sockets: Box<[Option<Arc<UpstreamTls>>]>,
    /// Limits.
    pub limits: CircuitLimits,
    /// How long an unused connection is kept; `None` is for ever.
    pub idle_timeout: Option<Duration>,
    /// Life of a connection.
    pub max_connection_duration: Option<Duration>,
    /// After that many requests a connection is closed.
    pub max_requests_per_connection: Option<u32>,
    /// HTTP/1 settings.
    pub http1: Http1Upstream,
    /// HTTP/2 settings.
    pub http2: Http2Options,
    /// Options of the connections' sockets.
    pub socket: SocketOptions,
    /// What requests to the configuration server carry.
    pub credential: Option<Arc<Credential>>,
    /// How the health of its hosts is found out.
    pub health: HealthPolicy,
    /// The `cluster.<name>.` counters.
    pub stats: Arc<ClusterStats>,
}

impl Cluster {
    /// One of which nothing is said but its name: all is as Envoy has it by default.
    pub fn plain(name: &str, stats: ClusterStats) -> Self {
        Self {
            name: Arc::from(name),
            connect_timeout: Duration::from_secs(5),
            balancing: Balancing {
                policy: LbPolicy::RoundRobin,
                locality_weighted: false,
                zones: None,
                slow_start: None,
            },
            loads: None,
            named: Arc::default(),
            naming: None,
            protocol: UpstreamProtocol::Http1,
            proxy_protocol: None,
            tls: None,
            sockets: Box::default(),
            limits: CircuitLimits::default(),
            idle_timeout: Some(Duration::from_secs(3600)),
            max_connection_duration: None,
            max_requests_per_connection: None,
            http1: Http1Upstream::default(),
            http2: Http2Options::default(),
            socket: SocketOptions::default(),
            credential: None,
            health: HealthPolicy::default(),
            stats: Arc::new(stats),
        }
    }

    /// TLS to a host; `None` is cleartext.
    pub fn tls_of(&self, host: &Host) -> Option<&Arc<UpstreamTls>> {
        let own = host.socket.and_then(|socket| self.sockets.get(usize::from(socket)));
        own.unwrap_or(&self.tls).as_ref()
    }

    /// TLS to any of its hosts.
    pub fn any_tls(&self) -> impl Iterator<Item = &Arc<UpstreamTls>> {
        self.tls.iter().chain(self.sockets.iter().flatten())
    }
}

/// A header that goes into every request. Its value is marked as sensitive, so that no debug form shows it.
#[derive(Debug)]
pub struct Credential {
    /// Name.
    pub header: HeaderName,
    /// Value.
    pub value: HeaderValue,
}

/// How a host is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balancing {
    /// The algorithm within a group of hosts.
    pub policy: LbPolicy,
    /// Choose a locality by weight first.
    pub locality_weighted: bool,
    /// Choose that of the proxy first.
    pub zones: Option<ZoneAwareness>,
    /// New hosts get less than their weight.
    pub slow_start: Option<SlowStart>,
}

/// How a new host comes to its full weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStart {
    /// How long that takes.
    pub window: Duration,
    /// 1 is in proportion to time; more is faster at first.
    pub aggression: f64,
    /// The least share of its weight that it gets.
    pub least: f64,
}

impl SlowStart {
    /// The share of its weight that a host of this age gets.
    pub fn factor(&self, age: Duration) -> f64 {
        if age >= self.window {
            return 1.0;
        }
        let passed = age.max(Duration::from_millis(1)).as_secs_f64() / self.window.as_secs_f64();
        passed.powf(1.0 / self.aggression).max(self.least)
    }
}

/// As a number of choices: every host is compared.
pub const ALL: u32 = u32::MAX;

/// The algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LbPolicy {
    /// One after the other, by weight.
    RoundRobin,
    /// The same by the load that hosts report, see [`Cluster::loads`].
    Reported,
    /// The least loaded of so many random ones (at least 2), or of [`ALL`]; where weights differ, one after the other
    /// by weight and requests in flight.
    LeastRequest {
        /// How many are compared.
        choices: u32,
        /// How much requests in flight take off a weight: nothing at 0, and in proportion at 1.
        bias: f64,
    },
    /// Any, whatever it weighs.
    Random,
    /// By the request's hash and the table of a priority.
    Hash,
}

/// What is spoken to the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge, or by ALPN over TLS.
    Http2,
    /// What the client speaks.
    Downstream,
    /// By ALPN.
    Auto,
}

/// Circuit breaker thresholds of the default priority, over all workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitLimits {
    /// Open connections.
    pub max_connections: u32,
    /// Requests that wait for a connection.
    pub max_pending_requests: u32,
    /// Requests in flight.
    pub max_requests: u32,
    /// Retries in flight.
    pub max_retries: u32,
    /// Retries in flight, in place of that number, as a share of all requests.
    pub retry_budget: Option<RetryBudget>,
    /// Open connections to one host.
    pub max_connections_per_host: u32,
}

/// How many retries may be in flight for the requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// In per cent.
    pub percent: f64,
    /// So many in any case.
    pub least: u32,
}

impl Default for CircuitLimits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_pending_requests: 1024,
            max_requests: 1024,
            max_retries: 3,
            retry_budget: None,
            max_connections_per_host: u32::MAX,
        }
    }
}
