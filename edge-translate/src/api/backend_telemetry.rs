//! Traces and metrics of the routes that a policy covers.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::shape::traces;
use crate::api::text::is_default;

/// Traces and metrics of the routes that a policy covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTelemetry {
    /// Traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tracing: Option<Box<RouteTracing>>,
    /// Metrics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: Option<BackendMetrics>,
}

traces! {
    /// Traces, where they differ from those of the EdgeProxy.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct RouteTracing {}
}

/// Metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendMetrics {
    /// The name under which requests are counted, with operators for the route's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub route_stat_name: Option<Text>,
}
