//! Active and passive health checks of backends.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::edge_proxy::telemetry::HealthCheckLog;
use crate::api::list::List;
use crate::api::route_filter::one;
use crate::api::text::{DurationText, is_default, open_enum};

/// Active and passive health checks.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Probes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active: Option<Box<ActiveHealthCheck>>,
    /// Lessons from traffic.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passive: Option<Box<PassiveHealthCheck>>,
    /// Percent below which health is ignored; 50 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub panic_threshold: Option<u32>,
}

/// Probes of an endpoint.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveHealthCheck {
    /// Time for an answer.
    #[serde(default = "second")]
    pub timeout: DurationText,
    /// Time between probes.
    #[serde(default = "three_seconds")]
    pub interval: DurationText,
    /// Random wait before the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub initial_jitter: Option<DurationText>,
    /// Failures until unhealthy.
    #[serde(default = "three")]
    pub unhealthy_threshold: u32,
    /// Successes until healthy.
    #[serde(default = "one")]
    pub healthy_threshold: u32,
    /// Which member is set.
    pub r#type: HealthCheckType,
    /// By HTTP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<Box<HttpHealthCheck>>,
    /// By TCP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: Option<Box<TcpHealthCheck>>,
    /// By gRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc: Option<GrpcHealthCheck>,
    /// Another port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overrides: Option<HealthCheckOverrides>,
    /// Where events go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health_check_log: Option<Box<HealthCheckLog>>,
}

open_enum! {
    /// How endpoints are probed.
    pub enum HealthCheckType {
        Http = "HTTP",
        Tcp = "TCP",
        Grpc = "GRPC",
    }
}

/// A probe by HTTP.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpHealthCheck {
    /// Host header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// Path.
    pub path: Text,
    /// Method; GET when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: Option<Text>,
    /// Healthy status codes; 200 when empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expected_statuses: List<u16>,
    /// Status codes that count as one failure among others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retriable_statuses: List<u16>,
    /// Body that must be found.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expected_response: Option<HealthCheckPayload>,
    /// Body to send.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_body: Option<HealthCheckPayload>,
}

/// Bytes of a probe.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckPayload {
    /// Which member is set.
    pub r#type: PayloadType,
    /// As text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub text: Option<Text>,
    /// As base64.
    #[serde(default, skip_serializing_if = "is_default")]
    pub binary: Option<Text>,
}

open_enum! {
    /// Form of a probe's bytes.
    pub enum PayloadType {
        Text = "Text",
        Binary = "Binary",
    }
}

/// A probe by TCP.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpHealthCheck {
    /// What is sent; connecting is enough when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub send: Option<HealthCheckPayload>,
    /// What must come back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receive: Option<HealthCheckPayload>,
}

/// A probe by gRPC.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcHealthCheck {
    /// The service; the whole server when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: Option<Text>,
}

/// Another place for probes.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckOverrides {
    /// Port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
}

/// Lessons from traffic.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassiveHealthCheck {
    /// Counts local and remote errors apart.
    #[serde(default)]
    pub split_external_local_origin_errors: bool,
    /// Time between looks.
    #[serde(default = "three_seconds")]
    pub interval: DurationText,
    /// Local errors in a row until ejection.
    #[serde(default = "five")]
    pub consecutive_local_origin_failures: u32,
    /// Gateway errors in a row until ejection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub consecutive_gateway_errors: Option<u32>,
    /// Server errors in a row until ejection.
    #[serde(rename = "consecutive5XxErrors", default = "five")]
    pub consecutive_5xx_errors: u32,
    /// Time out, times the number of ejections.
    #[serde(default = "half_minute")]
    pub base_ejection_time: DurationText,
    /// Most endpoints out at a time.
    #[serde(default = "ten")]
    pub max_ejection_percent: i32,
    /// Share of failures that ejects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_percentage_threshold: Option<u32>,
    /// One may go whatever the percentage.
    #[serde(default)]
    pub always_eject_one_endpoint: bool,
}

fn three() -> u32 {
    3
}

fn five() -> u32 {
    5
}

fn ten() -> i32 {
    10
}

fn second() -> DurationText {
    DurationText::from("1s")
}

fn three_seconds() -> DurationText {
    DurationText::from("3s")
}

fn half_minute() -> DurationText {
    DurationText::from("30s")
}
