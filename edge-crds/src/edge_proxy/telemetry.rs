//! What proxies tell about themselves and their traffic.

use crate::cluster_settings::BackendCluster;
use crate::health_check::ProxyHealthCheckLog;
use crate::number::Fraction;
use crate::rule;
use crate::shape::{Compression, HttpHeader, StringMatch};
use crate::tracing::Tracing;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the proxy logs about itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyLogging {
    /// Level by component; `default` is for all others.
    #[schemars(extend("default" = serde_json::json!({"default": "warn"})))]
    pub level: Option<BTreeMap<String, LogLevel>>,
}

/// What the proxy tells about its traffic.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyTelemetry {
    /// Access logs; JSON on standard output when absent.
    pub access_log: Option<ProxyAccessLog>,
    /// Traces.
    pub tracing: Option<ProxyTracing>,
    /// Metrics.
    pub metrics: Option<ProxyMetrics>,
    /// Request ids.
    #[serde(rename = "requestID")]
    pub request_id: Option<RequestIdSettings>,
    /// Log of the health checks of backends.
    pub health_check_log: Option<ProxyHealthCheckLog>,
}

/// Access logs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyAccessLog {
    /// Writes no access log.
    pub disable: Option<bool>,
    /// The access logs; JSON on standard output when absent.
    #[schemars(length(min = 1, max = 50))]
    pub settings: Option<Vec<ProxyAccessLogSetting>>,
}

/// One access log.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyAccessLogSetting {
    /// What an entry looks like; an access log service has its own form.
    pub format: Option<ProxyAccessLogFormat>,
    /// Expressions in CEL over the request, one of which holds; an invalid one makes the EdgeProxy invalid.
    #[schemars(length(max = 10))]
    pub matches: Option<Vec<String>>,
    /// Where entries go.
    #[schemars(length(min = 1, max = 50))]
    pub sinks: Vec<ProxyAccessLogSink>,
    /// What has an entry: connections that no listener is for (Listener), requests and streams (Route), or attempts to
    /// get a response from a backend (Upstream); the first two when absent.
    pub r#type: Option<ProxyAccessLogType>,
}

/// What an entry of an access log looks like.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.type) || self.type != 'Text' || has(self.text)", "If AccessLogFormat type is Text, text field needs to be set."))]
#[x_kube(validation = ("!has(self.type) || self.type != 'Text' || !has(self.json)", "If AccessLogFormat type is Text, json field must not be set."))]
#[x_kube(validation = ("!has(self.type) || self.type != 'JSON' || has(self.json)", "If AccessLogFormat type is JSON, json field needs to be set."))]
#[x_kube(validation = ("!has(self.type) || self.type != 'JSON' || !has(self.text)", "If AccessLogFormat type is JSON, text field must not be set."))]
#[x_kube(validation = ("has(self.type) || (has(self.text) || has(self.json))", "If AccessLogFormat type is unset, at least one of text or json must be set."))]
pub struct ProxyAccessLogFormat {
    /// Which member is set; both may be when absent.
    pub r#type: Option<ProxyAccessLogFormatType>,
    /// Line with command operators.
    pub text: Option<String>,
    /// Values with command operators, by name.
    pub json: Option<BTreeMap<String, String>>,
}

/// Where entries go.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.als) == (has(self.type) && self.type == 'ALS')", "If AccessLogSink type is ALS, als field needs to be set."))]
#[x_kube(validation = ("has(self.file) == (has(self.type) && self.type == 'File')", "If AccessLogSink type is File, file field needs to be set."))]
#[x_kube(validation = ("has(self.openTelemetry) == (has(self.type) && self.type == 'OpenTelemetry')", "If AccessLogSink type is OpenTelemetry, openTelemetry field needs to be set."))]
pub struct ProxyAccessLogSink {
    /// Which member is set.
    pub r#type: Option<ProxyAccessLogSinkType>,
    /// Envoy's access log service.
    pub als: Option<AlsAccessLog>,
    /// A file.
    pub file: Option<FileEdgeProxyAccessLog>,
    /// A collector of OpenTelemetry.
    pub open_telemetry: Option<OpenTelemetryEdgeProxyAccessLog>,
}

/// Entries go to an access log service by gRPC.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type == 'HTTP' || !has(self.http)", "The http field may only be set when type is HTTP."))]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = ("has(self.backendRefs) && self.backendRefs.size() > 0", "must have at least one backend in backendRefs"))]
#[x_kube(validation = rule::kinds_of_collectors())]
#[x_kube(validation = rule::groups_of_collectors())]
pub struct AlsAccessLog {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Name of the log in the stream.
    #[schemars(length(min = 1))]
    pub log_name: Option<String>,
    /// What is logged: requests or connections.
    pub r#type: AlsAccessLogType,
    /// Headers that are sent along, for HTTP.
    pub http: Option<AlsHttpAccessLogConfig>,
}

