//! What an EdgeProxy says about access logs, metrics and request ids; traces are in `tracing`.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::edge_proxy::tracing::ProxyTracing;
use crate::api::route_filter::HttpHeader;
use crate::api::shape::{collector, otlp_collector};
use crate::api::string_map::StringMap;
use crate::api::string_match::StringMatch;
use crate::api::text::{Quantity, is_default, open_enum};

/// Access logs, traces, metrics and request ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyTelemetry {
    /// Access logs; JSON on standard output when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub access_log: Option<Box<AccessLog>>,
    /// Traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tracing: Option<Box<ProxyTracing>>,
    /// Metrics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: Option<Box<ProxyMetrics>>,
    /// The x-request-id header.
    #[serde(rename = "requestID", default, skip_serializing_if = "is_default")]
    pub request_id: Option<RequestIdSettings>,
    /// Events of active health checks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health_check_log: Option<Box<HealthCheckLog>>,
}

/// Access logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// None at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable: bool,
    /// Formats and sinks; JSON on standard output when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: Option<Box<[AccessLogSetting]>>,
}

/// One format with its sinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogSetting {
    /// What is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: Option<Box<AccessLogFormat>>,
    /// CEL conditions, of which one must hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[Text]>,
    /// Where entries go.
    #[serde(default)]
    pub sinks: Box<[AccessLogSink]>,
    /// Whose log it is; absent means routes and listeners without route.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<AccessLogType>,
}

open_enum! {
    /// Whose access log a setting is for.
    pub enum AccessLogType {
        Listener = "Listener",
        Route = "Route",
        Upstream = "Upstream",
    }
}

/// What an entry holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogFormat {
    /// Text or JSON; absent allows both members.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<AccessLogFormatType>,
    /// Format string.
    #[serde(default, skip_serializing_if = "is_default")]
    pub text: Option<Text>,
    /// Format by key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json: StringMap,
}

open_enum! {
    /// Form of access log entries.
    pub enum AccessLogFormatType {
        Text = "Text",
        Json = "JSON",
    }
}

/// Where entries go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogSink {
    /// Which member is set.
    pub r#type: AccessLogSinkType,
    /// A gRPC log service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub als: Option<Box<AlsAccessLog>>,
    /// A file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub file: Option<FileSink>,
    /// An OpenTelemetry collector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_telemetry: Option<Box<OpenTelemetryAccessLog>>,
}

open_enum! {
    /// Where access log entries go.
    pub enum AccessLogSinkType {
        Als = "ALS",
        File = "File",
        OpenTelemetry = "OpenTelemetry",
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSink {
    /// Its path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<Text>,
}

collector! {
    /// A gRPC access log service.
    pub struct AlsAccessLog {
        /// Name sent along.
        #[serde(default, skip_serializing_if = "is_default")]
        pub log_name: Option<Text>,
        /// Kind of entries.
        pub r#type: AlsType,
        /// Headers to include.
        #[serde(default, skip_serializing_if = "is_default")]
        pub http: Option<Box<AlsHttp>>,
    }
}

open_enum! {
    /// Kind of entries sent to a log service.
    pub enum AlsType {
        Http = "HTTP",
        Tcp = "TCP",
    }
}

/// Headers to include in entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlsHttp {
    /// Of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_headers: Box<[Text]>,
    /// Of responses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_headers: Box<[Text]>,
    /// Trailers of responses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_trailers: Box<[Text]>,
}

otlp_collector! {
    /// An OpenTelemetry collector of log records.
    pub struct OpenTelemetryAccessLog {
        /// Older form of `resourceAttributes`.
        #[serde(default, skip_serializing_if = "is_default")]
        pub resources: StringMap,
        /// Attributes of the resource.
        #[serde(default, skip_serializing_if = "is_default")]
        pub resource_attributes: StringMap,
        /// Further metadata.
        #[serde(default, skip_serializing_if = "is_default")]
        pub headers: Box<[HttpHeader]>,
    }
}

/// Metrics of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyMetrics {
    /// The scrape endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prometheus: Option<ProxyPrometheus>,
    /// Collectors to push to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sinks: Box<[MetricSink]>,
    /// Statistics to include.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[StringMatch]>,
    /// Per virtual host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_virtual_host_stats: bool,
    /// Per endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_per_endpoint_stats: bool,
    /// Histograms of sizes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_request_response_sizes_stats: bool,
    /// gRPC statistics for HTTPRoutes too.
    #[serde(rename = "enableGRPCStats", default, skip_serializing_if = "is_default")]
    pub enable_grpc_stats: Option<bool>,
    /// Template of cluster names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster_stat_name: Option<Text>,
}

/// The scrape endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyPrometheus {
    /// None.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable: bool,
    /// Compresses answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compression: Option<Compression>,
}

/// A compressor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compression {
    /// Algorithm.
    pub r#type: CompressorType,
    /// Settings for Brotli.
    #[serde(default, skip_serializing_if = "is_default")]
    pub brotli: Option<serde_json::Value>,
    /// Settings for gzip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gzip: Option<serde_json::Value>,
    /// Settings for Zstandard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zstd: Option<serde_json::Value>,
    /// Smallest body compressed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_content_length: Option<Quantity>,
}

open_enum! {
    /// A compression algorithm.
    pub enum CompressorType {
        Gzip = "Gzip",
        Brotli = "Brotli",
        Zstd = "Zstd",
    }
}

/// A collector to push metrics to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSink {
    /// Protocol.
    #[serde(default)]
    pub r#type: MetricSinkType,
    /// Settings for OpenTelemetry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_telemetry: Option<Box<OpenTelemetryMetrics>>,
}

open_enum! {
    /// Protocol of a metrics collector.
    pub enum MetricSinkType {
        OpenTelemetry = "OpenTelemetry",
    }
}

otlp_collector! {
    /// An OpenTelemetry collector of metrics.
    pub struct OpenTelemetryMetrics {
        /// Counters as differences.
        #[serde(default, skip_serializing_if = "is_default")]
        pub report_counters_as_deltas: bool,
        /// Histograms as differences.
        #[serde(default, skip_serializing_if = "is_default")]
        pub report_histograms_as_deltas: bool,
        /// Further metadata.
        #[serde(default, skip_serializing_if = "is_default")]
        pub headers: Box<[HttpHeader]>,
        /// Attributes of the resource.
        #[serde(default, skip_serializing_if = "is_default")]
        pub resource_attributes: StringMap,
    }
}

/// The x-request-id header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestIdSettings {
    /// Whether it carries the trace decision; PackAndSample when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tracing: Option<RequestIdExtensionAction>,
}

open_enum! {
    /// What a request id carries.
    pub enum RequestIdExtensionAction {
        PackAndSample = "PackAndSample",
        Sample = "Sample",
        Pack = "Pack",
        Disable = "Disable",
    }
}

/// Events of active health checks.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckLog {
    /// Where they go; standard output when empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sinks: Box<[HealthCheckLogSink]>,
    /// Which ones; all when empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[HealthCheckEvent]>,
}

/// Where events of health checks go.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckLogSink {
    /// Which member is set.
    pub r#type: HealthCheckLogSinkType,
    /// A file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub file: Option<FileSink>,
}

open_enum! {
    /// Where events of health checks go.
    pub enum HealthCheckLogSinkType {
        File = "File",
    }
}

open_enum! {
    /// An event of a health check.
    pub enum HealthCheckEvent {
        Failure = "Failure",
        FailureSeriesStart = "FailureSeriesStart",
        Success = "Success",
        HealthyTransition = "HealthyTransition",
    }
}
