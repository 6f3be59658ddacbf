//! EdgeProxy: settings of a fleet of proxies.

pub mod cluster;
pub mod extension;
pub mod telemetry;

use crate::edge_proxy::cluster::EdgeProxyClusterProvider;
use crate::edge_proxy::extension::{DynamicModuleEntry, EdgeProxyGeoIp, LuaValidationConfig};
use crate::edge_proxy::telemetry::{ProxyLogging, ProxyTelemetry};
use crate::free::Core;
use crate::reference::ParentReference;
use crate::shape::{JsonPatchOperation, MergeType, RoutingType};
use crate::status::Condition;
use crate::text::DurationText;
use crate::tls::BackendTlsConfig;
use crate::values::values;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the proxies of a GatewayClass or Gateway are like.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "EdgeProxy",
    plural = "edgeproxies",
    shortname = "eproxy",
    category = "edge-gateway",
    namespaced,
    doc = "What the proxies of a GatewayClass or Gateway are like.",
    status = "EdgeProxyStatus",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.luaValidation) || !has(self.lua)", "only one of luaValidation or lua may be set"))]
#[x_kube(validation = ("!(has(self.mergeGateways) && self.mergeGateways && has(self.mergeBackends))", "mergeGateways and mergeBackends cannot both be enabled"))]
pub struct EdgeProxySpec {
    /// Where the fleet runs; in the cluster with the usual settings when absent.
    pub provider: Option<EdgeProxyProvider>,
    /// Log levels of the proxy.
    #[schemars(extend("default" = serde_json::json!({"level": {"default": "warn"}})))]
    pub logging: Option<ProxyLogging>,
    /// Access logs, traces, metrics and request ids.
    pub telemetry: Option<ProxyTelemetry>,
    /// Changes of the default bootstrap.
    pub bootstrap: Option<ProxyBootstrap>,
    /// Worker threads; as many as the container has cores when absent.
    pub concurrency: Option<i32>,
    /// Whether requests go to pods (Endpoint) or to the address of a Service; Endpoint when absent.
    pub routing_type: Option<RoutingType>,
    /// Further command line arguments of the proxy.
    pub extra_args: Option<Vec<String>>,
    /// One fleet for all Gateways of the class; only on an EdgeProxy of a GatewayClass.
    pub merge_gateways: Option<bool>,
    /// One cluster for a backend, however many routes use it; present, even empty, switches it on. Not with
    /// mergeGateways.
    pub merge_backends: Option<MergeBackendsConfig>,
    /// How proxies drain.
    pub shutdown: Option<ShutdownConfig>,
    /// Moves HTTP filters, one entry after the other.
    pub filter_order: Option<Vec<FilterPosition>>,
    /// TLS towards all backends, and the certificate that the proxy shows them.
    #[serde(rename = "backendTLS")]
    pub backend_tls: Option<BackendTlsConfig>,
    /// Address family of listeners and of the Service; IPv4 when absent.
    pub ip_family: Option<IpFamily>,
    /// Keeps the rules of routes in the order written, without sorting them by precedence.
    pub preserve_route_order: Option<bool>,
    /// Older place of `lua.validationType`.
    pub lua_validation: Option<LuaValidation>,
    /// How Lua scripts are checked.
    pub lua: Option<LuaValidationConfig>,
    /// Native modules that policies may name.
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub dynamic_modules: Option<Vec<DynamicModuleEntry>>,
    /// Databases that turn addresses into places.
    #[serde(rename = "geoIP")]
    pub geo_ip: Option<EdgeProxyGeoIp>,
    /// How this merges with less specific settings: those of the controller, of the class, of the Gateway. Replaces
    /// them when absent.
    pub merge_type: Option<MergeType>,
}

/// Where a fleet runs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyProvider {
    /// Which member is set.
    pub r#type: EdgeProxyProviderType,
    /// Settings of the objects in the cluster.
    pub cluster: Option<EdgeProxyClusterProvider>,
    /// Settings of the processes on this host.
    pub host: Option<EdgeProxyHostProvider>,
}

/// Proxies as processes of this host.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyHostProvider {
    /// Version of the program that runs as the proxy.
    pub envoy_version: Option<String>,
}

