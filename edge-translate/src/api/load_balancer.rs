//! How an endpoint of a backend is chosen.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Text;
use crate::api::list::List;
use crate::api::string_map::StringMap;
use crate::api::text::{DurationText, is_default, open_enum};

/// How an endpoint is chosen.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Algorithm.
    pub r#type: LoadBalancerType,
    /// What is hashed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistent_hash: Option<Box<ConsistentHash>>,
    /// Weights from load reports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_utilization: Option<Box<BackendUtilization>>,
    /// A native algorithm.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dynamic_module: Option<Value>,
    /// The client names the endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoint_override: Option<EndpointOverride>,
    /// New endpoints begin slowly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slow_start: Option<SlowStart>,
    /// Traffic by zones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zone_aware: Option<Box<ZoneAware>>,
}

open_enum! {
    /// How an endpoint is chosen.
    pub enum LoadBalancerType {
        LeastRequest = "LeastRequest",
        ConsistentHash = "ConsistentHash",
        Random = "Random",
        RoundRobin = "RoundRobin",
        BackendUtilization = "BackendUtilization",
        DynamicModule = "DynamicModule",
    }
}

impl LoadBalancerType {
    /// Whether it knows which endpoint it will choose next, and can be asked for connections ahead.
    pub fn looks_ahead(&self) -> bool {
        matches!(self, Self::Random | Self::RoundRobin)
    }
}

/// What is hashed.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsistentHash {
    /// Which member is set.
    #[serde(default)]
    pub r#type: ConsistentHashType,
    /// Older form of `headers`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<NamedField>,
    /// Headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: List<NamedField>,
    /// A cookie.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie: Option<HashCookie>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub query_params: List<NamedField>,
    /// Size of the Maglev table, a prime.
    #[serde(default = "table_size")]
    pub table_size: u64,
}

open_enum! {
    /// What is hashed.
    pub enum ConsistentHashType {
        SourceIp = "SourceIP",
        Header = "Header",
        Headers = "Headers",
        Cookie = "Cookie",
        QueryParams = "QueryParams",
    }
}

/// A header or parameter.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedField {
    /// Its name.
    pub name: Text,
}

/// A cookie that is hashed.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HashCookie {
    /// Its name.
    pub name: Text,
    /// Life of a cookie made by the proxy; absent makes none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl: Option<DurationText>,
    /// Attributes of a cookie made by the proxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attributes: StringMap,
}

/// Weights from load reports.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendUtilization {
    /// Reports ignored at first; 10 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blackout_period: Option<DurationText>,
    /// Age at which a report is dropped; 3 min when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight_expiration_period: Option<DurationText>,
    /// How often weights change; 1 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight_update_period: Option<DurationText>,
    /// How much errors count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error_utilization_penalty_percent: Option<u32>,
    /// Metrics that tell the load; where a report has none of them, its utilization does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metric_names_for_computing_utilization: List<Text>,
    /// Leaves report headers in responses.
    #[serde(default)]
    pub keep_response_headers: bool,
    /// Reports by a stream of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub out_of_band: Option<OutOfBandReporting>,
}

/// Load reports by a stream of their own.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutOfBandReporting {
    /// How often.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reporting_period: Option<DurationText>,
    /// Port of the stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
    /// Authority of the stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub authority: Option<Text>,
}

/// The client names the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOverride {
    /// Where its address is, first hit wins.
    #[serde(default)]
    pub extract_from: Box<[EndpointOverrideSource]>,
}

/// Where the address of an endpoint is.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOverrideSource {
    /// A header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub header: Option<Text>,
}

/// New endpoints begin slowly.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowStart {
    /// How long.
    pub window: DurationText,
}

/// Traffic by zones.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAware {
    /// The proxy's own zone first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefer_local: Option<PreferLocalZone>,
    /// Fixed weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weighted_zones: List<WeightedZone>,
}

/// The proxy's own zone first.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferLocalZone {
    /// Nothing else.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: Option<ForceLocalZone>,
    /// Endpoints needed for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_endpoints_threshold: Option<u64>,
    /// Share of requests; 100 when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub percentage_enabled: Option<u32>,
}

/// Only the proxy's own zone.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForceLocalZone {
    /// Endpoints needed for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_endpoints_in_zone_threshold: Option<u32>,
}

/// The weight of a zone.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedZone {
    /// The zone.
    pub zone: Text,
    /// Its weight; zones not named have 1.
    pub weight: u32,
}

fn table_size() -> u64 {
    65_537
}
