//! What the one EdgeProxy of a fleet decides for all of it, whatever its listeners are: address family, access log,
//! readiness, ports, where traffic for a Service goes.

use super::{
    gateway::{PortMapping, proxy_of},
    proxy_settings,
};
use crate::{api::RoutingType, engine::reader::Reader, name::FleetId, settings::Platform};
use edge_ir::{AccessLog, FleetSettings, IpFamily, ReadyListener, pod_port};
use std::sync::Arc;

/// The shape of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FleetShape {
    /// What proxies do.
    pub(crate) settings: Arc<FleetSettings>,
    /// Where they send what is for a Service.
    pub(crate) routing: RoutingType,
    /// Which ports they bind.
    pub(crate) ports: PortMapping,
}

/// The shape of a fleet; none when it has no Gateway.
pub(crate) fn fleet_shape(reader: &Reader<'_>, fleet: FleetId) -> Option<FleetShape> {
    reader.listeners(fleet)?;
    let proxy = proxy_of(reader, fleet).map(|proxy| &**proxy);
    let ip_family = proxy_settings::ip_family(proxy);
    let address = match ip_family {
        IpFamily::V4 => "0.0.0.0",
        IpFamily::V6 | IpFamily::DualStack => "::",
    };
    let settings = FleetSettings {
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
    };
    Some(FleetShape {
        settings: Arc::new(settings),
        routing: proxy.and_then(|p| p.spec.routing_type.clone()).unwrap_or_default(),
        ports: PortMapping::of(reader, fleet),
    })
}
