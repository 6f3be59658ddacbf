//! The bootstrap that a proxy starts with: enough to reach the controller, and what can't come from there.
//!
//! Built as JSON, because that is what it is printed as, what people patch, and what a proxy reads without surprise (a
//! YAML 1.1 reader takes `n` for false). The result of a customisation is read strictly against the message type, and
//! refused if the proxy could no longer find the controller.

mod cluster;
mod customise;
mod default;
mod metrics;
mod sds;

#[cfg(test)]
mod tests;

pub use cluster::{ClusterPlace, ClusterStart, for_cluster};
pub use customise::{BootstrapError, customise};
pub use default::default_bootstrap;
pub use sds::{certificate_file, token_file, trusted_ca_file};

use edge_ir::{IpFamily, Placement, ProxySettings, StartPlace, pod_certificate};
use serde_json::Value;

/// What the bootstrap needs to know of the place where the proxy runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapSettings {
    /// Name and port of the controller's xDS server.
    pub xds_host: String,
    /// Its port.
    pub xds_port: u16,
    /// File that names the client certificate and key; `None` where a proxy has none.
    pub certificate_path: Option<String>,
    /// File that names the token by which a proxy proves whose it is; `None` where its certificate does.
    pub token_path: Option<String>,
    /// File that names the authorities that the controller's certificate must come from.
    pub trusted_ca_path: String,
    /// Address and port of the admin interface; port 0 picks one.
    pub admin_address: String,
    /// Its port.
    pub admin_port: u16,
    /// Address that the stats listener binds, if there is one.
    pub stats_address: String,
    /// Its port; `None` leaves the listener out.
    pub stats_port: Option<u16>,
    /// Limits memory: the proxy sheds load as it comes near.
    pub memory_limit_bytes: Option<u64>,
    /// The zone that the proxy is in, where it is told.
    pub zone: Option<ProxyZone>,
    /// Key of the fleet and identity of the proxy, for a proxy whose command line doesn't say.
    pub node: Option<NodeIdentity>,
}

/// The zone of a proxy, and what it needs to make use of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyZone {
    /// Its name, or the variable that holds it.
    pub name: String,
    /// Key of the fleet: the name under which its proxies are told where the others are.
    pub fleet: String,
}

/// Who a proxy says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Name of this proxy.
    pub id: String,
    /// Key of its fleet.
    pub cluster: String,
}

impl Default for BootstrapSettings {
    /// A proxy in a pod next to the controller's Service.
    fn default() -> Self {
        Self {
            xds_host: "edge-gateway".to_owned(),
            xds_port: 18_000,
            certificate_path: Some(pod_certificate::FILE.to_owned()),
            token_path: None,
            trusted_ca_path: "/sds/xds-trusted-ca.json".to_owned(),
            admin_address: "127.0.0.1".to_owned(),
            admin_port: 19_000,
            stats_address: "0.0.0.0".to_owned(),
            stats_port: Some(19_001),
            memory_limit_bytes: None,
            zone: None,
            node: None,
        }
    }
}

/// The file that leads to the token of a proxy in a pod.
const TOKEN_FILE: &str = "/sds/xds_service_account_token.json";

impl BootstrapSettings {
    /// Those of the proxies of a fleet, with the controller under its short name.
    pub fn at(place: StartPlace, fleet: &str, proxy: &ProxySettings) -> Self {
        match place {
            StartPlace::Machine => Self::default(),
            StartPlace::Pod { placement, zone } => Self::in_pod(
                placement,
                zone.map(|name| ProxyZone {
                    name: name.to_owned(),
                    fleet: fleet.to_owned(),
                }),
                proxy,
            ),
        }
    }

    fn in_pod(placement: Placement, zone: Option<ProxyZone>, proxy: &ProxySettings) -> Self {
        let default = Self::default();
        Self {
            stats_address: match proxy.ip_family {
                IpFamily::V4 => "0.0.0.0",
                IpFamily::V6 | IpFamily::DualStack => "::",
            }
            .to_owned(),
            memory_limit_bytes: proxy.cluster.memory_limit(),
            certificate_path: default.certificate_path.filter(|_| placement == Placement::Controller),
            token_path: Some(TOKEN_FILE.to_owned()),
            zone,
            ..Self::default()
        }
    }
}

/// Why what a fleet's proxies start with can't be made. In the shape in which the translation asks, before any proxy
/// starts: the key of the fleet isn't known then.
pub fn check(proxy: &ProxySettings, place: StartPlace) -> Result<(), String> {
    let settings = BootstrapSettings::at(place, "fleet", proxy);
    bootstrap(&settings, proxy).map(drop).map_err(|error| error.to_string())
}

/// The bootstrap of a fleet's proxies: the default one with the fleet's customisation.
pub fn bootstrap(settings: &BootstrapSettings, proxy: &ProxySettings) -> Result<Value, BootstrapError> {
    let mut settings = settings.clone();
    if !proxy.prometheus {
        settings.stats_port = None;
    }
    let mut default = default_bootstrap(&settings);
    metrics::compress(&mut default, proxy.metrics_compressor);
    metrics::keep(&mut default, &proxy.kept_metrics);
    metrics::put(&mut default, &proxy.metric_sinks);
    match &proxy.bootstrap {
        Some(patch) => customise(default, patch),
        None => Ok(default),
    }
}
