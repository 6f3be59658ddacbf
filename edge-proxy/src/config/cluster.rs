//! Clusters: how to talk to a set of endpoints.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::config::ClusterId;
use crate::config::endpoint::EndpointSet;
use crate::config::listener::Http2Options;
use crate::config::tls::UpstreamTls;
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
    /// What is spoken to the hosts.
    pub protocol: UpstreamProtocol,
    /// TLS to the hosts; `None` is cleartext.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Limits.
    pub limits: CircuitLimits,
    /// How much may be buffered for one connection, in bytes.
    pub per_connection_buffer_limit: usize,
    /// How long an unused connection is kept; `None` is for ever.
    pub idle_timeout: Option<Duration>,
    /// Life of a connection.
    pub max_connection_duration: Option<Duration>,
    /// After that many requests a connection is closed.
    pub max_requests_per_connection: Option<u32>,
    /// HTTP/2 settings.
    pub http2: Http2Options,
    /// TCP keepalive of the connections.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// What requests to the configuration server carry.
    pub credential: Option<Arc<Credential>>,
    /// The `cluster.<name>.` counters.
    pub stats: Arc<ClusterStats>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balancing {
    /// The algorithm within a group of hosts.
    pub policy: LbPolicy,
    /// Choose a locality by weight first.
    pub locality_weighted: bool,
}

/// The algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LbPolicy {
    /// One after the other, by weight.
    RoundRobin,
    /// The least loaded of so many random ones (at least 2).
    LeastRequest {
        /// How many are compared.
        choices: u32,
    },
    /// Any.
    Random,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitLimits {
    /// Open connections.
    pub max_connections: u32,
    /// Requests that wait for a connection.
    pub max_pending_requests: u32,
    /// Requests in flight.
    pub max_requests: u32,
    /// Retries in flight.
    pub max_retries: u32,
}

impl Default for CircuitLimits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_pending_requests: 1024,
            max_requests: 1024,
            max_retries: 3,
        }
    }
}

/// TCP keepalive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// Probes before giving up.
    pub probes: Option<u32>,
    /// Silence before the first probe.
    pub time: Option<Duration>,
    /// Between probes.
    pub interval: Option<Duration>,
}
