//! How many requests are let through.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::list::List;
use crate::api::text::{is_default, open_enum};

/// How many requests are let through.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Which of the two; both count when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<Text>,
    /// Counted by a service for all proxies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub global: Option<GlobalRateLimit>,
    /// Counted by each proxy for itself, and for each backend of a rule where requests are rewritten for these in
    /// different ways.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local: Option<LocalRateLimit>,
}

/// Requests counted by a service for all proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimit {
    /// The rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: List<RateLimitRule>,
}

/// What a request counts for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitCost {
    /// When it comes; 1 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: Option<CostSpecifier>,
    /// When it has been answered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub response: Option<CostSpecifier>,
}

/// A cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostSpecifier {
    /// Which member is set.
    pub from: CostFrom,
    /// The cost.
    #[serde(default, skip_serializing_if = "is_default")]
    pub number: Option<u64>,
    /// Where filters of the request have put it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: Option<CostMetadata>,
}

open_enum! {
    /// Where a cost comes from.
    pub enum CostFrom {
        Number = "Number",
        Metadata = "Metadata",
    }
}

/// A place in dynamic metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostMetadata {
    /// Its namespace.
    pub namespace: Text,
    /// Its key.
    pub key: Text,
}

/// Requests counted by each proxy for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalRateLimit {
    /// The rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: List<RateLimitRule>,
}

/// A limit for some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRule {
    /// Which requests; all of them when empty, any of several is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_selectors: Box<[RateLimitSelector]>,
    /// How many.
    pub limit: RateLimitValue,
    /// What a request counts for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cost: Option<Box<RateLimitCost>>,
    /// One counter for all routes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: Option<bool>,
    /// Counts, and refuses nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shadow_mode: Option<bool>,
    /// Whether clients are told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub x_rate_limit_headers: Option<XRateLimitHeaders>,
}

open_enum! {
    /// Whether clients are told of limits.
    pub enum XRateLimitHeaders {
        Off = "Off",
        DraftVersion03 = "DraftVersion03",
    }
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSelector {
    /// On headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Box<[RateLimitNamedMatch]>,
    /// On the method; any is enough.
    #[serde(default, skip_serializing_if = "is_default")]
    pub methods: Box<[RateLimitMethod]>,
    /// On the path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<RateLimitPath>,
    /// On the client's address.
    #[serde(rename = "sourceCIDR", default, skip_serializing_if = "is_default")]
    pub source_cidr: Option<RateLimitSource>,
    /// On query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub query_params: Box<[RateLimitNamedMatch]>,
}

/// A condition on a header or query parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitNamedMatch {
    /// How it is compared.
    #[serde(default)]
    pub r#type: RateLimitMatchType,
    /// Its name.
    pub name: Text,
    /// What it must be.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<Text>,
    /// What it must not be.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
}

open_enum! {
    /// How a value is compared.
    pub enum RateLimitMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
        Distinct = "Distinct",
    }
}

/// A method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitMethod {
    /// In capitals.
    pub value: Text,
    /// Any other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitPath {
    /// How it is compared.
    #[serde(default = "prefix")]
    pub r#type: crate::api::http_route::PathMatchType,
    /// The path.
    #[serde(default = "slash")]
    pub value: Text,
    /// Any other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
}

/// Addresses of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitSource {
    /// Whether each address counts by itself.
    #[serde(default)]
    pub r#type: RateLimitMatchType,
    /// The range.
    pub value: Text,
    /// Any other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
}

/// How many requests in which time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitValue {
    /// How many.
    pub requests: u32,
    /// In which time.
    pub unit: RateLimitUnit,
    /// Where filters of the request say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from_metadata: Option<CostMetadata>,
}

open_enum! {
    /// The time in which requests are counted.
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

fn prefix() -> crate::api::http_route::PathMatchType {
    crate::api::http_route::PathMatchType::PathPrefix
}

fn slash() -> Text {
    "/".into()
}
