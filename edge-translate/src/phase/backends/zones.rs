//! Zones of endpoints: which are known, what they weigh, and whether that of the proxy comes first.
//!
//! A proxy compares a whole locality with its own, of which it knows the zone alone. So an endpoint whose zone is to be
//! compared stands in no region.

use super::endpoints::{backend_endpoint, localities, slice_endpoints};
use crate::{
    api,
    engine::reader::Reader,
    name::{BackendKind, BackendPort, BackendSet, Placement, Variant, Zones},
};
use edge_ir::{Endpoint, EndpointAddress, EndpointSetName, LoadBalancing, Locality, ZonePreference, ZoneRouting};
use std::{collections::BTreeMap, sync::Arc};

/// Annotation of a Service that wants its endpoints used by zone (Kubernetes, "Topology Aware Routing").
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// What a Service that wants near endpoints used gets: all requests stay in the zone while one endpoint is there.
const NEAR: ZonePreference = ZonePreference {
    min_endpoints: 1,
    percent: None,
    force: Some(1),
};

/// What zones mean for the choice of an endpoint: what a policy asks for, else what the Service does.
pub(super) fn routing(reader: &Reader<'_>, port: BackendPort, variant: &Variant) -> ZoneRouting {
    match (&variant.placement.zones, variant.zone_preference) {
        (Zones::Weighted(_), _) => ZoneRouting::Weighted,
        // Each of several backends gets its share, whatever chooses within it.
        _ if !heeds_zones(&variant.load_balancing) && divides(reader, port) => ZoneRouting::Weighted,
        (Zones::Known, Some(asked)) if !divides(reader, port) => ZoneRouting::PreferLocal(asked),
        (Zones::OfBackend, _) if heeds_zones(&variant.load_balancing) && wants_near(reader, port) => {
            ZoneRouting::PreferLocal(NEAR)
        }
        (Zones::OfBackend | Zones::Known, _) => ZoneRouting::Unheeded,
    }
}

/// Whether backends of one priority share what is sent, by weights that zones would take the place of.
pub(super) fn is_shared(set: &BackendSet) -> bool {
    let mut priorities: Vec<u32> = set.members.iter().map(|member| member.priority).collect();
    priorities.sort_unstable();
    priorities.windows(2).any(|pair| pair[0] == pair[1])
}

fn divides(reader: &Reader<'_>, port: BackendPort) -> bool {
    reader.set_behind(port).is_some_and(|set| is_shared(&set))
}

/// Whether an endpoint of the own zone may come first, however it is chosen there: a hash names one of all, and who
/// goes by reported load looks at all.
fn heeds_zones(balancing: &LoadBalancing) -> bool {
    match balancing {
        LoadBalancing::LeastRequest | LoadBalancing::RoundRobin | LoadBalancing::Random => true,
        LoadBalancing::ConsistentHash(_) | LoadBalancing::ReportedLoad(_) => false,
    }
}

fn wants_near(reader: &Reader<'_>, port: BackendPort) -> bool {
    port.target.kind == BackendKind::Service && reader.service(port.target.id).is_some_and(|service| is_near(service))
}

/// Whether a Service asks for near endpoints. The field's values mean the zone, or the node in the first place, which
/// no proxy knows of an endpoint (KEP-3015).
fn is_near(service: &api::Service) -> bool {
    let distribution = service.spec.traffic_distribution.as_deref();
    let mode = service.metadata.annotations.get(TOPOLOGY_MODE);
    matches!(distribution, Some("PreferClose" | "PreferSameZone" | "PreferSameNode"))
        || matches!(mode, Some("Auto" | "auto"))
}

/// The localities of a backend, one for each zone that matters.
pub(super) fn placed(
    reader: &Reader<'_>,
    port: BackendPort,
    endpoints: Vec<Endpoint>,
    placement: &Placement,
) -> Vec<Locality> {
    let set = reader.endpoint_set_name(port);
    let mut placed = match (&placement.zones, port.target.kind) {
        (Zones::OfBackend, BackendKind::Backend) => by_zone(&set, &of_backend(reader, port), endpoints),
        (Zones::OfBackend, _) if !wants_near(reader, port) => localities(&set, endpoints),
        (Zones::OfBackend | Zones::Known, _) => compared(&set, &known(reader, port), endpoints),
        (Zones::Weighted(weights), kind) => {
            let zones = match kind {
                BackendKind::Backend => of_backend(reader, port),
                _ => of_slices(reader, port, |found| found.zone),
            };
            weighted(by_zone(&set, &zones, endpoints), weights)
        }
    };
    for locality in &mut placed {
        locality.probe_port = placement.probe_port;
    }
    placed
}

