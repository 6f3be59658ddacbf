//! How the proxy speaks with a backend, shared by policies and by services that the proxy itself uses.

use crate::health_check::HealthCheck;
use crate::load_balancer::LoadBalancer;
use crate::number::{ByteQuantity, Fraction, HttpStatus};
use crate::reference::BackendObjectReference;
use crate::text::DurationText;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service that the proxy itself uses, and how it is reached.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendCluster {
    /// Older form of `backendRefs` with one entry.
    pub backend_ref: Option<BackendObjectReference>,
    /// Where the service runs: Services, ServiceImports or Backends.
    #[schemars(length(max = 16))]
    pub backend_refs: Option<Vec<BackendRef>>,
    /// Settings of the connections to it.
    pub backend_settings: Option<ClusterSettings>,
}

/// A backend with its weight.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// The backend.
    #[serde(flatten)]
    pub backend_object_reference: BackendObjectReference,
    /// Share of the traffic, in relation to the weights of the other entries.
    #[schemars(range(min = 0, max = 1000000), extend("default" = 1))]
    pub weight: Option<u32>,
    /// Used only while fewer than about 72 % of the other endpoints are healthy.
    pub fallback: Option<bool>,
}

/// How the proxy speaks with a backend.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.connection) || !has(self.connection.preconnect) || !has(self.connection.preconnect.predictivePercent) || (has(self.loadBalancer) && self.loadBalancer.type in ['Random', 'RoundRobin'])", "predictivePercent in preconnect policy only works with RoundRobin or Random load balancers"))]
pub struct ClusterSettings {
    /// How an endpoint is chosen; LeastRequest when absent.
    pub load_balancer: Option<LoadBalancer>,
    /// When a request is tried again; never when absent.
    pub retry: Option<Retry>,
    /// Opens connections with a PROXY header.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Keepalive probes of TCP connections; none when absent.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// How endpoints are found to be unhealthy.
    pub health_check: Option<HealthCheck>,
    /// Upper bounds; 1024 each when absent.
    pub circuit_breaker: Option<CircuitBreaker>,
    /// Longest times.
    pub timeout: Option<Timeout>,
    /// Buffers, and connections opened ahead of need.
    pub connection: Option<BackendConnection>,
    /// How host names are resolved.
    pub dns: Option<Dns>,
    /// Settings of HTTP/2 connections to the backend.
    pub http2: Option<Http2Settings>,
}

/// When and how often a request is tried again.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often at most.
    #[schemars(range(min = 0), extend("default" = 2))]
    pub num_retries: Option<i32>,
    /// How many tries each priority of endpoints gets before the next; when absent or 0 all go to the highest healthy
    /// one.
    pub num_attempts_per_priority: Option<i32>,
    /// What is tried again; connect-failure, refused-stream, unavailable, cancelled and status 503 when absent.
    pub retry_on: Option<RetryOn>,
    /// Time of one try, and of the pause between two.
    pub per_retry: Option<PerRetryPolicy>,
}

/// What is tried again.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryOn {
    /// Failures that are tried again.
    pub triggers: Option<Vec<TriggerEnum>>,
    /// Statuses that are tried again, with trigger retriable-status-codes.
    pub http_status_codes: Option<Vec<HttpStatus>>,
}

/// Times of one try.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerRetryPolicy {
    /// Longest time of one try.
    pub timeout: Option<DurationText>,
    /// Pause between two tries.
    pub back_off: Option<BackOffPolicy>,
}

/// The pause between two tries, which doubles.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackOffPolicy {
    /// First pause; 100ms when absent.
    pub base_interval: Option<DurationText>,
    /// Longest pause; ten times the first when absent.
    pub max_interval: Option<DurationText>,
}

/// The PROXY header towards a backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Version of the header.
    pub version: ProxyProtocolVersion,
}

/// Probes that find dead connections.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpKeepalive {
    /// Probes without an answer after which the connection is dead.
    pub probes: Option<u32>,
    /// Silence before the first probe.
    pub idle_time: Option<DurationText>,
    /// Time between two probes.
    pub interval: Option<DurationText>,
}

/// Upper bounds; what is above them is answered with 503.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// Connections to a backend.
    #[schemars(range(min = 0, max = 4_294_967_295_i64), extend("default" = 1024))]
    pub max_connections: Option<i64>,
    /// Requests that wait for a connection.
    #[schemars(range(min = 0, max = 4_294_967_295_i64), extend("default" = 1024))]
    pub max_pending_requests: Option<i64>,
    /// Requests under way.
    #[schemars(range(min = 0, max = 4_294_967_295_i64), extend("default" = 1024))]
    pub max_parallel_requests: Option<i64>,
    /// Repeated requests under way.
    #[schemars(range(min = 0, max = 4_294_967_295_i64), extend("default" = 1024))]
    pub max_parallel_retries: Option<i64>,
    /// Requests after which a connection is closed; no bound when absent.
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub max_requests_per_connection: Option<i64>,
    /// Bounds of one endpoint.
    pub per_endpoint: Option<PerEndpointCircuitBreakers>,
    /// Bounds repeated requests by the requests under way, instead of maxParallelRetries.
    pub retry_budget: Option<RetryBudget>,
}