/// How the default bootstrap is changed.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type == 'JSONPatch' ? has(self.jsonPatches) && self.jsonPatches.size() > 0 : has(self.value)", "provided bootstrap patch doesn't match the configured patch type"))]
pub struct ProxyBootstrap {
    /// How the change is made.
    #[schemars(extend("default" = "Replace"))]
    pub r#type: Option<BootstrapType>,
    /// YAML, for Replace and Merge.
    pub value: Option<String>,
    /// Steps, for JSONPatch.
    pub json_patches: Option<Vec<JsonPatchOperation>>,
}

/// Which backends have one cluster.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergeBackendsConfig {
    /// Labels of the backends; all when absent.
    pub selector: Option<Core<LabelSelector>>,
}

/// How a proxy drains.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownConfig {
    /// Wait before health checks fail.
    pub health_check_failure_delay: Option<DurationText>,
    /// Longest drain; 60s when absent.
    pub drain_timeout: Option<DurationText>,
    /// Shortest drain; 10s when absent.
    pub min_drain_duration: Option<DurationText>,
}

/// Moves one HTTP filter next to another.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.before) || has(self.after))", "one of before or after must be specified"))]
#[x_kube(validation = ("(has(self.before) && !has(self.after)) || (!has(self.before) && has(self.after))", "only one of before or after can be specified"))]
pub struct FilterPosition {
    /// The filter that moves.
    pub name: EdgeFilter,
    /// It goes right before this one.
    pub before: Option<EdgeFilter>,
    /// It goes right after this one.
    pub after: Option<EdgeFilter>,
}

/// What became of an EdgeProxy.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyStatus {
    /// What became of it, for each class or Gateway that uses it.
    pub ancestors: Option<Vec<EdgeProxyAncestorStatus>>,
}

/// What became of an EdgeProxy for one class or Gateway.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyAncestorStatus {
    /// What is true of it there.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The class or Gateway.
    pub ancestor_ref: ParentReference,
    /// Who says so.
    pub controller_name: Option<String>,
}

values! {
    /// Values of `IPFamily`.
    pub enum IpFamily {
        IPv4 = "IPv4",
        IPv6 = "IPv6",
        DualStack = "DualStack",
    }
}

values! {
    /// Values of `LuaValidation`.
    pub enum LuaValidation {
        Strict = "Strict",
        InsecureSyntax = "InsecureSyntax",
        Disabled = "Disabled",
    }
}

values! {
    /// Values of `EdgeProxyProviderType`.
    pub enum EdgeProxyProviderType {
        Cluster = "Cluster",
        Host = "Host",
    }
}

values! {
    /// Values of `BootstrapType`.
    pub enum BootstrapType {
        Merge = "Merge",
        Replace = "Replace",
        JsonPatch = "JSONPatch",
    }
}

values! {
    /// Values of `EdgeFilter`.
    pub enum EdgeFilter {
        CustomResponse = "edge.filters.http.custom_response",
        HealthCheck = "edge.filters.http.health_check",
        Fault = "edge.filters.http.fault",
        Cors = "edge.filters.http.cors",
        Csrf = "edge.filters.http.csrf",
        HeaderMutation = "edge.filters.http.header_mutation",
        ExtAuthz = "edge.filters.http.ext_authz",
        ApiKeyAuth = "edge.filters.http.api_key_auth",
        BasicAuth = "edge.filters.http.basic_auth",
        BasicAuthn = "edge.filters.http.basic_authn",
        Oauth2 = "edge.filters.http.oauth2",
        JwtAuthn = "edge.filters.http.jwt_authn",
        StatefulSession = "edge.filters.http.stateful_session",
        Buffer = "edge.filters.http.buffer",
        Lua = "edge.filters.http.lua",
        ExtProc = "edge.filters.http.ext_proc",
        Wasm = "edge.filters.http.wasm",
        DynamicModules = "edge.filters.http.dynamic_modules",
        Geoip = "edge.filters.http.geoip",
        Rbac = "edge.filters.http.rbac",
        LocalRatelimit = "edge.filters.http.local_ratelimit",
        Ratelimit = "edge.filters.http.ratelimit",
        BandwidthLimit = "edge.filters.http.bandwidth_limit",
        GrpcWeb = "edge.filters.http.grpc_web",
        GrpcStats = "edge.filters.http.grpc_stats",
        CredentialInjector = "edge.filters.http.credential_injector",
        Compressor = "edge.filters.http.compressor",
        DynamicForwardProxy = "edge.filters.http.dynamic_forward_proxy",
    }
}