fn weighted(mut placed: Vec<Locality>, weights: &[(Arc<str>, u32)]) -> Vec<Locality> {
    for locality in &mut placed {
        let own = weights.iter().find(|(zone, _)| Some(zone) == locality.zone.as_ref());
        locality.weight = own.map_or(1, |(_, weight)| *weight);
    }
    // A proxy wants a weight of all; those without one get nothing.
    placed.retain(|locality| locality.weight > 0);
    placed
}

/// By zones that are compared with that of a proxy.
pub(crate) fn compared(
    set: &EndpointSetName,
    zones: &BTreeMap<EndpointAddress, Arc<str>>,
    endpoints: Vec<Endpoint>,
) -> Vec<Locality> {
    let mut placed = by_zone(set, zones, endpoints);
    for locality in placed.iter_mut().filter(|locality| locality.zone.is_some()) {
        locality.region = Arc::default();
    }
    placed
}

/// Each weighs what it has endpoints, so that telling zones moves no traffic; where none is told, the one place there
/// is weighs 1.
fn by_zone(
    set: &EndpointSetName,
    zones: &BTreeMap<EndpointAddress, Arc<str>>,
    endpoints: Vec<Endpoint>,
) -> Vec<Locality> {
    if zones.is_empty() {
        return localities(set, endpoints);
    }
    let mut by_zone: BTreeMap<Option<Arc<str>>, Vec<Endpoint>> = BTreeMap::new();
    for endpoint in endpoints {
        let zone = zones.get(&endpoint.address).cloned();
        by_zone.entry(zone).or_default().push(endpoint);
    }
    let placed = by_zone.into_iter().flat_map(|(zone, endpoints)| {
        let grouped = localities(set, endpoints).into_iter();
        grouped.map(move |group| Locality {
            zone: zone.clone(),
            weight: u32::try_from(group.endpoints.len()).unwrap_or(u32::MAX),
            ..group
        })
    });
    placed.collect()
}

/// Zones of the endpoints of a backend, to be compared with that of a proxy.
pub(super) fn known(reader: &Reader<'_>, port: BackendPort) -> BTreeMap<EndpointAddress, Arc<str>> {
    match port.target.kind {
        BackendKind::Backend => of_backend(reader, port),
        _ if wants_near(reader, port) => of_slices(reader, port, |found| found.hinted.or(found.zone)),
        _ => of_slices(reader, port, |found| found.zone),
    }
}

/// Zones of the endpoints of a Backend, where it tells any.
fn of_backend(reader: &Reader<'_>, port: BackendPort) -> BTreeMap<EndpointAddress, Arc<str>> {
    let backend = match port.target.kind {
        BackendKind::Backend => reader.backend(port.target.id),
        BackendKind::Service | BackendKind::ServiceImport | BackendKind::Custom | BackendKind::Set => None,
    };
    let endpoints = backend.into_iter().flat_map(|backend| &backend.spec.endpoints);
    let zoned = endpoints.filter_map(|e| Some((backend_endpoint(e)?.address, Arc::from(&**e.zone.as_ref()?))));
    zoned.collect()
}

/// What an EndpointSlice says of the place of an endpoint.
#[derive(Clone, Copy)]
pub(crate) struct EndpointZones<'a> {
    /// The zone that it is in.
    pub(crate) zone: Option<&'a str>,
    /// The zone that should use it. With few endpoints the platform gives some to the zone beside.
    pub(crate) hinted: Option<&'a str>,
}

impl<'a> EndpointZones<'a> {
    /// Of an endpoint.
    pub(crate) fn of(endpoint: &'a api::Endpoint) -> Self {
        let hints = endpoint.hints.as_deref();
        Self {
            zone: endpoint.zone.as_deref(),
            hinted: hints.and_then(|hints| hints.for_zones.first()).map(|zone| &*zone.name),
        }
    }
}

/// Zones of the endpoints of a Service, where its slices tell any.
fn of_slices<'a>(
    reader: &Reader<'a>,
    port: BackendPort,
    zone: impl Fn(EndpointZones<'a>) -> Option<&'a str>,
) -> BTreeMap<EndpointAddress, Arc<str>> {
    let endpoints = slice_endpoints(reader, port).into_iter();
    endpoints
        .filter_map(|(endpoint, told)| Some((endpoint.address, zone(told)?.into())))
        .collect()
}
