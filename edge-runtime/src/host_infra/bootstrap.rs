//! The bootstrap that a proxy of this machine starts with.

use super::{BootstrapInput, Rendered};
use edge_xds::bootstrap::{BootstrapSettings, bootstrap};
use serde_json::Value;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

/// Renders the bootstrap.
pub fn render(input: &BootstrapInput<'_>) -> Result<Rendered, String> {
    let settings = BootstrapSettings {
        xds_host: input.xds.ip().to_string(),
        xds_port: input.xds.port(),
        certificate_path: Some(text(input.sds_certificate)?),
        trusted_ca_path: text(input.sds_authority)?,
        admin_address: Ipv4Addr::LOCALHOST.to_string(),
        admin_port: input.admin_port,
        stats_address: Ipv4Addr::LOCALHOST.to_string(),
        stats_port: Some(input.stats_port),
        ..BootstrapSettings::default()
    };
    let bootstrap = bootstrap(&settings, &input.infra.proxy).map_err(|error| error.to_string())?;
    Ok(Rendered {
        admin: admin_of(&bootstrap),
        bootstrap: bootstrap.to_string(),
    })
}

/// Where the admin interface will be: a customised bootstrap may have moved it, or taken it away.
fn admin_of(bootstrap: &Value) -> Option<SocketAddr> {
    let address = &bootstrap["admin"]["address"]["socket_address"];
    let port = u16::try_from(address["port_value"].as_u64()?)
        .ok()
        .filter(|port| *port != 0)?;
    Some((address["address"].as_str()?.parse::<std::net::IpAddr>().ok()?, port).into())
}

/// A path as it stands in a bootstrap.
pub(super) fn text(path: &Path) -> Result<String, String> {
    let shown = || {
        format!(
            "{}: the path is not UTF-8 text and can't stand in a bootstrap",
            path.display()
        )
    };
    path.to_str().map(str::to_owned).ok_or_else(shown)
}
