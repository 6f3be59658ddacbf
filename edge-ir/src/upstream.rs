//! How connections to a backend are made, kept and limited, and how an endpoint is chosen.
//!
//! The default is what every cluster has that nobody said anything about; only what differs is written, so that a field
//! which this version doesn't have yet changes nothing when it comes.

use crate::{HeaderCase, Timeout, Trailers};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What policies ask of the connections to a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpstreamSettings {
    /// Headers in which a client may name the endpoint, first hit wins.
    #[serde(skip_serializing_if = "is_default")]
    pub endpoint_headers: Vec<Arc<str>>,
    /// New endpoints get their full share only after this time.
    #[serde(skip_serializing_if = "is_default")]
    pub slow_start: Option<Timeout>,
    /// Probes of endpoints.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: Option<Arc<HealthCheck>>,
    /// When traffic itself shows that an endpoint is ill.
    #[serde(skip_serializing_if = "is_default")]
    pub outlier_detection: Option<OutlierDetection>,
    /// Percent of healthy endpoints below which health is ignored. Unset: 50.
    #[serde(skip_serializing_if = "is_default")]
    pub panic_threshold: Option<u32>,
    /// Limits. Unset: 1024 of each.
    #[serde(skip_serializing_if = "is_default")]
    pub circuit_breaker: Option<CircuitBreaker>,
    /// For connecting. Unset: 10 s.
    #[serde(skip_serializing_if = "is_default")]
    pub connect_timeout: Option<Timeout>,
    /// How long a connection may be idle. Unset: 1 h.
    #[serde(skip_serializing_if = "is_default")]
    pub idle_timeout: Option<Timeout>,
    /// How long a connection may be used at all.
    #[serde(skip_serializing_if = "is_default")]
    pub max_connection_duration: Option<Timeout>,
    /// Requests on one connection.
    #[serde(skip_serializing_if = "is_default")]
    pub max_requests_per_connection: Option<u32>,
    /// TCP keepalive.
    #[serde(skip_serializing_if = "is_default")]
    pub keepalive: Option<TcpKeepalive>,
    /// A PROXY header in front of every connection.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Bytes that a connection may buffer. Unset: 32 KiB.
    #[serde(skip_serializing_if = "is_default")]
    pub buffer_limit: Option<u32>,
    /// Bytes that the system holds for a connection, in each direction. Unset: as it likes.
    #[serde(skip_serializing_if = "is_default")]
    pub system_buffer: Option<u32>,
    /// Connections ahead of need.
    #[serde(skip_serializing_if = "is_default")]
    pub preconnect: Option<Preconnect>,
    /// Name resolution.
    #[serde(skip_serializing_if = "is_default")]
    pub dns: Option<DnsSettings>,
    /// HTTP/1.
    #[serde(skip_serializing_if = "is_default")]
    pub http1: Http1Upstream,
    /// HTTP/2.
    #[serde(skip_serializing_if = "is_default")]
    pub http2: Option<Http2Settings>,
    /// Who chooses the version of HTTP.
    #[serde(skip_serializing_if = "is_default")]
    pub http_version: HttpVersion,
}

impl UpstreamSettings {
    /// The same with these settings of HTTP/1.
    pub fn with_http1(shared: &Arc<Self>, http1: Http1Upstream) -> Arc<Self> {
        match shared.http1 == http1 {
            true => Arc::clone(shared),
            false => Arc::new(Self {
                http1,
                ..Self::clone(shared)
            }),
        }
    }

    /// Whether nothing is asked that isn't usual.
    pub fn is_usual(shared: &Arc<Self>) -> bool {
        is_default(shared)
    }
}

/// What passes between clients and a backend that is spoken to in HTTP/1. Clients get it as far as their listener says
/// the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Http1Upstream {
    /// Trailers, in both directions.
    #[serde(skip_serializing_if = "is_default")]
    pub trailers: Trailers,
    /// The case of header names in responses.
    #[serde(skip_serializing_if = "is_default")]
    pub header_case: HeaderCase,
}

/// How endpoints are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoadBalancing {
    /// The less loaded of two picked at random.
    #[default]
    LeastRequest,
    /// In turn.
    RoundRobin,
    /// At random.
    Random,
    /// By a hash of what the route says (Maglev), with this size of table, a prime.
    ConsistentHash(u64),
    /// In turn, with weights that come from the load that endpoints report (ORCA).
    ReportedLoad(Arc<ReportedLoad>),
}

/// Weights from the load that endpoints report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedLoad {
    /// Reports ignored at first. Unset: 10 s.
    #[serde(skip_serializing_if = "is_default")]
    pub blackout: Option<Timeout>,
    /// Age at which a report is dropped. Unset: 3 min.
    #[serde(skip_serializing_if = "is_default")]
    pub expiration: Option<Timeout>,
    /// How often weights change. Unset: 1 s.
    #[serde(skip_serializing_if = "is_default")]
    pub update: Option<Timeout>,
    /// How much errors count, in percent.
    #[serde(skip_serializing_if = "is_default")]
    pub error_penalty_percent: Option<u32>,
    /// Metrics to fall back to.
    #[serde(skip_serializing_if = "is_default")]
    pub metrics: Vec<Arc<str>>,
}

/// Probes of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// What is asked.
    pub probe: Probe,
    /// For an answer.
    pub timeout: Timeout,
    /// Between probes.
    pub interval: Timeout,
    /// Random wait before the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_jitter: Option<Timeout>,
    /// Failures until an endpoint is ill.
    pub unhealthy_threshold: u32,
    /// Successes until it is well again.
    pub healthy_threshold: u32,
    /// Where events go; nowhere by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<HealthLog>,
}