/// Headers in entries.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlsHttpAccessLogConfig {
    /// Headers of the request.
    pub request_headers: Option<Vec<String>>,
    /// Headers of the response.
    pub response_headers: Option<Vec<String>>,
    /// Trailers of the response.
    pub response_trailers: Option<Vec<String>>,
}

/// Entries go to a file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEdgeProxyAccessLog {
    /// Path of the file in the container of the proxy; standard output when absent.
    #[schemars(length(min = 1))]
    pub path: Option<String>,
}

/// Entries go to a collector of OpenTelemetry.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::host_or_backends())]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::kinds_of_collectors())]
#[x_kube(validation = rule::groups_of_collectors())]
#[x_kube(validation = ("!has(self.resources) || !has(self.resourceAttributes)", "either resources or resourceAttributes can be set, not both"))]
pub struct OpenTelemetryEdgeProxyAccessLog {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Older form of `backendRefs`: the host.
    pub host: Option<String>,
    /// Port of `host`.
    #[schemars(range(min = 0), extend("default" = 4317))]
    pub port: Option<i32>,
    /// Older form of `resourceAttributes`.
    pub resources: Option<BTreeMap<String, String>>,
    /// Attributes of the resource.
    pub resource_attributes: Option<BTreeMap<String, String>>,
    /// Further headers of the calls.
    #[schemars(length(min = 1, max = 32))]
    pub headers: Option<Vec<HttpHeader>>,
}

/// Which requests are traced, and who gets the spans.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.samplingRate) && has(self.samplingFraction))", "only one of SamplingRate or SamplingFraction can be specified"))]
pub struct ProxyTracing {
    /// Which requests are traced.
    #[serde(flatten)]
    pub tracing: Tracing,
    /// Share of the requests that are traced, in percent; 100 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub sampling_rate: Option<u32>,
    /// Who gets the spans.
    pub provider: TracingProvider,
}

/// Who gets the spans.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::host_or_backends())]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::kinds_of_collectors())]
#[x_kube(validation = rule::groups_of_collectors())]
#[x_kube(validation = ("!has(self.openTelemetry) || self.type == 'OpenTelemetry'", "openTelemetry can only be used with type OpenTelemetry"))]
pub struct TracingProvider {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Who gets the spans, and in which form.
    #[schemars(extend("default" = "OpenTelemetry"))]
    pub r#type: TracingProviderType,
    /// Older form of `backendRefs`: the host.
    pub host: Option<String>,
    /// Port of `host`.
    #[schemars(range(min = 0), extend("default" = 4317))]
    pub port: Option<i32>,
    /// Name of the service in spans; `<gateway>.<namespace>` when absent.
    #[x_kube(validation = ("self != ''", "serviceName cannot be empty if provided"))]
    pub service_name: Option<String>,
    /// Settings of Zipkin.
    pub zipkin: Option<ZipkinTracingProvider>,
    /// Settings of OpenTelemetry.
    pub open_telemetry: Option<OpenTelemetryTracingProvider>,
}

/// Settings of Zipkin.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZipkinTracingProvider {
    /// Makes trace ids of 128 bits.
    pub enable128_bit_trace_id: Option<bool>,
    /// Client and server have spans of their own.
    pub disable_shared_span_context: Option<bool>,
}

/// Settings of OpenTelemetry.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetryTracingProvider {
    /// Further headers of the calls.
    #[schemars(length(min = 1, max = 32))]
    pub headers: Option<Vec<HttpHeader>>,
    /// Attributes of the resource.
    pub resource_attributes: Option<BTreeMap<String, String>>,
    /// Which requests are traced, as its SDKs decide it.
    pub sampler: Option<OTelSampler>,
}

/// Which requests OpenTelemetry traces.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.samplingPercentage) || (self.type == 'TraceIdRatio' || self.type == 'ParentBasedTraceIdRatio')", "samplingPercentage can only be set with TraceIdRatio or ParentBasedTraceIdRatio"))]
pub struct OTelSampler {
    /// Which requests are traced.
    #[schemars(extend("default" = "AlwaysOn"))]
    pub r#type: OTelSamplerType,
    /// Share for the types by ratio; all when absent.
    pub sampling_percentage: Option<Fraction>,
}

