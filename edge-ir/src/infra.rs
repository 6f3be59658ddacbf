//! What must exist around a fleet: a workload with its ports, and the bootstrap that its proxies start with.

use crate::{ClusterSettings, Compressor, FleetKey, IpFamily, MetricSink, Origins, TextMatcher};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Sorted string pairs: labels, annotations.
pub type StringMap = BTreeMap<Arc<str>, Arc<str>>;

/// The infrastructure of one fleet. Who renders it (cluster objects or host processes) decides what of it applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Infra {
    /// The fleet it carries.
    pub key: FleetKey,
    /// Name for everything made for it, safe as an object name and unique: cut and hashed from the key.
    pub name: Arc<str>,
    /// Namespace that cluster objects go to.
    pub namespace: Arc<str>,
    /// Beside whom its cluster objects are made.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// The object with which its cluster objects come and go; unknown where objects come from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Labels that tell its objects and pods from all others, owning Gateway included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: StringMap,
    /// Labels that its Gateway asks for on top. They never take the place of the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_labels: StringMap,
    /// Annotations of its objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: StringMap,
    /// Ports to expose, sorted by number and protocol, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ServicePort>,
    /// Addresses the Gateway asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Arc<str>>,
    /// How its proxies are started.
    pub proxy: Arc<ProxySettings>,
    /// The Gateways (or the class) it stands for.
    pub origins: Origins,
}

/// Labels that tell what is made for fleets from all else, and the fleets from each other: nobody else may set or
/// change them. [`Infra::labels`] has those of a fleet.
pub mod label {
    /// The product.
    pub const NAME: &str = "app.kubernetes.io/name";
    /// The part of it.
    pub const COMPONENT: &str = "app.kubernetes.io/component";
    /// Who made the object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// The class of a fleet that Gateways share.
    pub const OWNING_CLASS: &str = "gateway.edge/owning-gatewayclass";
    /// Name of a fleet's Gateway.
    pub const OWNING_GATEWAY: &str = "gateway.edge/owning-gateway-name";
    /// Its namespace.
    pub const OWNING_NAMESPACE: &str = "gateway.edge/owning-gateway-namespace";
    /// The Gateway that an object is made beside (GEP-1762).
    pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
    /// All of them.
    pub const ALL: [&str; 7] = [
        NAME,
        COMPONENT,
        MANAGED_BY,
        OWNING_CLASS,
        OWNING_GATEWAY,
        OWNING_NAMESPACE,
        GATEWAY_NAME,
    ];
}

/// Ports that a proxy's pod takes for itself, whatever its listeners are. On a shared machine each process has others.
pub mod pod_port {
    /// The admin interface, on loopback.
    pub const ADMIN: u16 = 19000;
    /// Statistics.
    pub const METRICS: u16 = 19001;
    /// The shutdown manager beside the proxy.
    pub const SHUTDOWN: u16 = 19002;
    /// Readiness.
    pub const READY: u16 = 19003;
    /// All of them.
    pub const ALL: [u16; 4] = [ADMIN, METRICS, SHUTDOWN, READY];
}

/// What leads a proxy in a pod to its certificate, where it has one ([`Placement::Controller`]).
pub mod pod_certificate {
    /// The file, in the form in which servers of secrets answer.
    pub const FILE: &str = "/sds/xds-certificate.json";
    /// What the certificate with its key is called there.
    pub const SECRET: &str = "xds_certificate";
}

/// Header, and its value, by which a request to the readiness listener asks whether the proxy is alive, and not whether
/// it is ready: one that drains is the first only.
pub const LIVENESS_HEADER: (&str, &str) = ("x-edge-probe", "liveness");

/// Beside whom the cluster objects of a fleet are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// In the controller's namespace. Proxies prove themselves by a certificate and a token.
    #[default]
    Controller,
    /// In the Gateway's namespace, where no key of ours may lie. Proxies prove themselves by a token alone.
    Gateway,
}

impl Placement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a bootstrap has in the place of the zone that a pod is told.
pub const POD_ZONE: &str = "$(EDGE_SERVICE_ZONE)";

