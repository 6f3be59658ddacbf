//! The controller's own servers: admin, telemetry, the configuration server and the rate limit service.

use serde::{Deserialize, Serialize};

use crate::api::text::{DurationText, Quantity, is_default, open_enum};
use crate::api::{Fraction, SecretRef, Text};

/// The admin endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admin {
    /// Where it listens.
    #[serde(default)]
    pub address: AdminAddress,
    /// Logs the configuration at start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_dump_config: bool,
    /// Offers profiles.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_pprof: bool,
}

/// Where the admin endpoint listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdminAddress {
    /// Port.
    #[serde(default = "admin_port")]
    pub port: u16,
    /// Address.
    #[serde(default = "loopback")]
    pub host: Text,
}

/// Metrics and traces of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// Metrics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: Option<Metrics>,
    /// Traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traces: Option<Traces>,
}

/// Metrics of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Collectors to push to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sinks: Box<[TelemetrySink]>,
    /// The scrape endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prometheus: Option<Prometheus>,
}

/// A scrape endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prometheus {
    /// None.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable: bool,
}

/// Traces of the controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traces {
    /// Where they go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sink: Option<TelemetrySink>,
    /// Share that is kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_rate: Option<Fraction>,
}

/// A collector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TelemetrySink {
    /// Protocol.
    #[serde(default)]
    pub r#type: TelemetrySinkType,
    /// Settings for OpenTelemetry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_telemetry: Option<OpenTelemetrySink>,
}

open_enum! {
    /// Protocol of a collector.
    pub enum TelemetrySinkType {
        OpenTelemetry = "OpenTelemetry",
    }
}

/// An OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetrySink {
    /// Host.
    pub host: Text,
    /// `grpc` or `http`.
    pub protocol: Text,
    /// Port.
    #[serde(default = "otlp")]
    pub port: u16,
    /// Time between exports; 60 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub export_interval: Option<DurationText>,
    /// Time for one; 30 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub export_timeout: Option<DurationText>,
}

/// The configuration server for proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct XdsServer {
    /// Life of a connection; random within 10 to 12 h when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_connection_age: Option<DurationText>,
    /// Time to finish; 2 min when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_connection_age_grace: Option<DurationText>,
    /// Largest message; 32 MiB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_receive_message_size: Option<Quantity>,
}

/// The global rate limit service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Where counts are kept.
    pub backend: RateLimitBackend,
    /// Time for an answer; 20 ms when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: Option<DurationText>,
    /// Refuses requests when it can't be reached.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_closed: bool,
    /// Its metrics and traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub telemetry: Option<RateLimitTelemetry>,
}

/// Where counts are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitBackend {
    /// Which member is set.
    pub r#type: RateLimitBackendType,
    /// A Redis server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub redis: Option<Redis>,
}

open_enum! {
    /// Where counts are kept.
    pub enum RateLimitBackendType {
        Redis = "Redis",
    }
}

/// A Redis server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redis {
    /// Its address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url: Option<Text>,
    /// A Secret with its address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub url_ref: Option<RedisUrl>,
    /// TLS towards it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<RedisTls>,
}

/// A Secret with the address of a Redis server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisUrl {
    /// Which one.
    pub secret_key_ref: SecretKey,
}

/// A key of a Secret in the controller's namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The Secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Text,
    /// The key.
    pub key: Text,
    /// Whether it may be missing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// TLS towards a Redis server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisTls {
    /// Client certificate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificate_ref: Option<SecretRef>,
}

/// Metrics and traces of the rate limit service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitTelemetry {
    /// Metrics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: Option<RateLimitMetrics>,
    /// Traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tracing: Option<RateLimitTracing>,
}

/// Metrics of the rate limit service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitMetrics {
    /// The scrape endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prometheus: Option<Prometheus>,
}

/// Traces of the rate limit service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitTracing {
    /// Percent kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_rate: Option<u32>,
    /// Where they go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider: Option<RateLimitTracingProvider>,
}

/// Where traces of the rate limit service go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitTracingProvider {
    /// Protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<Text>,
    /// The collector.
    pub url: Text,
}

fn admin_port() -> u16 {
    19_000
}

fn loopback() -> Text {
    "127.0.0.1".into()
}

fn otlp() -> u16 {
    4317
}

impl Default for AdminAddress {
    fn default() -> Self {
        Self {
            port: admin_port(),
            host: loopback(),
        }
    }
}
