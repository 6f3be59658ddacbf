//! Endpoints of backends: from EndpointSlices, from the Service's own address, or from a Backend object.

use super::{backend_tls::BackendTls, set};
use crate::{
    api::{self, AddressFamily, BackendEndpoint, BackendType, RoutingType},
    engine::reader::Reader,
    name::{BackendKind, BackendPort, EndpointsId, FleetId, Placement, Routing, Zones},
    phase::origin,
    world::transport,
};
use edge_ir::{Endpoint, EndpointAddress, EndpointHealth, EndpointSet, EndpointSetName, Locality, Origins};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// Whether a backend has endpoints that take traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// At least one.
    Ready,
    /// None.
    NoEndpoints,
    /// They can't be one cluster: names and addresses together.
    MixedAddresses,
    /// They want TLS that can't be verified.
    Untrusted,
}

/// Judges a backend's endpoints; none when there is no such port.
pub(crate) fn readiness(reader: &Reader<'_>, port: BackendPort) -> Option<Readiness> {
    let found = match port.target.kind {
        BackendKind::Service | BackendKind::ServiceImport => {
            port_name(reader, port)?;
            from_slices(reader, port)
        }
        BackendKind::Backend => {
            reader.backend(port.target.id)?;
            from_backend(reader, port)
        }
        BackendKind::Set => return None,
    };
    if is_of_request(reader, port) {
        return Some(match reader.backend_tls(port) {
            Some(BackendTls::Refused(_)) => Readiness::Untrusted,
            _ => Readiness::Ready,
        });
    }
    let is_name = |e: &Endpoint| matches!(e.address, EndpointAddress::Name { .. });
    let n_names = found.iter().filter(|e| is_name(e)).count();
    Some(if n_names > 0 && n_names < found.len() {
        Readiness::MixedAddresses
    } else if matches!(reader.backend_tls(port), Some(BackendTls::Refused(_))) {
        Readiness::Untrusted
    } else if found.iter().any(|e| e.health == EndpointHealth::Serving) {
        Readiness::Ready
    } else {
        Readiness::NoEndpoints
    })
}

/// The endpoints of a backend as a fleet uses them; none when it doesn't, or when the cluster resolves names itself.
pub(crate) fn endpoints(reader: &Reader<'_>, fleet: FleetId, list: EndpointsId) -> Option<Option<Arc<EndpointSet>>> {
    if !reader.needs_endpoints(fleet, list) {
        return None;
    }
    let port = list.port;
    let placement = reader.placement(list.placement);
    let localities = match reader.set_behind(port) {
        Some(set) => {
            let localities = set::localities(reader, port, &set, routing(reader, fleet), &placement);
            if localities.iter().any(|locality| is_dns(&locality.endpoints)) {
                return Some(None);
            }
            localities
        }
        None => {
            let endpoints = addresses(reader, fleet, port);
            if is_dns(&endpoints) || is_of_request(reader, port) {
                return Some(None);
            }
            placed(reader, port, endpoints, &placement)
        }
    };
    Some(Some(Arc::new(EndpointSet {
        name: reader.endpoints_name(list),
        localities,
        origins: origins(reader, port),
    })))
}

/// Endpoints of a backend by the fleet's kind of routing.
pub(crate) fn addresses(reader: &Reader<'_>, fleet: FleetId, port: BackendPort) -> Vec<Endpoint> {
    addresses_by(reader, port, routing(reader, fleet))
}

/// Endpoints of a backend by a kind of routing.
pub(super) fn addresses_by(reader: &Reader<'_>, port: BackendPort, routing: Routing) -> Vec<Endpoint> {
    match port.target.kind {
        BackendKind::Backend => from_backend(reader, port),
        _ if routing == Routing::Service => {
            let own = from_service_address(reader, port);
            // A headless Service has no address of its own: its endpoints are all there is.
            if own.is_empty() { from_slices(reader, port) } else { own }
        }
        _ => from_slices(reader, port),
    }
}