/// Where the proxies of fleets start, as far as it shapes what they start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartPlace {
    /// On a machine, beside the controller.
    Machine,
    /// In pods.
    Pod {
        /// Beside whom these are made.
        placement: Placement,
        /// What stands for the zone of a proxy, where proxies are told.
        zone: Option<&'static str>,
    },
}

/// The object that owns what is made for a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Group and version of its kind.
    pub api_version: Arc<str>,
    /// `GatewayClass` or `Gateway`.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What tells it from another of the same name.
    pub uid: Arc<str>,
}

/// A port of the fleet's Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Port that clients connect to.
    pub port: u16,
    /// Transport protocol.
    pub protocol: PortProtocol,
    /// Port the proxy binds.
    pub container_port: u16,
    /// `<protocol>-<port>`, e.g. `https-443`.
    pub name: Arc<str>,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// How a fleet's proxies are started: what an EdgeProxy says, resolved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// Address family of the proxy's own listeners.
    pub ip_family: IpFamily,
    /// Worker threads; unset: one a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Log level by component; `default` for the rest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub log_levels: StringMap,
    /// Seconds that a stopping proxy waits for its connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout_seconds: Option<u32>,
    /// Seconds that a stopping proxy goes on at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_drain_seconds: Option<u32>,
    /// Seconds for which a stopping proxy still passes health checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_failure_delay_seconds: Option<u32>,
    /// Arguments put behind all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_args: Vec<Arc<str>>,
    /// A change to the default bootstrap. It was checked when the EdgeProxy was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapPatch>,
    /// Serve Prometheus metrics on the stats listener.
    pub prometheus: bool,
    /// How the stats listener compresses what it answers, for who takes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_compressor: Option<Compressor>,
    /// Metrics that are kept; all where this is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_metrics: Vec<TextMatcher>,
    /// Whom metrics are pushed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_sinks: Vec<MetricSink>,
    /// Where a host process finds its binary, if not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostProcess>,
    /// Settings that only a cluster renders: workload, Service, autoscaler.
    #[serde(default, skip_serializing_if = "ClusterSettings::is_default")]
    pub cluster: ClusterSettings,
}

/// What the proxy's log is spared, unless something else is asked for: `misc` tells of every unknown field.
const QUIET: (&str, &str) = ("misc", "error");
/// The level of all components of which nothing else is said.
const DEFAULT_LEVEL: (&str, &str) = ("default", "warn");

impl ProxySettings {
    /// The level of the proxy's log, as its argument `--log-level` takes it.
    pub fn default_level(&self) -> &str {
        self.log_levels
            .get(DEFAULT_LEVEL.0)
            .map_or(DEFAULT_LEVEL.1, |level| level)
    }

    /// The levels of single components, as its argument `--component-log-level` takes them.
    pub fn component_levels(&self) -> String {
        let levels = self.log_levels.iter().map(|(name, level)| (&**name, &**level));
        let levels = levels.filter(|(name, _)| *name != DEFAULT_LEVEL.0);
        let quiet = (!self.log_levels.contains_key(QUIET.0)).then_some(QUIET);
        let all = quiet.into_iter().chain(levels);
        all.map(|(name, level)| format!("{name}:{level}"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Settings of a proxy that runs as a process on the controller's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostProcess {
    /// Version that was asked for; it names the proxy binary in listings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Arc<str>>,
}

/// A change to the default bootstrap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BootstrapPatch {
    /// This text is the bootstrap.
    Replace(Arc<str>),
    /// This text is merged into the default.
    Merge(Arc<str>),
    /// These RFC 6902 operations are applied to the default.
    JsonPatch(Vec<JsonPatchOperation>),
}

/// One operation of RFC 6902, its value as JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchOperation {
    /// `add`, `remove`, `replace`, `move`, `copy` or `test`.
    pub op: Arc<str>,
    /// Pointer (RFC 6901) to what changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// Expression (RFC 9535) that selects pointers; `path` is put behind each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<Arc<str>>,
    /// Source of `move` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
    /// New value as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<str>>,
}
