//! What holds for every proxy of a fleet, whatever its listeners are: address family, access log, readiness.

use super::{gateway::Gateway, proxy_settings};
use crate::{
    api::EdgeProxy,
    engine::reader::Reader,
    name::{FleetId, Id},
    settings::Platform,
};
use edge_ir::{AccessLog, FleetSettings, IpFamily, ReadyListener, pod_port};

/// The settings of a fleet; none when it has no Gateway.
pub(crate) fn fleet_settings(reader: &Reader<'_>, fleet: FleetId) -> Option<FleetSettings> {
    let listeners = reader.listeners(fleet)?;
    let proxy = proxy_of(reader, listeners.gateways.iter().map(|gateway| gateway.id));
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
            port: pod_port::READY,
        }),
        preserve_route_order: proxy.is_some_and(|p| p.spec.preserve_route_order),
    })
}

/// The EdgeProxy that shapes a fleet: that of its oldest Gateway which has one.
pub(crate) fn proxy_of<'a>(reader: &Reader<'a>, mut oldest_first: impl Iterator<Item = Id>) -> Option<&'a EdgeProxy> {
    oldest_first.find_map(|id| match &**reader.gateway(id)? {
        Gateway::Member(member) => member.proxy.as_deref(),
        Gateway::Foreign => None,
    })
}
