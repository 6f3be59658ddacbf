//! How endpoints are found to be unhealthy.

use crate::number::HttpStatus;
use crate::text::{Base64, DurationText};
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How endpoints are found to be unhealthy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Asks the endpoints.
    pub active: Option<ActiveHealthCheck>,
    /// Watches the traffic to the endpoints.
    pub passive: Option<PassiveHealthCheck>,
    /// Below this share of healthy endpoints, in percent, all are used; 50 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub panic_threshold: Option<u32>,
}

/// Asks the endpoints from time to time.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.http) == (self.type == 'HTTP')", "If Health Checker type is HTTP, http field needs to be set."))]
#[x_kube(validation = ("has(self.tcp) == (self.type == 'TCP')", "If Health Checker type is TCP, tcp field needs to be set."))]
#[x_kube(validation = ("!has(self.grpc) || self.type == 'GRPC'", "The grpc field can only be set if the Health Checker type is GRPC."))]
pub struct ActiveHealthCheck {
    /// Longest wait for an answer.
    #[schemars(extend("default" = "1s"))]
    pub timeout: Option<DurationText>,
    /// Time between two checks.
    #[schemars(extend("default" = "3s"))]
    pub interval: Option<DurationText>,
    /// Longest random delay of the first check.
    pub initial_jitter: Option<DurationText>,
    /// Failures in a row that make an endpoint unhealthy.
    #[schemars(range(min = 1), extend("default" = 3))]
    pub unhealthy_threshold: Option<u32>,
    /// Successes in a row that make it healthy.
    #[schemars(range(min = 1), extend("default" = 1))]
    pub healthy_threshold: Option<u32>,
    /// What an endpoint is asked by.
    pub r#type: ActiveHealthCheckerType,
    /// The request, for HTTP.
    pub http: Option<HttpActiveHealthChecker>,
    /// What is sent and expected, for TCP.
    pub tcp: Option<TcpActiveHealthChecker>,
    /// The service asked for, for GRPC.
    pub grpc: Option<GrpcActiveHealthChecker>,
    /// Asks elsewhere than where traffic goes.
    pub overrides: Option<HealthCheckOverrides>,
    /// Log of what was found, instead of the one of the fleet.
    pub health_check_log: Option<ProxyHealthCheckLog>,
}

/// A health check by HTTP.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.requestBody) || (has(self.method) && self.method.upperAscii() in ['POST', 'PUT'])", "The requestBody field can only be set when method is POST or PUT."))]
pub struct HttpActiveHealthChecker {
    /// Host header; when absent the host name of the endpoint or the name of the cluster.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub hostname: Option<String>,
    /// Path that is asked for.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// Method; GET when absent.
    #[schemars(length(max = 16))]
    pub method: Option<String>,
    /// Statuses of a healthy endpoint; 200 when absent.
    pub expected_statuses: Option<Vec<HttpStatus>>,
    /// Statuses that count as a failure, but not as one that ends it at once.
    pub retriable_statuses: Option<Vec<HttpStatus>>,
    /// What the body must hold.
    pub expected_response: Option<ActiveHealthCheckPayload>,
    /// Body of the request, for POST and PUT.
    pub request_body: Option<ActiveHealthCheckPayload>,
}

/// Bytes that are sent or expected.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.text) == (self.type == 'Text')", "If payload type is Text, text field needs to be set."))]
#[x_kube(validation = ("has(self.binary) == (self.type == 'Binary')", "If payload type is Binary, binary field needs to be set."))]
pub struct ActiveHealthCheckPayload {
    /// Which member is set.
    pub r#type: ActiveHealthCheckPayloadType,
    /// As text.
    pub text: Option<String>,
    /// As bytes in base64.
    pub binary: Option<Base64>,
}

/// A health check by TCP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpActiveHealthChecker {
    /// What is sent; when absent a connection is enough.
    pub send: Option<ActiveHealthCheckPayload>,
    /// What must come back.
    pub receive: Option<ActiveHealthCheckPayload>,
}

/// A health check by gRPC.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcActiveHealthChecker {
    /// Service asked for; the whole server when absent.
    pub service: Option<String>,
}

/// Where endpoints are asked.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckOverrides {
    /// Port of the checks.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

/// A log of health checks.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyHealthCheckLog {
    /// Where events are written; standard output when absent.
    #[schemars(length(max = 1))]
    pub sinks: Option<Vec<ProxyHealthCheckLogSink>>,
    /// Events that are written; all when absent.
    #[schemars(length(max = 4))]
    #[x_kube(validation = ("self.exists(e, e in ['Failure', 'FailureSeriesStart']) == self.exists(e, e in ['Success', 'HealthyTransition'])", "a failure type and a success type must both be specified together"))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub matches: Option<Vec<ProxyHealthCheckLogEventType>>,
}

/// Where events of health checks are written.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.file) == (self.type == 'File')", "If ProxyHealthCheckLogSink type is File, file field needs to be set."))]
pub struct ProxyHealthCheckLogSink {
    /// Which member is set.
    pub r#type: ProxyHealthCheckLogSinkType,
    /// A file.
    pub file: Option<FileEdgeProxyHealthCheckLog>,
}

/// A file for events of health checks.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileEdgeProxyHealthCheckLog {
    /// Path of the file in the container of the proxy.
    #[schemars(length(min = 1))]
    pub path: String,
}

/// Leaves out endpoints that fail too often.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassiveHealthCheck {
    /// Counts failures of connections apart from failing responses.
    #[schemars(extend("default" = false))]
    pub split_external_local_origin_errors: Option<bool>,
    /// Time between two looks at the counts.
    #[schemars(extend("default" = "3s"))]
    pub interval: Option<DurationText>,
    /// Failures of connections in a row that eject, with splitExternalLocalOriginErrors.
    #[schemars(extend("default" = 5))]
    pub consecutive_local_origin_failures: Option<u32>,
    /// Statuses 502, 503 and 504 in a row that eject.
    pub consecutive_gateway_errors: Option<u32>,
    /// Statuses from 500 in a row that eject.
    #[schemars(extend("default" = 5))]
    pub consecutive5_xx_errors: Option<u32>,
    /// How long an endpoint stays out, times how often it was.
    #[schemars(extend("default" = "30s"))]
    pub base_ejection_time: Option<DurationText>,
    /// Largest share of endpoints that is out.
    #[schemars(range(min = 0, max = 100), extend("default" = 10))]
    pub max_ejection_percent: Option<i32>,
    /// Share of failures, in percent, that ejects.
    #[schemars(range(min = 0, max = 100))]
    pub failure_percentage_threshold: Option<u32>,
    /// One endpoint may be out whatever the largest share is.
    #[schemars(extend("default" = false))]
    pub always_eject_one_endpoint: Option<bool>,
}

values! {
    /// Values of `ActiveHealthCheckerType`.
    pub enum ActiveHealthCheckerType {
        Http = "HTTP",
        Tcp = "TCP",
        Grpc = "GRPC",
    }
}

values! {
    /// Values of `ActiveHealthCheckPayloadType`.
    pub enum ActiveHealthCheckPayloadType {
        Text = "Text",
        Binary = "Binary",
    }
}

values! {
    /// Values of `ProxyHealthCheckLogEventType`.
    pub enum ProxyHealthCheckLogEventType {
        Failure = "Failure",
        FailureSeriesStart = "FailureSeriesStart",
        Success = "Success",
        HealthyTransition = "HealthyTransition",
    }
}

values! {
    /// Values of `ProxyHealthCheckLogSinkType`.
    pub enum ProxyHealthCheckLogSinkType {
        File = "File",
    }
}
