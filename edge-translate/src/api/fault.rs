//! Failures on purpose, and limits of bandwidth.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::text::{DurationText, Quantity, is_default, open_enum};

/// Failures on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultInjection {
    /// Requests that wait.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Option<FaultDelay>,
    /// Requests that fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub abort: Option<FaultAbort>,
}

/// Requests that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultDelay {
    /// How long.
    pub fixed_delay: DurationText,
    /// How many of a hundred.
    #[serde(default = "all")]
    pub percentage: f64,
}

/// Requests that fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultAbort {
    /// With this status code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http_status: Option<i32>,
    /// With this status of gRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc_status: Option<i32>,
    /// How many of a hundred.
    #[serde(default = "all")]
    pub percentage: f64,
}

/// How many bytes are let through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthLimit {
    /// Towards the backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: Option<RequestBandwidth>,
    /// Towards the client.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response: Option<ResponseBandwidth>,
}

/// Bytes towards the backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestBandwidth {
    /// How many.
    pub limit: BandwidthValue,
}

/// Bytes towards the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseBandwidth {
    /// How many.
    pub limit: BandwidthValue,
    /// Trailers that tell the delay.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response_trailers: Option<BandwidthTrailers>,
}

/// Trailers that tell the delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthTrailers {
    /// What their names begin with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: Option<Text>,
}

/// Bytes in a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthValue {
    /// How many.
    pub value: Quantity,
    /// In which time.
    pub unit: BandwidthUnit,
}

open_enum! {
    /// The time in which bytes are counted.
    pub enum BandwidthUnit {
        Second = "Second",
        Minute = "Minute",
        Hour = "Hour",
    }
}

fn all() -> f64 {
    100.0
}