/// Whether a backend is what the host of each request resolves to.
pub(crate) fn is_of_request(reader: &Reader<'_>, port: BackendPort) -> bool {
    port.target.kind == BackendKind::Backend
        && reader
            .backend(port.target.id)
            .is_some_and(|backend| backend.spec.r#type == BackendType::DynamicResolver)
}

/// Whether the endpoints are names, which the cluster must resolve.
pub(super) fn is_dns(endpoints: &[Endpoint]) -> bool {
    endpoints
        .iter()
        .any(|e| matches!(e.address, EndpointAddress::Name { .. }))
}

/// One locality in the region of the backend, so that a proxy's statistics tell backends apart.
pub(crate) fn localities(set: &EndpointSetName, mut endpoints: Vec<Endpoint>) -> Vec<Locality> {
    endpoints.sort_unstable();
    endpoints.dedup_by(|a, b| a.address == b.address);
    if endpoints.is_empty() {
        return Vec::new();
    }
    vec![locality(set, None, 1, endpoints)]
}

fn locality(set: &EndpointSetName, zone: Option<Arc<str>>, weight: u32, endpoints: Vec<Endpoint>) -> Locality {
    Locality {
        region: set.clone().into(),
        zone,
        priority: 0,
        weight,
        socket: None,
        probe_port: None,
        endpoints,
    }
}

/// The localities of a backend, one for each zone that is told.
pub(super) fn placed(
    reader: &Reader<'_>,
    port: BackendPort,
    endpoints: Vec<Endpoint>,
    placement: &Placement,
) -> Vec<Locality> {
    let set = reader.endpoint_set_name(port);
    let zones = match (&placement.zones, port.target.kind) {
        (_, BackendKind::Backend) => zones(reader, port),
        (Zones::OfBackend, _) => BTreeMap::new(),
        (Zones::Weighted(_), _) => zones_of_slices(reader, port),
    };
    let mut placed = match zones.is_empty() {
        true => localities(&set, endpoints),
        false => by_zone(&set, &zones, endpoints),
    };
    if let Zones::Weighted(weights) = &placement.zones {
        for locality in &mut placed {
            let own = weights.iter().find(|(zone, _)| Some(zone) == locality.zone.as_ref());
            locality.weight = own.map_or(1, |(_, weight)| *weight);
        }
        // A proxy wants a weight of all; those without one get nothing.
        placed.retain(|locality| locality.weight > 0);
    }
    for locality in &mut placed {
        locality.probe_port = placement.probe_port;
    }
    placed
}

/// Each weighs what it has endpoints, so that telling zones moves no traffic.
fn by_zone(
    set: &EndpointSetName,
    zones: &BTreeMap<EndpointAddress, Arc<str>>,
    endpoints: Vec<Endpoint>,
) -> Vec<Locality> {
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

/// Zones of the endpoints of a Backend, where it tells any.
fn zones(reader: &Reader<'_>, port: BackendPort) -> BTreeMap<EndpointAddress, Arc<str>> {
    let backend = match port.target.kind {
        BackendKind::Backend => reader.backend(port.target.id),
        BackendKind::Service | BackendKind::ServiceImport | BackendKind::Set => None,
    };
    let endpoints = backend.into_iter().flat_map(|backend| &backend.spec.endpoints);
    let zoned = endpoints.filter_map(|e| Some((backend_endpoint(e)?.address, Arc::from(&**e.zone.as_ref()?))));
    zoned.collect()
}

/// Zones of the endpoints of a Service, where its slices tell any.
fn zones_of_slices(reader: &Reader<'_>, port: BackendPort) -> BTreeMap<EndpointAddress, Arc<str>> {
    let endpoints = slice_endpoints(reader, port).into_iter();
    endpoints
        .filter_map(|(endpoint, zone)| Some((endpoint.address, zone?.into())))
        .collect()
}

/// The backend objects, for explanation.
pub(super) fn origins(reader: &Reader<'_>, port: BackendPort) -> Origins {
    let origin = |port: BackendPort| {
        let section = match port.target.kind {
            BackendKind::Backend => None,
            _ => Some(port.port.to_string().into()),
        };
        let id = port.target.id;
        let (namespace, name) = (reader.text(id.namespace), reader.text(id.name));
        Some(origin::part(port.target.kind.kind()?, namespace, name, section))
    };
    reader.backends_behind(port).into_iter().filter_map(origin).collect()
}

/// The fleet's kind of routing.
pub(super) fn routing(reader: &Reader<'_>, fleet: FleetId) -> Routing {
    match reader.fleet_shape(fleet).map(|shape| &shape.routing) {
        Some(RoutingType::Service) => Routing::Service,
        Some(RoutingType::Endpoint | RoutingType::Other(_)) | None => Routing::Endpoints,
    }
}

fn from_service_address(reader: &Reader<'_>, port: BackendPort) -> Vec<Endpoint> {
    let (first, rest): (Option<&str>, &[Box<str>]) = match port.target.kind {
        BackendKind::Service => match reader.service(port.target.id) {
            Some(service) => (service.spec.cluster_ip.as_deref(), &service.spec.cluster_ips),
            None => (None, &[]),
        },
        BackendKind::ServiceImport => match reader.service_import(port.target.id) {
            Some(import) => (None, &import.spec.ips),
            None => (None, &[]),
        },
        BackendKind::Backend | BackendKind::Set => (None, &[]),
    };
    let address = first.or(rest.first().map(|ip| &**ip));
    address
        .and_then(|ip| socket(ip, port.port, EndpointHealth::Serving))
        .into_iter()
        .collect()
}

fn from_slices(reader: &Reader<'_>, port: BackendPort) -> Vec<Endpoint> {
    let endpoints = slice_endpoints(reader, port).into_iter();
    endpoints.map(|(endpoint, _)| endpoint).collect()
}

/// Endpoints, with the zones that they are in.
fn slice_endpoints<'a>(reader: &Reader<'a>, port: BackendPort) -> Vec<(Endpoint, Option<&'a str>)> {
    let Some(name) = port_name(reader, port) else {
        return Vec::new();
    };
    let mut endpoints = Vec::new();
    for slice in reader.slices(port.target) {
        let matches = |p: &&api::EndpointPort| {
            p.name.as_deref().unwrap_or("") == name && transport(&p.protocol) == Some(port.transport)
        };
        let Some(number) = slice.ports.iter().find(matches).and_then(|p| p.port) else {
            continue;
        };
        for endpoint in &slice.endpoints {
            let Some(health) = health(&endpoint.conditions) else {
                continue;
            };
            let Some(address) = endpoint.addresses.first() else {
                continue;
            };
            let zone = endpoint.zone.as_deref();
            let found = match slice.address_type {
                AddressFamily::Fqdn => {
                    let address = EndpointAddress::Name {
                        host: (&**address).into(),
                        port: number,
                    };
                    Some(endpoint_at(address, health))
                }
                _ => socket(address, number, health),
            };
            endpoints.extend(found.map(|found| (found, zone)));
        }
    }
    endpoints
}

/// The name of a Service's port, by which slices know it and policies choose it; empty when it has none.
pub(crate) fn port_name<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<&'a str> {
    let ports = match port.target.kind {
        BackendKind::Service => &reader.service(port.target.id)?.spec.ports,
        BackendKind::ServiceImport => &reader.service_import(port.target.id)?.spec.ports,
        BackendKind::Backend | BackendKind::Set => return None,
    };
    let found = ports
        .iter()
        .find(|p| p.port == port.port && transport(&p.protocol) == Some(port.transport))?;
    Some(found.name.as_deref().unwrap_or(""))
}

