//! What holds for every proxy of a fleet, whatever its listeners are: address family, access log, readiness.

use super::{gateway::Gateway, proxy_settings};
use crate::{engine::reader::Reader, name::FleetId, settings::Platform};
use edge_ir::{AccessLog, FleetSettings, IpFamily, ReadyListener};

/// Port of the readiness listener.
const READY_PORT: u16 = 19003;

/// The settings of a fleet; none when it has no Gateway.
pub(crate) fn fleet_settings(reader: &Reader<'_>, fleet: FleetId) -> Option<FleetSettings> {
    let listeners = reader.listeners(fleet)?;
    let proxy = listeners.gateways.iter().find_map(|g| match &**reader.gateway(g.id)? {
        Gateway::Member(member) => member.proxy.as_deref(),
        Gateway::Foreign => None,
    });
    let ip_family = proxy_settings::ip_family(proxy);
    let address = match ip_family {
        IpFamily::V4 => "0.0.0.0",
        IpFamily::V6 | IpFamily::DualStack => "::",
    };
    Some(FleetSettings {
        ip_family,
        access_log: match proxy.is_some_and(proxy_settings::disables_access_log) {
            true => AccessLog::Disabled,
            false => AccessLog::DefaultJson,
        },
        // On a shared machine every process needs a port of its own: who starts it chooses, in the bootstrap.
        ready: (reader.settings().platform == Platform::Cluster).then(|| ReadyListener {
            address: address.into(),
            port: READY_PORT,
        }),
        preserve_route_order: proxy.is_some_and(|p| p.spec.preserve_route_order),
    })
}