/// Metrics of the proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyMetrics {
    /// Metrics that are fetched.
    pub prometheus: Option<ProxyPrometheusProvider>,
    /// Where metrics are pushed to.
    #[schemars(length(max = 16))]
    pub sinks: Option<Vec<ProxyMetricSink>>,
    /// Names of further metrics that are kept.
    pub matches: Option<Vec<StringMatch>>,
    /// Metrics of virtual hosts.
    pub enable_virtual_host_stats: Option<bool>,
    /// Metrics of endpoints.
    pub enable_per_endpoint_stats: Option<bool>,
    /// Histograms of the sizes of requests and responses.
    pub enable_request_response_sizes_stats: Option<bool>,
    /// Metrics of gRPC for HTTPRoutes too.
    #[serde(rename = "enableGRPCStats")]
    pub enable_grpc_stats: Option<bool>,
    /// Names of clusters in metrics; %ROUTE_NAME%, %ROUTE_NAMESPACE%, %ROUTE_KIND%, %ROUTE_RULE_NAME%,
    /// %ROUTE_RULE_NUMBER% and %BACKEND_REFS% are filled in.
    pub cluster_stat_name: Option<String>,
}

/// Metrics for Prometheus.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyPrometheusProvider {
    /// Offers no metrics.
    pub disable: Option<bool>,
    /// Compresses them.
    pub compression: Option<Compression>,
}

/// Where metrics are pushed to.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.openTelemetry) == (self.type == 'OpenTelemetry')", "If MetricSink type is OpenTelemetry, openTelemetry field needs to be set."))]
pub struct ProxyMetricSink {
    /// Which member is set.
    #[schemars(extend("default" = "OpenTelemetry"))]
    pub r#type: MetricSinkType,
    /// A collector of OpenTelemetry.
    pub open_telemetry: Option<ProxyOpenTelemetrySink>,
}

/// Metrics go to a collector of OpenTelemetry.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::host_or_backends())]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::kinds_of_collectors())]
#[x_kube(validation = rule::groups_of_collectors())]
pub struct ProxyOpenTelemetrySink {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// Older form of `backendRefs`: the host.
    pub host: Option<String>,
    /// Port of `host`.
    #[schemars(range(min = 0, max = 65535), extend("default" = 4317))]
    pub port: Option<i32>,
    /// Counters as differences since the last report.
    pub report_counters_as_deltas: Option<bool>,
    /// Histograms as differences since the last report.
    pub report_histograms_as_deltas: Option<bool>,
    /// Further headers of the calls.
    #[schemars(length(min = 1, max = 32))]
    pub headers: Option<Vec<HttpHeader>>,
    /// Attributes of the resource.
    pub resource_attributes: Option<BTreeMap<String, String>>,
}

/// What request ids are for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestIdSettings {
    /// Whether the id tells of traces, and is read for them; PackAndSample when absent.
    pub tracing: Option<RequestIdExtensionAction>,
}

values! {
    /// Values of `ProxyLogComponent`.
    pub enum ProxyLogComponent {
        System = "system",
        Upstream = "upstream",
        Http = "http",
        Connection = "connection",
        Admin = "admin",
        Client = "client",
        Filter = "filter",
        Main = "main",
        Router = "router",
        Runtime = "runtime",
    }
}

values! {
    /// Values of `LogLevel`.
    pub enum LogLevel {
        Trace = "trace",
        Debug = "debug",
        Info = "info",
        Warn = "warn",
        Error = "error",
        Off = "off",
        Critical = "critical",
    }
}

values! {
    /// Values of `ProxyAccessLogType`.
    pub enum ProxyAccessLogType {
        Listener = "Listener",
        Route = "Route",
        Upstream = "Upstream",
    }
}

values! {
    /// Values of `ProxyAccessLogFormatType`.
    pub enum ProxyAccessLogFormatType {
        Text = "Text",
        Json = "JSON",
    }
}

values! {
    /// Values of `ProxyAccessLogSinkType`.
    pub enum ProxyAccessLogSinkType {
        Als = "ALS",
        File = "File",
        OpenTelemetry = "OpenTelemetry",
    }
}

values! {
    /// Values of `ALSAccessLogType`.
    pub enum AlsAccessLogType {
        Http = "HTTP",
        Tcp = "TCP",
    }
}

values! {
    /// Values of `TracingProviderType`.
    pub enum TracingProviderType {
        OpenTelemetry = "OpenTelemetry",
        Zipkin = "Zipkin",
        Datadog = "Datadog",
    }
}

values! {
    /// Values of `OTelSamplerType`.
    pub enum OTelSamplerType {
        AlwaysOn = "AlwaysOn",
        AlwaysOff = "AlwaysOff",
        TraceIdRatio = "TraceIdRatio",
        ParentBasedAlwaysOn = "ParentBasedAlwaysOn",
        ParentBasedAlwaysOff = "ParentBasedAlwaysOff",
        ParentBasedTraceIdRatio = "ParentBasedTraceIdRatio",
    }
}

values! {
    /// Values of `MetricSinkType`.
    pub enum MetricSinkType {
        OpenTelemetry = "OpenTelemetry",
    }
}

values! {
    /// Values of `RequestIDExtensionAction`.
    pub enum RequestIdExtensionAction {
        PackAndSample = "PackAndSample",
        Sample = "Sample",
        Pack = "Pack",
        Disable = "Disable",
    }
}