/// Upper bounds of one endpoint.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerEndpointCircuitBreakers {
    /// Connections to one endpoint.
    #[schemars(range(min = 0, max = 4_294_967_295_i64), extend("default" = 1024))]
    pub max_connections: Option<i64>,
}

/// Bounds repeated requests by the requests under way.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryBudget {
    /// Share of the requests under way that may be repeated ones.
    pub percent: Fraction,
    /// Repeated requests that are always allowed.
    pub min_retry_concurrency: Option<u32>,
}

/// Longest times towards a backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeout {
    /// Of connections.
    pub tcp: Option<TcpTimeout>,
    /// Of requests.
    pub http: Option<HttpTimeout>,
}

/// Longest times of connections to a backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpTimeout {
    /// Of opening a connection; 10s when absent.
    pub connect_timeout: Option<DurationText>,
}

/// Longest times of requests to a backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpTimeout {
    /// After which an idle connection is closed; 1h when absent.
    pub connection_idle_timeout: Option<DurationText>,
    /// Age at which a connection is closed; no bound when absent.
    pub max_connection_duration: Option<DurationText>,
    /// Of a whole request; a timeout of the route wins.
    pub request_timeout: Option<DurationText>,
    /// Of a whole stream.
    pub max_stream_duration: Option<DurationText>,
    /// Longest silence of a stream; that of the listener when absent.
    pub stream_idle_timeout: Option<DurationText>,
}

/// Connections to a backend.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendConnection {
    /// Bytes held for a connection; 32768 when absent.
    pub buffer_limit: Option<ByteQuantity>,
    /// Size of the buffers of the socket.
    pub socket_buffer_limit: Option<ByteQuantity>,
    /// Opens connections before there are requests for them.
    pub preconnect: Option<PreconnectPolicy>,
}

/// Connections that are opened before they are needed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreconnectPolicy {
    /// Connections to an endpoint for what it has to do, in percent.
    #[schemars(range(min = 100, max = 300))]
    pub per_endpoint_percent: Option<u32>,
    /// The same over all endpoints; with RoundRobin or Random.
    #[schemars(range(min = 100))]
    pub predictive_percent: Option<u32>,
}

/// How host names are resolved.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// How often names are resolved; 30s when absent.
    pub dns_refresh_rate: Option<DurationText>,
    /// Resolves as often as the answer asks; true when absent.
    pub respect_dns_ttl: Option<bool>,
    /// Which addresses are asked for; IPv4Preferred when absent.
    pub lookup_family: Option<DnsLookupFamily>,
}

/// Settings of HTTP/2 connections.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Http2Settings {
    /// Window of a stream, 65535 to 2147483647 bytes; 64Ki when absent.
    pub initial_stream_window_size: Option<ByteQuantity>,
    /// Window of a connection, 65535 to 2147483647 bytes; 1Mi when absent.
    pub initial_connection_window_size: Option<ByteQuantity>,
    /// Streams of a connection at a time; 100 when absent.
    #[schemars(range(min = 1, max = 2147483647))]
    pub max_concurrent_streams: Option<u32>,
    /// What an invalid message ends; the connection when absent.
    pub on_invalid_message: Option<InvalidMessageAction>,
    /// Finds dead connections by PING.
    pub connection_keepalive: Option<Http2KeepaliveSettings>,
}

/// Finds dead connections by PING.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.timeout) || !has(self.interval) || duration(self.timeout) < duration(self.interval)", "timeout must be less than interval"))]
pub struct Http2KeepaliveSettings {
    /// Time between two PINGs.
    pub interval: Option<DurationText>,
    /// Longest wait for the answer.
    pub timeout: Option<DurationText>,
    /// Random change of the interval, in percent; 15 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub interval_jitter: Option<u32>,
    /// Silence after which a connection is asked.
    pub idle_interval: Option<DurationText>,
}

values! {
    /// Values of `TriggerEnum`.
    pub enum TriggerEnum {
        ServerError = "5xx",
        GatewayError = "gateway-error",
        Reset = "reset",
        ResetBeforeRequest = "reset-before-request",
        ConnectFailure = "connect-failure",
        Retriable4xx = "retriable-4xx",
        RefusedStream = "refused-stream",
        RetriableStatusCodes = "retriable-status-codes",
        Cancelled = "cancelled",
        DeadlineExceeded = "deadline-exceeded",
        Internal = "internal",
        ResourceExhausted = "resource-exhausted",
        Unavailable = "unavailable",
    }
}

values! {
    /// Values of `ProxyProtocolVersion`.
    pub enum ProxyProtocolVersion {
        V1 = "V1",
        V2 = "V2",
    }
}

values! {
    /// Values of `DNSLookupFamily`.
    pub enum DnsLookupFamily {
        IPv4 = "IPv4",
        IPv6 = "IPv6",
        IPv4Preferred = "IPv4Preferred",
        IPv6Preferred = "IPv6Preferred",
        IPv4AndIPv6 = "IPv4AndIPv6",
    }
}

values! {
    /// Values of `InvalidMessageAction`.
    pub enum InvalidMessageAction {
        TerminateConnection = "TerminateConnection",
        TerminateStream = "TerminateStream",
    }
}
