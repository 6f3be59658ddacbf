//! How an endpoint is chosen.

use crate::free::AnyJson;
use crate::text::DurationText;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an endpoint is chosen.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.consistentHash) == (self.type == 'ConsistentHash')", "If LoadBalancer type is consistentHash, consistentHash field needs to be set."))]
#[x_kube(validation = ("has(self.backendUtilization) == (self.type == 'BackendUtilization')", "If LoadBalancer type is BackendUtilization, backendUtilization field needs to be set."))]
#[x_kube(validation = ("has(self.dynamicModule) == (self.type == 'DynamicModule')", "If LoadBalancer type is DynamicModule, dynamicModule field needs to be set."))]
#[x_kube(validation = ("!(self.type in ['Random', 'ConsistentHash', 'DynamicModule']) || !has(self.slowStart)", "Currently SlowStart is only supported for RoundRobin, LeastRequest, and BackendUtilization load balancers."))]
#[x_kube(validation = ("self.type != 'ConsistentHash' || !has(self.zoneAware) || !has(self.zoneAware.preferLocal)", "PreferLocal zone-aware routing is not supported for ConsistentHash load balancers. Use weightedZones instead."))]
#[x_kube(validation = ("self.type != 'BackendUtilization' || !has(self.zoneAware) || !has(self.zoneAware.preferLocal)", "PreferLocal zone-aware routing is not currently supported for BackendUtilization load balancers. Only WeightedZones can be used with BackendUtilization."))]
#[x_kube(validation = ("self.type != 'DynamicModule' || !has(self.zoneAware)", "ZoneAware routing is not supported for DynamicModule load balancers."))]
#[x_kube(validation = ("!has(self.zoneAware) || !has(self.zoneAware.preferLocal) || !has(self.zoneAware.weightedZones)", "ZoneAware PreferLocal and WeightedZones cannot be specified together."))]
#[x_kube(validation = ("self.type != 'DynamicModule' || !has(self.endpointOverride)", "EndpointOverride is not supported for DynamicModule load balancers."))]
pub struct LoadBalancer {
    /// Algorithm by which an endpoint is chosen.
    pub r#type: LoadBalancerType,
    /// What is hashed, for ConsistentHash.
    pub consistent_hash: Option<ConsistentHash>,
    /// Weights from load reports (ORCA) of the endpoints, for BackendUtilization.
    pub backend_utilization: Option<BackendUtilization>,
    /// A module that chooses, for DynamicModule.
    pub dynamic_module: Option<DynamicModuleLbPolicy>,
    /// Lets requests name their endpoint; the algorithm decides where that fails.
    pub endpoint_override: Option<EndpointOverride>,
    /// New endpoints get their share of traffic little by little.
    pub slow_start: Option<SlowStart>,
    /// Prefers or weighs zones.
    pub zone_aware: Option<ZoneAware>,
}

/// Requests with the same hash go to the same endpoint.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.header) == (self.type == 'Header')", "If consistent hash type is header, the header field must be set."))]
#[x_kube(validation = ("has(self.headers) == (self.type == 'Headers')", "If consistent hash type is headers, the headers field must be set."))]
#[x_kube(validation = ("has(self.cookie) == (self.type == 'Cookie')", "If consistent hash type is cookie, the cookie field must be set."))]
#[x_kube(validation = ("has(self.queryParams) == (self.type == 'QueryParams')", "If consistent hash type is queryParams, the queryParams field must be set."))]
pub struct ConsistentHash {
    /// What is hashed.
    pub r#type: ConsistentHashType,
    /// Older form of `headers` with one entry.
    pub header: Option<Header>,
    /// Headers that are hashed together.
    pub headers: Option<Vec<Header>>,
    /// Cookie that is hashed.
    pub cookie: Option<Cookie>,
    /// Query parameters that are hashed together.
    pub query_params: Option<Vec<QueryParam>>,
    /// Size of the Maglev table, a prime number.
    #[schemars(range(min = 2, max = 5000011), extend("default" = 65537))]
    pub table_size: Option<u64>,
}

/// A header that is hashed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name of the header.
    pub name: String,
}

/// A cookie that is hashed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Name of the cookie.
    pub name: String,
    /// Lifetime; when set, the proxy makes the cookie where it is missing.
    pub ttl: Option<DurationText>,
    /// Further attributes of the cookie that the proxy makes.
    pub attributes: Option<BTreeMap<String, String>>,
}

