//! What the one EdgeProxy of a fleet decides for all of it, whatever its listeners are: address family, access log,
//! readiness, ports, where traffic for a Service goes.

use super::{
    filter_order::{self, FilterMove},
    gateway::{PortMapping, proxy_of},
    geoip, proxy_settings,
    telemetry::{self, Telemetry},
};
use crate::{
    api::RoutingType,
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::{
        backends::defaults::{self, TlsDefaults},
        listeners::client_certificate,
    },
    settings::Platform,
};
use edge_ir::{FleetSettings, GeoDatabases, IpFamily, ReadyListener, pod_port};
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
    /// How filters of a chain are moved.
    pub(crate) filter_order: Arc<[FilterMove]>,
    /// How they speak TLS to backends, where nobody says otherwise. What can't be honoured refuses these backends, and
    /// stands here as nothing.
    pub(crate) backend_tls: TlsDefaults,
    /// The certificate that they show to backends which ask for none of their own, by its Secret.
    pub(crate) client_certificate: Option<Id>,
    /// What they know of where addresses are; nothing where nobody says.
    pub(crate) places: Option<Arc<GeoDatabases>>,
    /// What they tell, and whom.
    pub(crate) telemetry: Arc<Telemetry>,
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
    let backend_tls = proxy.map_or(Ok(TlsDefaults::default()), |proxy| {
        defaults::of_fleet(reader, fleet, proxy)
    });
    let telemetry = proxy.map(|proxy| telemetry::telemetry(reader, proxy, &reader.text(fleet.0), backend_tls.clone()));
    let telemetry = telemetry.unwrap_or_default();
    let settings = FleetSettings {
        ip_family,
        access_log: telemetry.access_log.clone(),
        tracing: telemetry.tracing.clone(),
        request_id: telemetry.request_id,
        // On a shared machine every process needs a port of its own: who starts it chooses, in the bootstrap.
        ready: (reader.settings().platform == Platform::Cluster).then(|| ReadyListener {
            address: address.into(),
            port: pod_port::READY,
        }),
        preserve_route_order: proxy.is_some_and(|p| p.spec.preserve_route_order),
    };
    let backend_tls = backend_tls.unwrap_or_default();
    Some(FleetShape {
        settings: Arc::new(settings),
        routing: proxy.and_then(|p| p.spec.routing_type.clone()).unwrap_or_default(),
        ports: PortMapping::of(reader, fleet),
        filter_order: proxy.map(filter_order::moves).unwrap_or_default(),
        client_certificate: client_certificate::of_fleet(reader, fleet, backend_tls.certificate),
        backend_tls,
        places: geoip::databases(proxy).ok().map(Arc::new),
        telemetry: Arc::new(telemetry),
    })
}
