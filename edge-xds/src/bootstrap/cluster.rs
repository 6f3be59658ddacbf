//! What a proxy in a pod starts with.

use super::{BootstrapError, BootstrapSettings, bootstrap, certificate_file, token_file, trusted_ca_file};
use edge_ir::{Infra, IpFamily};
use serde_json::Value;

/// The name that the controller's certificate has, and its Service.
const CONTROLLER: &str = "edge-gateway";

/// Where in a cluster a fleet runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterPlace<'a> {
    /// The controller's namespace.
    pub controller_namespace: &'a str,
    /// DNS domain of the cluster.
    pub dns_domain: &'a str,
    /// The most memory that a proxy may take.
    pub memory_limit_bytes: Option<u64>,
}

/// What a proxy in a pod starts with, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStart {
    /// Its bootstrap.
    pub bootstrap: String,
    /// SDS resource of the authorities.
    pub trusted_ca: String,
    /// SDS resource of the client certificate.
    pub certificate: String,
    /// SDS resource of the token.
    pub token: String,
}

/// Renders what the pods of a fleet start with.
pub fn for_cluster(infra: &Infra, place: &ClusterPlace<'_>) -> Result<ClusterStart, BootstrapError> {
    let settings = BootstrapSettings {
        stats_address: match infra.proxy.ip_family {
            IpFamily::V4 => "0.0.0.0",
            IpFamily::V6 | IpFamily::DualStack => "::",
        }
        .to_owned(),
        memory_limit_bytes: place.memory_limit_bytes,
        ..BootstrapSettings::default()
    };
    let mut bootstrap = bootstrap(&settings, &infra.proxy)?;
    // Customisations are written against the short name, which only resolves beside the controller.
    let host = format!("{CONTROLLER}.{}.svc.{}.", place.controller_namespace, place.dns_domain);
    set_host(&mut bootstrap, &settings.xds_host, &host);
    Ok(ClusterStart {
        bootstrap: bootstrap.to_string(),
        trusted_ca: trusted_ca_file("/certs/ca.crt", &[CONTROLLER]).to_string(),
        certificate: certificate_file("/certs/tls.crt", "/certs/tls.key").to_string(),
        token: token_file("/var/run/secrets/token/sa-token").to_string(),
    })
}

/// Puts a name that resolves everywhere into the address of the controller.
fn set_host(bootstrap: &mut Value, short: &str, host: &str) {
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
    let controller = clusters
        .into_iter()
        .flatten()
        .filter(|cluster| cluster["name"] == "xds_cluster");
    for cluster in controller {
        let localities = cluster["load_assignment"]["endpoints"].as_array_mut();
        let endpoints = localities.into_iter().flatten();
        let endpoints = endpoints.filter_map(|locality| locality["lb_endpoints"].as_array_mut());
        for endpoint in endpoints.flatten() {
            let address = &mut endpoint["endpoint"]["address"]["socket_address"]["address"];
            if address == short {
                *address = host.into();
            }
        }
    }
}
