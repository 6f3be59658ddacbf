//! What an EdgeProxy says about traces.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::route_filter::{Fraction, HttpHeader};
use crate::api::shape::{otlp_collector, traces};
use crate::api::string_map::StringMap;
use crate::api::text::{is_default, open_enum};

traces! {
    /// Traces of requests.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ProxyTracing {
        /// Percent of requests; 100 when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub sampling_rate: Option<u32>,
        /// Where traces go.
        pub provider: TracingProvider,
    }
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
    pub value: Text,
}

/// A value found by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedTag {
    /// Name of the variable or header.
    pub name: Text,
    /// Value when it isn't there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_value: Option<Text>,
}

/// Names of spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanName {
    /// Of client spans.
    pub client: Text,
    /// Of server spans.
    pub server: Text,
}

otlp_collector! {
    /// Where traces go.
    pub struct TracingProvider {
        /// Protocol.
        #[serde(default)]
        pub r#type: TracingProviderType,
        /// Service name of the spans.
        #[serde(default, skip_serializing_if = "is_default")]
        pub service_name: Option<Text>,
        /// Settings for Zipkin.
        #[serde(default, skip_serializing_if = "is_default")]
        pub zipkin: Option<ZipkinTracing>,
        /// Settings for OpenTelemetry.
        #[serde(default, skip_serializing_if = "is_default")]
        pub open_telemetry: Option<Box<OpenTelemetryTracing>>,
    }
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
