//! EdgeProxy (gateway.edge): settings of a fleet of proxies.
//!
//! Parts that are only handed on to the cluster (affinity, volumes, resources, patches) stay free JSON.

pub mod cluster;
pub mod telemetry;
pub mod tracing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Text;
use crate::api::edge_proxy::cluster::ClusterProvider;
use crate::api::edge_proxy::telemetry::ProxyTelemetry;
use crate::api::meta::{LabelSelector, Metadata, StatusAsRead};
use crate::api::text::{DurationText, is_default, open_enum};
use crate::api::tls::BackendTlsConfig;

/// Settings of the proxies of a GatewayClass or Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxy {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: EdgeProxySpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What an EdgeProxy asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxySpec {
    /// Where the fleet runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider: Option<Box<EdgeProxyProvider>>,
    /// Log levels of the proxy.
    #[serde(default)]
    pub logging: ProxyLogging,
    /// Access logs, traces, metrics and request ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub telemetry: Option<Box<ProxyTelemetry>>,
    /// Changes of the default bootstrap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bootstrap: Option<Box<ProxyBootstrap>>,
    /// Worker threads; absent means one per core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub concurrency: Option<i32>,
    /// Whether requests go to pods or to the Service address; absent means Endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub routing_type: Option<RoutingType>,
    /// Further command line arguments of the proxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extra_args: Box<[Text]>,
    /// One fleet for all Gateways of the class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_gateways: bool,
    /// One cluster per backend; present, even empty, switches it on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_backends: Option<MergeBackends>,
    /// How the proxy drains.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shutdown: Option<ShutdownConfig>,
    /// Moves HTTP filters, one after the other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filter_order: Box<[FilterPosition]>,
    /// TLS defaults towards every backend.
    #[serde(rename = "backendTLS", default, skip_serializing_if = "is_default")]
    pub backend_tls: Option<Box<BackendTlsConfig>>,
    /// Address families of listeners and Services; absent means IPv4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ip_family: Option<IpFamily>,
    /// Keeps rules in the order written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preserve_route_order: bool,
    /// Older place of `lua.validationType`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lua_validation: Option<LuaValidation>,
    /// How Lua scripts are checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lua: Option<Box<LuaConfig>>,
    /// Native modules that policies may name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dynamic_modules: Box<[DynamicModule]>,
    /// Databases that turn addresses into places.
    #[serde(rename = "geoIP", default, skip_serializing_if = "is_default")]
    pub geo_ip: Option<Box<GeoIp>>,
    /// How this merges with less specific settings; absent replaces them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_type: Option<MergeType>,
}

open_enum! {
    /// Where requests to a Service go.
    pub enum RoutingType {
        Endpoint = "Endpoint",
        Service = "Service",
    }
}

open_enum! {
    /// Address families.
    pub enum IpFamily {
        Ipv4 = "IPv4",
        Ipv6 = "IPv6",
        DualStack = "DualStack",
    }
}

open_enum! {
    /// How settings or patches are merged.
    pub enum MergeType {
        StrategicMerge = "StrategicMerge",
        JsonMerge = "JSONMerge",
        Replace = "Replace",
    }
}

open_enum! {
    /// How strictly Lua scripts are checked.
    pub enum LuaValidation {
        Strict = "Strict",
        InsecureSyntax = "InsecureSyntax",
        Disabled = "Disabled",
    }
}

/// Where the fleet runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxyProvider {
    /// Cluster or host.
    #[serde(default)]
    pub r#type: EdgeProxyProviderType,
    /// Settings of the objects in the cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: Option<Box<ClusterProvider>>,
    /// Settings of the processes on this host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<HostProvider>,
}

open_enum! {
    /// Where a fleet runs.
    pub enum EdgeProxyProviderType {
        Cluster = "Cluster",
        Host = "Host",
    }
}

/// Settings of proxy processes on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostProvider {
    /// Version of the proxy binary.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_version: Option<Text>,
}

/// Changes of the default bootstrap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyBootstrap {
    /// How the change is made.
    #[serde(default)]
    pub r#type: BootstrapType,
    /// YAML text for Replace and Merge.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<Text>,
    /// Operations for JSONPatch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json_patches: Box<[JsonPatchOperation]>,
}

