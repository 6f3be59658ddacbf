//! Where a fleet's own proxies are, by zone.
//!
//! A proxy that prefers its zone must know how many others are where: only then does it know which share of all
//! requests comes from its zone, and how much of that the endpoints there can take. The cluster that it counts them by
//! is in its bootstrap, under the fleet's key; nobody ever sends anything there.

use super::{
    gateway::proxy_of,
    infra::{fleet_namespace, object_name},
    proxy_settings::proxy_settings,
};
use crate::{
    engine::reader::Reader,
    name::{BackendKind, FleetId, Target},
    phase::backends::{endpoints::endpoints_at, zones::compared},
    settings::Feature,
};
use edge_ir::{Endpoint, EndpointSet, EndpointSetName, Origins, pod_port};
use std::{collections::BTreeMap, sync::Arc};

/// The proxies of a fleet, as their Service's EndpointSlices tell of them; none where there is no such Service, or
/// where proxies don't know their zone. The outer value is none when the fleet has no Gateway.
pub(crate) fn proxies(reader: &Reader<'_>, fleet: FleetId) -> Option<Option<Arc<EndpointSet>>> {
    let namespace = fleet_namespace(reader, reader.members(fleet).iter().copied())?;
    if reader.settings().proxy_zones == Feature::Disabled {
        return Some(None);
    }
    let key = reader.text(fleet.0);
    let given = proxy_settings(proxy_of(reader, fleet).map(|proxy| &**proxy)).cluster;
    let service = given.service.name.unwrap_or_else(|| object_name(&key).into());
    let target = Target {
        kind: BackendKind::Service,
        id: reader.id(&namespace, &service),
    };
    let mut slices = reader.slices(target).peekable();
    if slices.peek().is_none() {
        return Some(None);
    }
    let mut zones = BTreeMap::new();
    let mut endpoints: Vec<Endpoint> = Vec::new();
    // Each counts once, whatever ports it has.
    for (endpoint, told) in slices.flat_map(|slice| endpoints_at(slice, pod_port::READY)) {
        zones.extend(told.zone.map(|zone| (endpoint.address.clone(), Arc::from(zone))));
        endpoints.push(endpoint);
    }
    let name = EndpointSetName::from(&*key);
    Some(Some(Arc::new(EndpointSet {
        localities: compared(&name, &zones, endpoints),
        name,
        origins: Origins::default(),
    })))
}
