//! How the health of a cluster's hosts is found out: by probes, and by what traffic shows.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use tokio::sync::Notify;

use crate::config::access_log::LogFile;

/// What is known of a cluster's way to its hosts' health.
#[derive(Debug, Default)]
pub struct HealthPolicy {
    /// Probes.
    pub check: Option<Arc<HealthCheck>>,
    /// What traffic shows.
    pub outliers: Option<OutlierDetection>,
    /// Rung by a worker that has seen something that may change the health of a host.
    pub bell: Notify,
}

/// Probes of the hosts of a cluster.
#[derive(Debug)]
pub struct HealthCheck {
    /// A probe takes no longer.
    pub timeout: Duration,
    /// Between probes.
    pub intervals: Intervals,
    /// Failures in a row until a host is unhealthy.
    pub unhealthy_threshold: u32,
    /// Successes in a row until it is healthy again.
    pub healthy_threshold: u32,
    /// Where hosts are probed, if not at their own port.
    pub port: Option<u16>,
    /// A connection serves more than one probe.
    pub reuses_connections: bool,
    /// What is negotiated over TLS, if not what the cluster says.
    pub alpn: Box<[Vec<u8>]>,
    /// Who is told of changes, and of what else.
    pub events: Events,
    /// What is sent and expected.
    pub probe: Probe,
    /// The header by which a host says that it is degraded.
    pub degraded: HeaderName,
    /// The header by which a host asks to be left out.
    pub immediate_fail: HeaderName,
}

/// Pauses between probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Of a host that is well.
    pub usual: Duration,
    /// Of a host that isn't.
    pub unhealthy: Duration,
    /// Of a healthy host that has begun to fail, and counts as unhealthy only after more failures.
    pub unhealthy_edge: Duration,
    /// Of an unhealthy host that has begun to pass.
    pub healthy_edge: Duration,
    /// Of all hosts while the cluster has had no traffic.
    pub no_traffic: Duration,
    /// The same for healthy ones.
    pub no_traffic_healthy: Duration,
    /// Before the first probe, at most.
    pub initial_jitter: Duration,
    /// Added at random, at most.
    pub jitter: Duration,
    /// Added at random, in per cent of the pause, at most.
    pub jitter_percent: u32,
}

/// Who is told of changes of health.
#[derive(Debug, Default)]
pub struct Events {
    /// Files.
    pub files: Box<[Arc<LogFile>]>,
    /// All failures are told, not only those that change something.
    pub all_failures: bool,
    /// The same for successes.
    pub all_successes: bool,
}

/// What is sent to a host, and what must come back.
#[derive(Debug)]
pub enum Probe {
    /// A request of HTTP.
    Http(HttpProbe),
    /// A connection; and bytes, if any are named.
    Tcp {
        /// What is sent.
        send: Bytes,
        /// What must come back, in this order.
        receive: Box<[Bytes]>,
    },
    /// A call of `grpc.health.v1.Health.Check`.
    Grpc {
        /// The service that is asked about.
        service: String,
        /// Who is asked.
        authority: Option<HeaderValue>,
    },
}

/// A request and what is expected.
#[derive(Debug)]
pub struct HttpProbe {
    /// The authority that is asked for; else the host's name, else the cluster's.
    pub host: Option<HeaderValue>,
    /// The path.
    pub path: http::uri::PathAndQuery,
    /// The method.
    pub method: Method,
    /// It is spoken over HTTP/2.
    pub http2: bool,
    /// Statuses of a healthy host.
    pub expected: Box<[Range<u16>]>,
    /// Statuses that count as failures without deciding at once.
    pub retriable: Box<[Range<u16>]>,
    /// The body.
    pub send: Bytes,
    /// What must be found in the response's body, in this order.
    pub receive: Box<[Bytes]>,
    /// So much of the response is looked at; 0 is all.
    pub looked_at: usize,
}

/// When traffic shows that a host is not well (Envoy's outlier detection).
#[derive(Clone, Debug, PartialEq)]
pub struct OutlierDetection {
    /// Between two looks at what came together.
    pub interval: Duration,
    /// For how long the first ejection is.
    pub base_time: Duration,
    /// For how long at most.
    pub max_time: Duration,
    /// Added at random, at most.
    pub max_jitter: Duration,
    /// So many of the hosts at most.
    pub max_percent: u32,
    /// One may be ejected whatever the percentage says.
    pub always_one: bool,
    /// Failures to reach a host don't count as its answers.
    pub splits_local: bool,
    /// Answers of 500 and above in a row.
    pub server_errors: Streaks,
    /// Answers of 502, 503 and 504 in a row.
    pub gateway_errors: Streaks,
    /// Failures to reach it in a row.
    pub local_failures: Streaks,
    /// How far below the others' success rate.
    pub success_rate: SuccessRate,
    /// What share of failures.
    pub failure_percentage: FailurePercentage,
    /// A probe that passes ends an ejection.
    pub ends_with_check: bool,
}

/// A limit of failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaks {
    /// So many.
    pub limit: u32,
    /// In per cent of cases it ejects.
    pub enforcing: u32,
}

/// Ejection of hosts whose success rate is far below the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRate {
    /// With fewer hosts there is nothing to compare.
    pub min_hosts: u32,
    /// Hosts with fewer requests are left out.
    pub min_requests: u32,
    /// How many standard deviations below.
    pub deviations: f64,
    /// In per cent of cases it ejects.
    pub enforcing: u32,
    /// The same for failures to reach hosts.
    pub enforcing_local: u32,
}

/// Ejection of hosts with too large a share of failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailurePercentage {
    /// In per cent.
    pub threshold: u32,
    /// With fewer hosts it is not looked at.
    pub min_hosts: u32,
    /// Hosts with fewer requests are left out.
    pub min_requests: u32,
    /// In per cent of cases it ejects.
    pub enforcing: u32,
    /// The same for failures to reach hosts.
    pub enforcing_local: u32,
}