/// Whether an endpoint is used: `serving` and `terminating` where both are known, `ready` otherwise. One that doesn't
/// serve is left out altogether, because a proxy in panic would still send to it if it knew the address.
fn health(conditions: &api::EndpointConditions) -> Option<EndpointHealth> {
    match (conditions.serving, conditions.terminating) {
        (Some(false), Some(_)) => None,
        (Some(true), Some(true)) => Some(EndpointHealth::Draining),
        (Some(true), Some(false)) => Some(EndpointHealth::Serving),
        _ => conditions.ready.unwrap_or(true).then_some(EndpointHealth::Serving),
    }
}

fn socket(ip: &str, port: u16, health: EndpointHealth) -> Option<Endpoint> {
    let ip: IpAddr = ip.parse().ok()?;
    Some(endpoint_at(EndpointAddress::Socket { ip, port }, health))
}

fn endpoint_at(address: EndpointAddress, health: EndpointHealth) -> Endpoint {
    Endpoint {
        address,
        hostname: None,
        health,
    }
}

fn from_backend(reader: &Reader<'_>, port: BackendPort) -> Vec<Endpoint> {
    let Some(backend) = reader.backend(port.target.id) else {
        return Vec::new();
    };
    backend.spec.endpoints.iter().filter_map(backend_endpoint).collect()
}

fn backend_endpoint(endpoint: &BackendEndpoint) -> Option<Endpoint> {
    let address = if let Some(ip) = &endpoint.ip {
        EndpointAddress::Socket {
            ip: ip.address.parse().ok()?,
            port: ip.port,
        }
    } else if let Some(fqdn) = &endpoint.fqdn {
        EndpointAddress::Name {
            host: (&*fqdn.hostname).into(),
            port: fqdn.port,
        }
    } else {
        EndpointAddress::Pipe {
            path: (&*endpoint.unix.as_ref()?.path).into(),
        }
    };
    Some(Endpoint {
        hostname: endpoint.hostname.as_deref().map(Into::into),
        ..endpoint_at(address, EndpointHealth::Serving)
    })
}
