//! Which requests are traced, shared by EdgeProxy and BackendTrafficPolicy.

use crate::number::Fraction;
use crate::values::values;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which requests are traced, and what spans tell.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// Share of the requests that are traced.
    pub sampling_fraction: Option<Fraction>,
    /// Share of the requests that ask for it (x-client-trace-id) and get it; none when absent.
    pub client_sampling_fraction: Option<Fraction>,
    /// Upper bound of both.
    pub overall_sampling_fraction: Option<Fraction>,
    /// Older form of `tags`.
    pub custom_tags: Option<BTreeMap<String, CustomTag>>,
    /// Values of tags; command operators are filled in.
    pub tags: Option<BTreeMap<String, String>>,
    /// Names of spans.
    pub span_name: Option<TracingSpanName>,
}

/// A tag of spans.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomTag {
    /// Which member is set.
    #[schemars(extend("default" = "Literal"))]
    pub r#type: CustomTagType,
    /// A fixed value.
    pub literal: Option<LiteralCustomTag>,
    /// The value of an environment variable of the proxy.
    pub environment: Option<EnvironmentCustomTag>,
    /// The value of a header of the request.
    pub request_header: Option<RequestHeaderCustomTag>,
}

/// A fixed value of a tag.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiteralCustomTag {
    /// The value.
    pub value: String,
}

/// A tag from the environment of the proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentCustomTag {
    /// Name of the variable.
    pub name: String,
    /// Value where there is none.
    pub default_value: Option<String>,
}

/// A tag from a header of the request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeaderCustomTag {
    /// Name of the header.
    pub name: String,
    /// Value where there is none.
    pub default_value: Option<String>,
}

/// Names of spans.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TracingSpanName {
    /// Name of the span of the request to the backend; command operators are filled in.
    pub client: String,
    /// Name of the span of the request of the client; command operators are filled in.
    pub server: String,
}

values! {
    /// Values of `CustomTagType`.
    pub enum CustomTagType {
        Literal = "Literal",
        Environment = "Environment",
        RequestHeader = "RequestHeader",
    }
}
