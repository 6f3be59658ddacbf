//! What a proxy in a pod starts with.

use super::{
    BootstrapError, BootstrapSettings, ProxyZone, TOKEN_FILE, bootstrap, certificate_file,
    customise::controller_addresses, default::token_filters, token_file, trusted_ca_file,
};
use crate::names::CONTROLLER_CLUSTER;
use edge_ir::Infra;
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
    /// What stands for its zone, where proxies are told.
    pub zone: Option<&'a str>,
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
    /// Port of its admin interface, if it has one.
    pub admin_port: Option<u16>,
}

/// Renders what the pods of a fleet start with.
pub fn for_cluster(infra: &Infra, place: &ClusterPlace<'_>) -> Result<ClusterStart, BootstrapError> {
    let zone = place.zone.map(|zone| ProxyZone {
        name: zone.to_owned(),
        fleet: infra.key.to_string(),
    });
    let settings = BootstrapSettings::in_pod(infra.placement, zone, &infra.proxy);
    let mut bootstrap = bootstrap(&settings, &infra.proxy)?;
    show_token(&mut bootstrap);
    // Customisations are written against the short name, which only resolves beside the controller.
    let host = format!("{CONTROLLER}.{}.svc.{}.", place.controller_namespace, place.dns_domain);
    set_host(&mut bootstrap, &settings.xds_host, &host);
    let admin_port = bootstrap.pointer("/admin/address/socket_address/port_value");
    Ok(ClusterStart {
        admin_port: admin_port
            .and_then(Value::as_u64)
            .and_then(|port| u16::try_from(port).ok()),
        bootstrap: bootstrap.to_string(),
        trusted_ca: trusted_ca_file("/certs/ca.crt", &[CONTROLLER]).to_string(),
        certificate: certificate_file("/certs/tls.crt", "/certs/tls.key").to_string(),
        token: token_file("/var/run/secrets/token/sa-token").to_string(),
    })
}

fn controller_clusters(bootstrap: &mut Value) -> impl Iterator<Item = &mut Value> {
    let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
    let clusters = clusters.into_iter().flatten();
    clusters.filter(|cluster| cluster["name"] == CONTROLLER_CLUSTER)
}

/// A bootstrap that somebody wrote as a whole may come from where there is no token; without it nothing would be
/// served.
fn show_token(bootstrap: &mut Value) {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    for cluster in controller_clusters(bootstrap) {
        let all = cluster.get_mut("typed_extension_protocol_options");
        let options = all.and_then(|all| all.get_mut(options));
        if let Some(options) = options.filter(|options| options.get("http_filters").is_none()) {
            options["http_filters"] = token_filters(TOKEN_FILE);
        }
    }
}

/// Puts a name that resolves everywhere into the address of the controller.
fn set_host(bootstrap: &mut Value, short: &str, host: &str) {
    controller_addresses(bootstrap, |address| {
        if address == short {
            *address = host.into();
        }
    });
}
