//! Settings of connections to backends, which several gateway.edge kinds share.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::list::List;
use crate::api::route_filter::{Fraction, one};
use crate::api::shape::{backend_ref, cluster_settings};
use crate::api::text::{DurationText, Quantity, is_default, open_enum};

backend_ref! {
    /// A backend with weight and rank, as gateway.edge kinds refer to it.
    pub struct BackendRef {
        /// Share of the requests.
        #[serde(default = "one")]
        pub weight: u32,
        /// Used only when the others fail.
        #[serde(default, skip_serializing_if = "is_default")]
        pub fallback: Option<bool>,
    }
}

cluster_settings! {
    /// Settings of the connections to a backend.
    pub struct ClusterSettings {}
}

/// Retries.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often.
    #[serde(default = "two")]
    pub num_retries: i32,
    /// Tries before the next priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub num_attempts_per_priority: Option<i32>,
    /// After what.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry_on: Option<Box<RetryOn>>,
    /// Limits of one try.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_retry: Option<Box<PerRetry>>,
}

/// After what a request is tried again.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryOn {
    /// Named conditions.
    #[serde(default, skip_serializing_if = "is_default")]
    pub triggers: List<Text>,
    /// Status codes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http_status_codes: List<u16>,
}

/// Limits of one try.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PerRetry {
    /// Its time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: Option<DurationText>,
    /// The wait before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub back_off: Option<BackOff>,
}

/// The wait between tries.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// Shortest; 100 ms when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub base_interval: Option<DurationText>,
    /// Longest; ten times the shortest when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_interval: Option<DurationText>,
}

/// PROXY header for the backend.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Its version.
    pub version: ProxyProtocolVersion,
}

open_enum! {
    /// Version of the PROXY header.
    pub enum ProxyProtocolVersion {
        V1 = "V1",
        V2 = "V2",
    }
}

/// TCP keepalive.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpKeepalive {
    /// Unanswered probes until a connection is dead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub probes: Option<u32>,
    /// Silence before the first probe.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_time: Option<DurationText>,
    /// Time between probes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: Option<DurationText>,
}

/// Limits of a backend.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// Connections.
    #[serde(default = "limit")]
    pub max_connections: i64,
    /// Requests waiting.
    #[serde(default = "limit")]
    pub max_pending_requests: i64,
    /// Requests at a time.
    #[serde(default = "limit")]
    pub max_parallel_requests: i64,
    /// Retries at a time.
    #[serde(default = "limit")]
    pub max_parallel_retries: i64,
    /// Requests on one connection; absent means any number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_requests_per_connection: Option<i64>,
    /// Limits of one endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_endpoint: Option<PerEndpointLimits>,
    /// Replaces the limit of retries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry_budget: Option<RetryBudget>,
}

/// Limits of one endpoint.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PerEndpointLimits {
    /// Connections.
    #[serde(default = "limit")]
    pub max_connections: i64,
}

/// Retries as a share of the requests.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryBudget {
    /// The share.
    pub percent: Fraction,
    /// Retries that are always allowed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_retry_concurrency: Option<u32>,
}

/// Time limits towards a backend.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeout {
    /// Of connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: Option<TcpTimeout>,
    /// Of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<Box<HttpTimeout>>,
}

/// Time limits of connections.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpTimeout {
    /// For connecting; 10 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connect_timeout: Option<DurationText>,
}

/// Time limits of requests.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpTimeout {
    /// Idle connection; 1 h when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection_idle_timeout: Option<DurationText>,
    /// Any connection; unlimited when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_connection_duration: Option<DurationText>,
    /// Whole request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_timeout: Option<DurationText>,
    /// Whole stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_stream_duration: Option<DurationText>,
    /// Idle stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stream_idle_timeout: Option<DurationText>,
}

/// Buffers and preconnecting.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendConnection {
    /// Soft limit of buffers; 32 KiB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub buffer_limit: Option<Quantity>,
    /// Limit of socket buffers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub socket_buffer_limit: Option<Quantity>,
    /// Connections ahead of need.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preconnect: Option<Preconnect>,
}

/// Connections ahead of need.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconnect {
    /// For each endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_endpoint_percent: Option<u32>,
    /// For the endpoints next in turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub predictive_percent: Option<u32>,
}

/// Name resolution.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// How often; 30 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dns_refresh_rate: Option<DurationText>,
    /// By the time to live; true when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub respect_dns_ttl: Option<bool>,
    /// Address families.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lookup_family: Option<DnsLookupFamily>,
}

open_enum! {
    /// Address families looked up.
    pub enum DnsLookupFamily {
        Ipv4Preferred = "IPv4Preferred",
        Ipv4 = "IPv4",
        Ipv6 = "IPv6",
        Ipv6Preferred = "IPv6Preferred",
        Ipv4AndIpv6 = "IPv4AndIPv6",
    }
}

/// HTTP/2.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2Settings {
    /// Window of a stream; 64 KiB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_stream_window_size: Option<Quantity>,
    /// Window of a connection; 1 MiB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_connection_window_size: Option<Quantity>,
    /// Streams at a time; 100 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_concurrent_streams: Option<u32>,
    /// What a protocol error ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_invalid_message: Option<InvalidMessageAction>,
    /// Pings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection_keepalive: Option<Box<Http2Keepalive>>,
}

open_enum! {
    /// What a protocol error ends.
    pub enum InvalidMessageAction {
        TerminateConnection = "TerminateConnection",
        TerminateStream = "TerminateStream",
    }
}

/// Pings.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Http2Keepalive {
    /// Time between pings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval: Option<DurationText>,
    /// Time for an answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: Option<DurationText>,
    /// Random share of the interval in percent; 15 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub interval_jitter: Option<u32>,
    /// Silence before a ping.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_interval: Option<DurationText>,
}

fn two() -> i32 {
    2
}

fn limit() -> i64 {
    1024
}
