//! Where resources come from and where proxies run.

use serde::{Deserialize, Serialize};

use crate::api::edge_proxy::cluster::{ClusterAutoscaler, ClusterDeployment, ClusterDisruptionBudget};
use crate::api::text::{DurationText, is_default, open_enum};
use crate::api::{LabelSelector, Text};
use crate::config::extension::ExtensionService;

/// Where resources come from and where proxies run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Cluster or files.
    pub r#type: ProviderType,
    /// Settings for a cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: Option<Box<ClusterProvider>>,
    /// Settings for standalone mode.
    #[serde(default, skip_serializing_if = "is_default")]
    pub custom: Option<Box<CustomProvider>>,
}

open_enum! {
    /// Where resources come from.
    pub enum ProviderType {
        Cluster = "Cluster",
        Custom = "Custom",
    }
}

/// Settings for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProvider {
    /// Deployment of the rate limit service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate_limit_deployment: Option<Box<ClusterDeployment>>,
    /// Its autoscaler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate_limit_hpa: Option<Box<ClusterAutoscaler>>,
    /// Its disruption budget.
    #[serde(rename = "rateLimitPDB", default, skip_serializing_if = "is_default")]
    pub rate_limit_pdb: Option<Box<ClusterDisruptionBudget>>,
    /// Where the objects of fleets are made.
    #[serde(default)]
    pub deploy: DeployMode,
    /// The sidecar that drains proxies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shutdown_manager: Option<ShutdownManager>,
    /// The webhook that tells proxies their zone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxy_topology_injector: Option<TopologyInjector>,
    /// Which namespaces are watched; all when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: Option<WatchMode>,
    /// How one replica becomes the writer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub leader_election: Option<LeaderElection>,
    /// Limits towards the API server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Option<ClusterClient>,
    /// Time between full reads; 10 h when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache_sync_period: Option<DurationText>,
}

/// Where the objects of fleets are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeployMode {
    /// Beside the controller or beside the Gateway.
    #[serde(default)]
    pub r#type: DeployModeType,
}

open_enum! {
    /// Where the objects of fleets are made.
    pub enum DeployModeType {
        ControllerNamespace = "ControllerNamespace",
        GatewayNamespace = "GatewayNamespace",
    }
}

/// The sidecar that drains proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownManager {
    /// Its image; the controller's when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: Option<Text>,
}

/// The webhook that tells proxies their zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyInjector {
    /// Off.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disabled: bool,
}

/// Which namespaces are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchMode {
    /// By name or by labels; absent means all namespaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<WatchModeType>,
    /// Their names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespaces: Box<[Text]>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace_selector: Option<LabelSelector>,
}

open_enum! {
    /// How watched namespaces are chosen.
    pub enum WatchModeType {
        Namespaces = "Namespaces",
        NamespaceSelector = "NamespaceSelector",
    }
}

/// How one replica becomes the writer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElection {
    /// Life of the lease; 15 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lease_duration: Option<DurationText>,
    /// Time to renew it; 10 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub renew_deadline: Option<DurationText>,
    /// Time between tries; 2 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub retry_period: Option<DurationText>,
    /// Every replica writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable: bool,
}

impl LeaderElection {
    /// The life of the lease, the time to renew it and that between tries, by their names: as given, or the defaults.
    pub fn times(&self) -> [(&'static str, DurationText); 3] {
        let times = [
            ("leaseDuration", &self.lease_duration, "15s"),
            ("renewDeadline", &self.renew_deadline, "10s"),
            ("retryPeriod", &self.retry_period, "2s"),
        ];
        times.map(|(name, given, default)| (name, given.clone().unwrap_or_else(|| default.into())))
    }
}

/// Limits towards the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClient {
    /// Rate of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rate_limit: Option<ClientRateLimit>,
}

/// A rate of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientRateLimit {
    /// In a second.
    #[serde(default = "qps")]
    pub qps: i32,
    /// At once.
    #[serde(default = "burst")]
    pub burst: i32,
}

impl Default for ClientRateLimit {
    fn default() -> Self {
        Self {
            qps: qps(),
            burst: burst(),
        }
    }
}

/// Settings for standalone mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomProvider {
    /// Where resources come from.
    #[serde(default)]
    pub resource: ResourceProvider,
    /// Where proxies run; absent leaves them to others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub infrastructure: Option<InfrastructureProvider>,
}

/// Where resources come from in standalone mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceProvider {
    /// Files or a cluster.
    pub r#type: ResourceProviderType,
    /// Settings for files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub file: Option<FileProvider>,
    /// Settings for a cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: Option<Box<ClusterProvider>>,
}

open_enum! {
    /// Where resources come from in standalone mode.
    pub enum ResourceProviderType {
        File = "File",
        Cluster = "Cluster",
    }
}

/// Files that are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProvider {
    /// Files and folders.
    #[serde(default)]
    pub paths: Box<[Text]>,
}

/// Where proxies run in standalone mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureProvider {
    /// On this host or elsewhere.
    pub r#type: InfrastructureProviderType,
    /// Settings for this host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host: Option<HostInfrastructure>,
    /// Settings for elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remote: Option<Box<RemoteInfrastructure>>,
}

open_enum! {
    /// Where proxies run in standalone mode.
    pub enum InfrastructureProviderType {
        Host = "Host",
        Remote = "Remote",
    }
}

/// Folders and program of proxies on this host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostInfrastructure {
    /// Configuration; `~/.config/edge-gateway` when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub config_home: Option<Text>,
    /// Programs; `~/.local/share/edge-gateway` when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data_home: Option<Text>,
    /// State; `~/.local/state/edge-gateway` when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state_home: Option<Text>,
    /// Sockets; a temporary folder of the user when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runtime_dir: Option<Text>,
    /// Program that is started as proxy: `edge-proxy` or a stock Envoy; the `edge-proxy` beside the controller when
    /// absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxy_binary: Option<Text>,
}

/// A service that runs proxies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteInfrastructure {
    /// Its address.
    pub service: ExtensionService,
}

fn qps() -> i32 {
    50
}

fn burst() -> i32 {
    100
}
