//! Traces and metrics of the routes that a policy covers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::edge_proxy::tracing::{CustomTag, SpanName};
use crate::api::route_filter::Fraction;
use crate::api::string_map::StringMap;
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

/// Traces, where they differ from those of the EdgeProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteTracing {
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
}

/// Metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendMetrics {
    /// The name under which requests are counted, with operators for the route's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub route_stat_name: Option<Box<str>>,
}
