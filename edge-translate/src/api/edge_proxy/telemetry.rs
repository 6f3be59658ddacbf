//! What an EdgeProxy says about access logs, traces, metrics and request ids.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::cluster_settings::{BackendRef, ClusterSettings};
use crate::api::meta::StringMap;
use crate::api::route_filter::{Fraction, HttpHeader};
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
    pub matches: Box<[Box<str>]>,
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
    pub text: Option<Box<str>>,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileSink {
    /// Its path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<Box<str>>,
}

/// A gRPC access log service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlsAccessLog {
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_ref: Option<Box<BackendRef>>,
    /// The service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[BackendRef]>,
    /// Settings of the connections to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_settings: Option<Box<ClusterSettings>>,
    /// Name sent along.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_name: Option<Box<str>>,
    /// Kind of entries.
    pub r#type: AlsType,
    /// Headers to include.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<Box<AlsHttp>>,
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
    pub request_headers: Box<[Box<str>]>,
    /// Of responses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_headers: Box<[Box<str>]>,
    /// Trailers of responses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_trailers: Box<[Box<str>]>,
}

/// An OpenTelemetry collector of log records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryAccessLog {
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_ref: Option<Box<BackendRef>>,
    /// The collector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[BackendRef]>,
    /// Settings of the connections to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_settings: Option<Box<ClusterSettings>>,
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<Box<str>>,
    /// Port of `host`.
    #[serde(default = "otlp")]
    pub port: u16,
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

/// Traces of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyTracing {
    /// Percent of requests; 100 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_rate: Option<u32>,
    /// Share of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_fraction: Option<Fraction>,
    /// Share of client-forced traces that are honoured.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_sampling_fraction: Option<Fraction>,
    /// Upper bound after the others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overall_sampling_fraction: Option<Fraction>,
    /// Older form of `tags`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub custom_tags: BTreeMap<Box<str>, CustomTag>,
    /// Span tags with command operators.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: StringMap,
    /// Names of spans.
    #[serde(default, skip_serializing_if = "is_default")]
    pub span_name: Option<SpanName>,
    /// Where traces go.
    pub provider: TracingProvider,
}

/// A span tag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomTag {
    /// Which member is set.
    #[serde(default)]
    pub r#type: CustomTagType,
    /// A fixed value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub literal: Option<LiteralTag>,
    /// From an environment variable.
    #[serde(default, skip_serializing_if = "is_default")]
    pub environment: Option<NamedTag>,
    /// From a request header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_header: Option<NamedTag>,
}

open_enum! {
    /// Where a span tag comes from.
    pub enum CustomTagType {
        Literal = "Literal",
        Environment = "Environment",
        RequestHeader = "RequestHeader",
    }
}

/// A fixed value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiteralTag {
    /// The value.
    pub value: Box<str>,
}

/// A value found by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedTag {
    /// Name of the variable or header.
    pub name: Box<str>,
    /// Value when it isn't there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_value: Option<Box<str>>,
}

/// Names of spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanName {
    /// Of client spans.
    pub client: Box<str>,
    /// Of server spans.
    pub server: Box<str>,
}

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracingProvider {
    /// Protocol.
    #[serde(default)]
    pub r#type: TracingProviderType,
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_ref: Option<Box<BackendRef>>,
    /// The collector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[BackendRef]>,
    /// Settings of the connections to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_settings: Option<Box<ClusterSettings>>,
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<Box<str>>,
    /// Port of `host`.
    #[serde(default = "otlp")]
    pub port: u16,
    /// Service name of the spans.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service_name: Option<Box<str>>,
    /// Settings for Zipkin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zipkin: Option<ZipkinTracing>,
    /// Settings for OpenTelemetry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_telemetry: Option<Box<OpenTelemetryTracing>>,
}

open_enum! {
    /// Protocol of a trace collector.
    pub enum TracingProviderType {
        OpenTelemetry = "OpenTelemetry",
        Zipkin = "Zipkin",
        Datadog = "Datadog",
    }
}

/// Settings for Zipkin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZipkinTracing {
    /// Long trace ids.
    #[serde(rename = "enable128BitTraceId", default, skip_serializing_if = "is_default")]
    pub enable_128_bit_trace_id: Option<bool>,
    /// Client and server spans apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_shared_span_context: Option<bool>,
}

/// Settings for OpenTelemetry traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryTracing {
    /// Further metadata.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Box<[HttpHeader]>,
    /// Attributes of the resource.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_attributes: StringMap,
    /// Which traces are kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampler: Option<OtelSampler>,
}

/// Which traces are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelSampler {
    /// The rule.
    #[serde(default)]
    pub r#type: OtelSamplerType,
    /// Share, for the ratio rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling_percentage: Option<Fraction>,
}

open_enum! {
    /// Which traces are kept.
    pub enum OtelSamplerType {
        AlwaysOn = "AlwaysOn",
        AlwaysOff = "AlwaysOff",
        TraceIdRatio = "TraceIdRatio",
        ParentBasedAlwaysOn = "ParentBasedAlwaysOn",
        ParentBasedAlwaysOff = "ParentBasedAlwaysOff",
        ParentBasedTraceIdRatio = "ParentBasedTraceIdRatio",
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
    pub cluster_stat_name: Option<Box<str>>,
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

/// An OpenTelemetry collector of metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryMetrics {
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_ref: Option<Box<BackendRef>>,
    /// The collector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[BackendRef]>,
    /// Settings of the connections to it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_settings: Option<Box<ClusterSettings>>,
    /// Older form of `backendRefs`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<Box<str>>,
    /// Port of `host`.
    #[serde(default = "otlp")]
    pub port: u16,
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

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StringMatch {
    /// How it is compared.
    #[serde(default)]
    pub r#type: StringMatchType,
    /// Text or expression.
    pub value: Box<str>,
}

open_enum! {
    /// How a text is compared.
    pub enum StringMatchType {
        Exact = "Exact",
        Prefix = "Prefix",
        Suffix = "Suffix",
        RegularExpression = "RegularExpression",
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

fn otlp() -> u16 {
    4317
}