open_enum! {
    /// How a bootstrap is changed.
    pub enum BootstrapType {
        Replace = "Replace",
        Merge = "Merge",
        JsonPatch = "JSONPatch",
    }
}

/// One step of a JSON patch (RFC 6902).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchOperation {
    /// What is done.
    pub op: JsonPatchOp,
    /// JSON pointer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<Text>,
    /// JSONPath (RFC 9535) whose hits `path` is appended to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json_path: Option<Text>,
    /// Source of move and copy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<Text>,
    /// Operand of add, replace and test.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<Value>,
}

open_enum! {
    /// A step of a JSON patch.
    pub enum JsonPatchOp {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
        Move = "move",
        Copy = "copy",
        Test = "test",
    }
}

/// Which backends share one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeBackends {
    /// Labels of the backends; absent means all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: Option<LabelSelector>,
}

/// How a proxy drains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownConfig {
    /// Wait before health checks fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health_check_failure_delay: Option<DurationText>,
    /// Longest drain; 60 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drain_timeout: Option<DurationText>,
    /// Shortest drain; 10 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_drain_duration: Option<DurationText>,
}

/// Moves one HTTP filter next to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterPosition {
    /// The filter that moves.
    pub name: Text,
    /// It goes right before this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub before: Option<Text>,
    /// It goes right after this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: Option<Text>,
}

/// How Lua scripts are checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LuaConfig {
    /// How strictly.
    #[serde(default)]
    pub validation_type: LuaValidation,
    /// What scripts may touch while they are checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strict_validation: Option<StrictLua>,
}

/// What Lua scripts may touch while they are checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StrictLua {
    /// Files they may open.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_paths: Box<[Text]>,
    /// Environment variables they may read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_env_vars: Box<[Text]>,
}

/// A native module that policies may name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicModule {
    /// Name that policies use.
    pub name: Text,
    /// Where it comes from.
    pub source: DynamicModuleSource,
    /// Never unloaded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub do_not_close: bool,
    /// Its symbols are visible to others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load_globally: bool,
}

/// Where a native module comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicModuleSource {
    /// Which member is set.
    #[serde(default)]
    pub r#type: DynamicModuleSourceType,
    /// A file beside the proxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub local: Option<LocalPath>,
    /// A download.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remote: Option<RemoteModule>,
}

open_enum! {
    /// Where a native module comes from.
    pub enum DynamicModuleSourceType {
        Local = "Local",
        Remote = "Remote",
    }
}

/// A file on the machine of the proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalPath {
    /// Its path.
    pub path: Text,
}

/// A module to download.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteModule {
    /// From where.
    pub url: Text,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: Text,
}

/// Databases that turn addresses into places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeoIp {
    /// Who made them.
    pub provider: GeoIpProvider,
}

/// A maker of address databases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeoIpProvider {
    /// Which member is set.
    pub r#type: GeoIpProviderType,
    /// MaxMind databases.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_mind: Option<Box<MaxMind>>,
}

open_enum! {
    /// A maker of address databases.
    pub enum GeoIpProviderType {
        MaxMind = "MaxMind",
    }
}

/// MaxMind databases, at least one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxMind {
    /// Cities.
    #[serde(default, skip_serializing_if = "is_default")]
    pub city_db_source: Option<GeoIpSource>,
    /// Countries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub country_db_source: Option<GeoIpSource>,
    /// Autonomous systems.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asn_db_source: Option<GeoIpSource>,
    /// Providers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isp_db_source: Option<GeoIpSource>,
    /// Anonymisers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub anonymous_ip_db_source: Option<GeoIpSource>,
}

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeoIpSource {
    /// A file beside the proxy.
    pub local: LocalPath,
}

/// Log levels of the proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyLogging {
    /// Level by component; `default` is the base.
    #[serde(default = "warn")]
    pub level: BTreeMap<Text, LogLevel>,
}

open_enum! {
    /// A log level.
    pub enum LogLevel {
        Trace = "trace",
        Debug = "debug",
        Info = "info",
        Warn = "warn",
        Error = "error",
        Off = "off",
        Critical = "critical",
    }
}

fn warn() -> BTreeMap<Text, LogLevel> {
    BTreeMap::from([("default".into(), LogLevel::Warn)])
}

impl Default for ProxyLogging {
    fn default() -> Self {
        Self { level: warn() }
    }
}
