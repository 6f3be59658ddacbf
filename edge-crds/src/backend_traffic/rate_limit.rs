//! How much is let through.

use crate::number::ByteQuantity;
use crate::shape::PathMatch;
use crate::text::HttpMethod;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many requests are let through.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSpec {
    /// Older way of saying which member is set.
    pub r#type: Option<RateLimitType>,
    /// Counted over all proxies; needs the rate limit service.
    pub global: Option<GlobalRateLimit>,
    /// Counted by each proxy for itself, and for each backend of a rule where requests are rewritten for these in
    /// different ways.
    pub local: Option<LocalRateLimit>,
}

/// Limits over all proxies, which a rate limit service counts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimit {
    /// The limits.
    #[schemars(length(max = 256))]
    pub rules: Vec<RateLimitRule>,
}

/// One limit, and the requests that it is for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRule {
    /// Requests that the limit is for: one entry matches, with all that it says. All requests when absent.
    #[schemars(length(max = 8))]
    pub client_selectors: Option<Vec<RateLimitSelectCondition>>,
    /// How many in which time.
    pub limit: RateLimitValue,
    /// What a request counts; 1 when absent.
    pub cost: Option<RateLimitCost>,
    /// One count for all routes of the policy; a local limit has one a listener.
    pub shared: Option<bool>,
    /// Counts, and refuses nothing.
    pub shadow_mode: Option<bool>,
    /// Whether responses tell of the limit; as the listener does when absent.
    pub x_rate_limit_headers: Option<XRateLimitHeadersOption>,
}

/// Which requests a limit is for.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.headers) || has(self.methods) || has(self.path) || has(self.sourceCIDR) || has(self.queryParams)", "at least one of headers, methods, path, sourceCIDR or queryParams must be specified"))]
pub struct RateLimitSelectCondition {
    /// Headers, all of which match.
    #[schemars(length(max = 128))]
    pub headers: Option<Vec<HeaderMatch>>,
    /// Methods, one of which matches.
    pub methods: Option<Vec<MethodMatch>>,
    /// The path.
    pub path: Option<PathMatch>,
    /// The address of the client.
    #[serde(rename = "sourceCIDR")]
    pub source_cidr: Option<SourceMatch>,
    /// Query parameters, all of which match.
    #[schemars(length(max = 16))]
    pub query_params: Option<Vec<QueryParamMatch>>,
}

/// How a header is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeaderMatch {
    /// How it is compared; Distinct counts each value for itself.
    #[schemars(extend("default" = "Exact"))]
    pub r#type: Option<HeaderMatchType>,
    /// Name of the header.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Text or expression; absent with Distinct.
    #[schemars(length(max = 1024))]
    pub value: Option<String>,
    /// Takes what does not match; not with Distinct.
    #[schemars(extend("default" = false))]
    pub invert: Option<bool>,
}

/// How the method is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MethodMatch {
    /// The method.
    pub value: HttpMethod,
    /// Takes what does not match.
    #[schemars(extend("default" = false))]
    pub invert: Option<bool>,
}

/// How the address of the client is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceMatch {
    /// How it is compared; Distinct counts each address of the range for itself.
    #[schemars(extend("default" = "Exact"))]
    pub r#type: Option<SourceMatchType>,
    /// Range of addresses as a CIDR.
    #[schemars(length(min = 1, max = 256))]
    pub value: String,
    /// Takes what does not match.
    #[schemars(extend("default" = false))]
    pub invert: Option<bool>,
}

/// How a query parameter is compared.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryParamMatch {
    /// How it is compared; Distinct counts each value for itself.
    #[schemars(extend("default" = "Exact"))]
    pub r#type: Option<QueryParamMatchType>,
    /// Name of the parameter.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Text or expression; absent with Distinct.
    #[schemars(length(max = 1024))]
    pub value: Option<String>,
    /// Takes what does not match; not with Distinct.
    #[schemars(extend("default" = false))]
    pub invert: Option<bool>,
}

/// How many requests in which time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitValue {
    /// Requests.
    #[schemars(range(min = 0, max = 4_294_967_295_i64))]
    pub requests: u32,
    /// Time that they are for.
    pub unit: RateLimitUnit,
    /// Metadata of the request that holds another limit; for global limits.
    pub from_metadata: Option<RateLimitValueMetadata>,
}

