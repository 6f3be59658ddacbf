//! Endpoints of backends: from EndpointSlices, from the Service's own address, or from a Backend object.

use super::{
    backend_tls::BackendTls,
    set,
    zones::{self, EndpointZones},
};
use crate::{
    api::{self, AddressFamily, BackendEndpoint, BackendType, FqdnEndpoint, RoutingType, Text},
    engine::reader::Reader,
    name::{BackendKind, BackendPort, EndpointsId, FleetId, Placement, Routing},
    own_host,
    phase::origin,
    settings::Platform,
    world::transport,
};
use edge_ir::{Endpoint, EndpointAddress, EndpointHealth, EndpointSet, EndpointSetName, Locality, Origin, Origins};
use std::{net::IpAddr, sync::Arc};

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
        BackendKind::Custom | BackendKind::Set => return None,
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
    let routing = routing(reader, fleet, &placement);
    let localities = match reader.set_behind(port) {
        Some(set) => {
            let localities = set::localities(reader, port, &set, routing, &placement);
            if localities.iter().any(|locality| is_dns(&locality.endpoints)) {
                return Some(None);
            }
            localities
        }
        None => {
            let endpoints = addresses(reader, port, routing);
            if is_dns(&endpoints) || is_of_request(reader, port) {
                return Some(None);
            }
            zones::placed(reader, port, endpoints, &placement)
        }
    };
    Some(Some(Arc::new(EndpointSet {
        name: reader.endpoints_name(list),
        localities,
        origins: origins(reader, port),
    })))
}

/// Endpoints of a backend by a kind of routing.
pub(super) fn addresses(reader: &Reader<'_>, port: BackendPort, routing: Routing) -> Vec<Endpoint> {
    match port.target.kind {
        BackendKind::Backend => from_backend(reader, port),
        BackendKind::Custom => Vec::new(),
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
    vec![Locality {
        region: set.clone().into(),
        weight: 1,
        endpoints,
        ..Locality::default()
    }]
}

/// The backend objects, for explanation.
pub(super) fn origins(reader: &Reader<'_>, port: BackendPort) -> Origins {
    let origin = |port: BackendPort| {
        if let Some(object) = reader.custom_backend(port) {
            return Some(Origin {
                kind: Arc::clone(&object.kind),
                namespace: Arc::clone(&object.namespace),
                name: Arc::clone(&object.name),
                section: None,
                annotations: Arc::default(),
            });
        }
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

/// Where requests for Services go: as a policy says, else as the fleet's do.
pub(super) fn routing(reader: &Reader<'_>, fleet: FleetId, placement: &Placement) -> Routing {
    let usual = || match reader.fleet_shape(fleet).map(|shape| &shape.routing) {
        Some(RoutingType::Service) => Routing::Service,
        Some(RoutingType::Endpoint | RoutingType::Other(_)) | None => Routing::Endpoints,
    };
    placement.routing.unwrap_or_else(usual)
}

fn from_service_address(reader: &Reader<'_>, port: BackendPort) -> Vec<Endpoint> {
    let (first, rest): (Option<&str>, &[Text]) = match port.target.kind {
        BackendKind::Service => match reader.service(port.target.id) {
            Some(service) => (service.spec.cluster_ip.as_deref(), &service.spec.cluster_ips),
            None => (None, &[]),
        },
        BackendKind::ServiceImport => match reader.service_import(port.target.id) {
            Some(import) => (None, &import.spec.ips),
            None => (None, &[]),
        },
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => (None, &[]),
    };
    let address = first.or(rest.first().map(|ip| &**ip));
    let found = address.and_then(|ip| socket(ip, port.port, EndpointHealth::Serving));
    let platform = reader.settings().platform;
    found.into_iter().filter(|found| !is_own(found, platform)).collect()
}

fn from_slices(reader: &Reader<'_>, port: BackendPort) -> Vec<Endpoint> {
    let found = slice_endpoints(reader, port);
    // Not collected in place: the list would keep the room of what was found, three times its own.
    let mut endpoints = Vec::with_capacity(found.len());
    endpoints.extend(found.into_iter().map(|(endpoint, _)| endpoint));
    endpoints
}

/// Endpoints, with what is told of their places.
pub(super) fn slice_endpoints<'a>(reader: &Reader<'a>, port: BackendPort) -> Vec<(Endpoint, EndpointZones<'a>)> {
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
        endpoints.extend(endpoints_at(slice, number));
    }
    let platform = reader.settings().platform;
    endpoints.retain(|(endpoint, _)| !is_own(endpoint, platform));
    endpoints
}

/// Whether an endpoint is no host that a proxy may be sent to: an API server refuses addresses of that kind, not all
/// forms of them and no names.
fn is_own(endpoint: &Endpoint, platform: Platform) -> bool {
    let flaw = match &endpoint.address {
        EndpointAddress::Socket { ip, .. } => own_host::address_flaw(*ip, platform),
        EndpointAddress::Name { host, .. } => own_host::host_flaw(host, platform),
        EndpointAddress::Pipe { .. } => None,
    };
    flaw.is_some()
}

/// The endpoints of a slice at a port, with what is told of their places.
pub(crate) fn endpoints_at(
    slice: &api::EndpointSlice,
    port: u16,
) -> impl Iterator<Item = (Endpoint, EndpointZones<'_>)> {
    slice.endpoints.iter().filter_map(move |endpoint| {
        let health = health(&endpoint.conditions)?;
        let address = endpoint.addresses.first()?;
        let found = match slice.address_type {
            AddressFamily::Fqdn => {
                let host = (&**address).into();
                Some(endpoint_at(EndpointAddress::Name { host, port }, health))
            }
            _ => socket(address, port, health),
        };
        Some((found?, EndpointZones::of(endpoint)))
    })
}

/// A port of a Service or ServiceImport.
pub(super) fn service_port<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<&'a api::ServicePort> {
    let ports = match port.target.kind {
        BackendKind::Service => &reader.service(port.target.id)?.spec.ports,
        BackendKind::ServiceImport => &reader.service_import(port.target.id)?.spec.ports,
        BackendKind::Backend | BackendKind::Custom | BackendKind::Set => return None,
    };
    let mut ports = ports.iter();
    ports.find(|p| p.port == port.port && transport(&p.protocol) == Some(port.transport))
}

/// The name of a Service's port, by which slices know it and policies choose it; empty when it has none.
pub(crate) fn port_name<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<&'a str> {
    Some(service_port(reader, port)?.name.as_deref().unwrap_or(""))
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

pub(super) fn backend_endpoint(endpoint: &BackendEndpoint) -> Option<Endpoint> {
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
    // Whatever goes by the name of the endpoint, a host or a server name, is without the dot of an absolute name.
    let fqdn = endpoint.fqdn.as_ref().filter(|fqdn| fqdn.relative() != &*fqdn.hostname);
    let hostname = endpoint.hostname.as_deref().or(fqdn.map(FqdnEndpoint::relative));
    Some(Endpoint {
        hostname: hostname.map(Into::into),
        ..endpoint_at(address, EndpointHealth::Serving)
    })
}