/// A query parameter that is hashed.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryParam {
    /// Name of the parameter.
    pub name: String,
}

/// Weights from what endpoints report of their load.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendUtilization {
    /// How long an endpoint reports before its weight counts; 10s when absent.
    pub blackout_period: Option<DurationText>,
    /// How long a report counts; 3m when absent.
    pub weight_expiration_period: Option<DurationText>,
    /// How often weights are computed; 1s when absent.
    pub weight_update_period: Option<DurationText>,
    /// How much errors add to the load of an endpoint: 100 counts the error rate once.
    #[schemars(range(min = 0))]
    pub error_utilization_penalty_percent: Option<u32>,
    /// Metrics of a report that tell the load; where it has none of them, its utilization does.
    pub metric_names_for_computing_utilization: Option<Vec<String>>,
    /// Leaves load reports in the headers of responses.
    #[schemars(extend("default" = false))]
    pub keep_response_headers: Option<bool>,
    /// Asks endpoints for reports in a stream, instead of reading them from responses.
    pub out_of_band: Option<OutOfBandReporting>,
}

/// Load reports in a stream of their own.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutOfBandReporting {
    /// How often endpoints are asked to report.
    #[x_kube(validation = ("duration(self) > duration('0s')", "reportingPeriod must be greater than 0"))]
    pub reporting_period: Option<DurationText>,
    /// Port of the reports; that of the endpoint when absent.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Authority that is asked; when absent the host name of the endpoint, else its address, else the name of the
    /// cluster.
    #[schemars(length(min = 1, max = 259), regex(pattern = r"^[^\x00\n\r]*$"))]
    pub authority: Option<String>,
}

/// A native module that chooses endpoints.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicModuleLbPolicy {
    /// Module, an entry of `dynamicModules` of the EdgeProxy.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: String,
    /// Name of the policy inside of the module.
    #[schemars(length(min = 1, max = 253))]
    pub lb_policy_name: String,
    /// Settings of the module, any JSON.
    pub config: Option<AnyJson>,
}

/// Lets requests name their endpoint.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOverride {
    /// Where the endpoint is named; the first place that has one counts.
    #[schemars(length(min = 1, max = 10))]
    pub extract_from: Vec<EndpointOverrideExtractFrom>,
}

/// Where a request names its endpoint.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointOverrideExtractFrom {
    /// A header that holds `IP:port`, or several with commas between.
    pub header: Option<String>,
}

/// New endpoints get their share of traffic little by little.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlowStart {
    /// How long the share of a new endpoint grows.
    pub window: DurationText,
}

/// What the zone of an endpoint means.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAware {
    /// Prefers the zone of the proxy.
    pub prefer_local: Option<PreferLocalZone>,
    /// Weights of zones.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["zone".into()]))]
    pub weighted_zones: Option<Vec<WeightedZoneConfig>>,
}

/// The zone of the proxy comes first.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferLocalZone {
    /// Sends everything to the zone of the proxy.
    pub force: Option<ForceLocalZone>,
    /// How many endpoints there must be before zones count.
    pub min_endpoints_threshold: Option<u64>,
    /// Share of requests for which zones count; 100 when absent.
    #[schemars(range(min = 0, max = 100))]
    pub percentage_enabled: Option<u32>,
}

/// Everything goes to the zone of the proxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForceLocalZone {
    /// How many endpoints the zone must have.
    pub min_endpoints_in_zone_threshold: Option<u32>,
}

/// A zone and its weight.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightedZoneConfig {
    /// Zone; others weigh 1.
    pub zone: String,
    /// Its weight.
    pub weight: u32,
}

values! {
    /// Values of `LoadBalancerType`.
    pub enum LoadBalancerType {
        ConsistentHash = "ConsistentHash",
        LeastRequest = "LeastRequest",
        Random = "Random",
        RoundRobin = "RoundRobin",
        BackendUtilization = "BackendUtilization",
        DynamicModule = "DynamicModule",
    }
}

values! {
    /// Values of `ConsistentHashType`.
    pub enum ConsistentHashType {
        SourceIp = "SourceIP",
        Header = "Header",
        Headers = "Headers",
        Cookie = "Cookie",
        QueryParams = "QueryParams",
    }
}