/// Where events of probes go: an endpoint falls ill or is well again, and with the rest what leads there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthLog {
    /// The file.
    pub path: Arc<str>,
    /// Whether each failure is an event, besides the first.
    pub all_failures: bool,
    /// Whether each success is an event, besides the one that makes an endpoint well.
    pub all_successes: bool,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Probe {
    /// By HTTP.
    Http(HttpProbe),
    /// By bytes over TCP.
    Tcp {
        /// What is sent; connecting is enough where nothing is.
        #[serde(default, skip_serializing_if = "is_default")]
        send: Option<Payload>,
        /// What must come back.
        #[serde(default, skip_serializing_if = "is_default")]
        receive: Option<Payload>,
    },
    /// By the health service of gRPC.
    Grpc {
        /// The service; the whole server where none is named.
        #[serde(default, skip_serializing_if = "is_default")]
        service: Option<Arc<str>>,
    },
}

/// A probe by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpProbe {
    /// Host header. Unset: the name of the cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<Arc<str>>,
    /// Path.
    pub path: Arc<str>,
    /// Method in capitals. Unset: GET.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: Option<Arc<str>>,
    /// Codes of the well. None: 200.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expected: Vec<u16>,
    /// Codes that count as one failure among others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retriable: Vec<u16>,
    /// What the body must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receive: Option<Payload>,
    /// Body of the probe.
    #[serde(default, skip_serializing_if = "is_default")]
    pub send: Option<Payload>,
}

/// Bytes of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(
    /// In hexadecimal.
    pub Arc<str>,
);

/// When traffic itself shows that an endpoint is ill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlierDetection {
    /// Whether failures to reach an endpoint count apart from its answers.
    pub split_local_errors: bool,
    /// Between looks.
    pub interval: Timeout,
    /// Failures to reach it in a row.
    pub consecutive_local_failures: u32,
    /// 502, 503 and 504 in a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub consecutive_gateway_errors: Option<u32>,
    /// Server errors in a row.
    pub consecutive_5xx: u32,
    /// Time out, times the number of ejections.
    pub base_ejection_time: Timeout,
    /// Largest share out at a time.
    pub max_ejection_percent: u32,
    /// Share of failures that ejects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_percent: Option<u32>,
    /// One may go whatever the share.
    pub always_eject_one: bool,
}

/// Limits of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// Connections.
    pub max_connections: u32,
    /// Requests waiting.
    pub max_pending_requests: u32,
    /// Requests at a time.
    pub max_requests: u32,
    /// Retries at a time.
    pub max_retries: u32,
    /// Retries as a share of requests instead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry_budget: Option<RetryBudget>,
    /// Connections of one endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_connections_per_endpoint: Option<u32>,
}

/// Retries as a share of the active requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryBudget {
    /// Parts in a million.
    pub share: u32,
    /// Retries that are always allowed. Unset: 3.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_concurrency: Option<u32>,
}

/// TCP keepalive; what is unset is the system's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpKeepalive {
    /// Unanswered probes until a connection is dead.
    #[serde(skip_serializing_if = "is_default")]
    pub probes: Option<u32>,
    /// Seconds of silence before the first probe.
    #[serde(skip_serializing_if = "is_default")]
    pub idle_seconds: Option<u32>,
    /// Seconds between probes.
    #[serde(skip_serializing_if = "is_default")]
    pub interval_seconds: Option<u32>,
}

/// Version of a PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyProtocol {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// Connections ahead of need, in percent of what is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconnect {
    /// For each endpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub per_endpoint_percent: Option<u32>,
    /// For the endpoints next in turn.
    #[serde(skip_serializing_if = "is_default")]
    pub predictive_percent: Option<u32>,
}

/// Name resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsSettings {
    /// How often. Unset: 30 s.
    #[serde(skip_serializing_if = "is_default")]
    pub refresh: Option<Timeout>,
    /// Whether the time to live counts instead. Unset: it does.
    #[serde(skip_serializing_if = "is_default")]
    pub respect_ttl: Option<bool>,
    /// Address families.
    #[serde(skip_serializing_if = "is_default")]
    pub family: DnsFamily,
}

/// Address families that names are resolved to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DnsFamily {
    /// IPv4, and IPv6 where there is none.
    #[default]
    V4Preferred,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv6, and IPv4 where there is none.
    V6Preferred,
    /// All addresses of both.
    All,
}

/// HTTP/2; what is unset has the usual value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Http2Settings {
    /// Window of a stream. Unset: 64 KiB.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_window: Option<u32>,
    /// Window of a connection. Unset: 1 MiB.
    #[serde(skip_serializing_if = "is_default")]
    pub connection_window: Option<u32>,
    /// Streams at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub max_concurrent_streams: Option<u32>,
    /// Whether an invalid message ends its stream alone. Unset: the connection.
    #[serde(skip_serializing_if = "is_default")]
    pub override_stream_error: Option<bool>,
    /// Pings.
    #[serde(skip_serializing_if = "is_default")]
    pub keepalive: Option<Http2Keepalive>,
}

/// Pings of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2Keepalive {
    /// Between pings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: Option<Timeout>,
    /// For an answer.
    pub timeout: Timeout,
    /// Random share of the interval, in percent. Unset: 15.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter_percent: Option<u32>,
    /// Silence after which a new request waits for a ping.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_interval: Option<Timeout>,
}

/// Who chooses the version of HTTP towards a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HttpVersion {
    /// The backend, by its application protocol.
    #[default]
    Backend,
    /// The client: what it speaks is spoken to the backend.
    Client,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
