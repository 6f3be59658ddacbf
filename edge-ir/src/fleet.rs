//! One fleet: everything a set of identical proxies is configured with.

use crate::{
    AccessLog, Cluster, CustomPolicy, EndpointSet, FleetKey, FleetTracing, IpFamily, Listener, Patch, RouteTable,
    Secret,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What one proxy fleet must do. The inner lists are shared with the previous translation where nothing changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// Which fleet this is; a proxy names it as its service cluster.
    pub key: FleetKey,
    /// Settings that hold for the whole proxy.
    pub settings: Arc<FleetSettings>,
    /// Sockets to open, sorted by name.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub listeners: Arc<Vec<Arc<Listener>>>,
    /// Tables of virtual hosts, sorted by name. Each is named by at least one filter chain.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub route_tables: Arc<Vec<Arc<RouteTable>>>,
    /// Upstream clusters, sorted by name.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub clusters: Arc<Vec<Arc<Cluster>>>,
    /// Endpoints of the clusters that are discovered by [`Discovery::Endpoints`](crate::Discovery), sorted by name.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub endpoints: Arc<Vec<Arc<EndpointSet>>>,
    /// Certificates and authorities, sorted by name.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub secrets: Arc<Vec<Arc<Secret>>>,
    /// Changes to what all this is lowered to, in the order in which they apply.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub patches: Arc<Vec<Patch>>,
    /// Policies for its Gateways that only extension services know, the oldest first.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub custom_policies: Arc<Vec<CustomPolicy>>,
}

impl Fleet {
    /// A fleet that does nothing yet.
    pub fn new(key: FleetKey) -> Self {
        Self {
            key,
            settings: Arc::default(),
            listeners: Arc::default(),
            route_tables: Arc::default(),
            clusters: Arc::default(),
            endpoints: Arc::default(),
            secrets: Arc::default(),
            patches: Arc::default(),
            custom_policies: Arc::default(),
        }
    }
}

fn is_empty<T>(list: &Arc<Vec<T>>) -> bool {
    list.is_empty()
}

/// Settings of the proxy as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetSettings {
    /// Address family that listeners bind to.
    pub ip_family: IpFamily,
    /// What is logged of each request.
    pub access_log: AccessLog,
    /// What is traced; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Arc<FleetTracing>>,
    /// What request ids have to do with traces.
    #[serde(default, skip_serializing_if = "RequestIdTracing::is_default")]
    pub request_id: RequestIdTracing,
    /// The readiness listener; absent when a bootstrap brings its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<ReadyListener>,
    /// Keep routes in the order of their source instead of sorting them by precedence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_route_order: bool,
}

/// What request ids have to do with traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestIdTracing {
    /// Whether a request is traced is written into its id.
    pub packed: bool,
    /// Whether a request is traced is decided by its id, the same wherever it comes by.
    pub sampled: bool,
}

impl Default for RequestIdTracing {
    fn default() -> Self {
        Self {
            packed: true,
            sampled: true,
        }
    }
}

impl RequestIdTracing {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The listener that tells a supervisor whether the proxy is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadyListener {
    /// Address to bind, `0.0.0.0` or `::`, or a loopback address on a shared machine.
    pub address: Arc<str>,
    /// TCP port.
    pub port: u16,
}