/// Metadata of a request that holds a limit.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitValueMetadata {
    /// Namespace of the metadata.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Key of the metadata.
    #[schemars(length(min = 1))]
    pub key: String,
}

/// What a request counts.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitCost {
    /// Counted when the request comes; 1 when absent, and 0 only looks.
    pub request: Option<RateLimitCostSpecifier>,
    /// Counted when the response has gone; for global limits.
    pub response: Option<RateLimitCostSpecifier>,
}

/// A number, fixed or from metadata.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.number) && has(self.metadata))", "only one of number or metadata can be specified"))]
pub struct RateLimitCostSpecifier {
    /// Which member is set.
    pub from: RateLimitCostFrom,
    /// A fixed number.
    pub number: Option<u64>,
    /// A number in the metadata of the request.
    pub metadata: Option<RateLimitCostMetadata>,
}

/// Metadata of a request that holds a number.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitCostMetadata {
    /// Namespace of the metadata.
    pub namespace: String,
    /// Key of the metadata.
    pub key: String,
}

/// Limits that each proxy counts for itself.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimit {
    /// The limits.
    #[schemars(length(max = 16))]
    #[x_kube(validation = ("self.all(r, !has(r.cost) || !has(r.cost.response))", "response cost is not supported for Local Rate Limits"))]
    #[x_kube(validation = ("self.all(r, !has(r.limit.fromMetadata))", "limit fromMetadata is not supported for Local Rate Limits"))]
    pub rules: Option<Vec<RateLimitRule>>,
}

/// How many bytes are let through.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.request) || has(self.response)", "at least one of request or response must be specified"))]
pub struct BandwidthLimitSpec {
    /// Towards the backend.
    pub request: Option<BandwidthLimitRequestConfig>,
    /// Towards the client.
    pub response: Option<BandwidthLimitResponseConfig>,
}

/// Bytes of requests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthLimitRequestConfig {
    /// The limit.
    pub limit: BandwidthLimitValue,
}

/// How many bytes in which time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthLimitValue {
    /// Bytes; at least 1Ki a second.
    pub value: ByteQuantity,
    /// Time that the bytes are for.
    pub unit: BandwidthLimitUnit,
}

/// Bytes of responses.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthLimitResponseConfig {
    /// The limit.
    pub limit: BandwidthLimitValue,
    /// Tells delays in trailers.
    pub response_trailers: Option<BandwidthLimitResponseTrailers>,
}

/// Trailers that tell delays.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BandwidthLimitResponseTrailers {
    /// What their names begin with.
    #[schemars(regex(pattern = r"^[^\r\n\x00]*$"))]
    pub prefix: Option<String>,
}

values! {
    /// Values of `RateLimitType`.
    pub enum RateLimitType {
        Global = "Global",
        Local = "Local",
    }
}

values! {
    /// Values of `XRateLimitHeadersOption`.
    pub enum XRateLimitHeadersOption {
        Off = "Off",
        DraftVersion03 = "DraftVersion03",
    }
}

values! {
    /// Values of `HeaderMatchType`.
    pub enum HeaderMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
        Distinct = "Distinct",
    }
}

values! {
    /// Values of `SourceMatchType`.
    pub enum SourceMatchType {
        Exact = "Exact",
        Distinct = "Distinct",
    }
}

values! {
    /// Values of `QueryParamMatchType`.
    pub enum QueryParamMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
        Distinct = "Distinct",
    }
}

values! {
    /// Values of `RateLimitUnit`.
    pub enum RateLimitUnit {
        Second = "Second",
        Minute = "Minute",
        Hour = "Hour",
        Day = "Day",
        Week = "Week",
        Month = "Month",
        Year = "Year",
    }
}

values! {
    /// Values of `RateLimitCostFrom`.
    pub enum RateLimitCostFrom {
        Number = "Number",
        Metadata = "Metadata",
    }
}

values! {
    /// Values of `BandwidthLimitUnit`.
    pub enum BandwidthLimitUnit {
        Second = "Second",
        Minute = "Minute",
        Hour = "Hour",
    }
}
