//! The clusters of those who are told what a fleet's proxies see.
//!
//! They are named for what is told and not for the backend: what one collector is sent is counted apart from what routes
//! send to the same backend, and its settings are its own.

use super::telemetry::collector::{Collector, Place};
use crate::{
    engine::reader::Reader,
    name::{BackendId, FleetId},
    phase::backends::{
        cluster::{self, ClusterParts},
        endpoints,
    },
};
use edge_ir::{Cluster, ClusterStats, Discovery, Endpoint, EndpointAddress, EndpointHealth, LoadBalancing, Locality};
use std::sync::Arc;

/// The clusters of a fleet's collectors; none when it has no Gateway.
pub(crate) fn collectors(reader: &Reader<'_>, fleet: FleetId) -> Option<Vec<ClusterParts>> {
    let shape = reader.fleet_shape(fleet)?;
    let collectors = shape.telemetry.collectors.iter();
    Some(collectors.map(|collector| parts(reader, fleet, collector)).collect())
}

fn parts(reader: &Reader<'_>, fleet: FleetId, collector: &Collector) -> ClusterParts {
    let backends = match &collector.place {
        Place::Host(host, port) => return at_host(collector, host, *port),
        Place::Backends(backends) => backends,
    };
    let Some((first, ..)) = backends.first() else {
        return at_host(collector, &Arc::default(), 0);
    };
    let parts = cluster::parts(reader, fleet, *first);
    let discovery = match collector.backend() {
        Some(_) => parts.cluster.discovery.clone(),
        None => Discovery::Dns(localities(reader, fleet, backends)),
    };
    ClusterParts {
        cluster: Arc::new(Cluster {
            name: collector.name.clone(),
            discovery,
            ..Cluster::clone(&parts.cluster)
        }),
        secrets: parts.secrets,
    }
}

/// Several backends of one cluster, each in a place of its own: some may be names, so the cluster resolves them.
fn localities(reader: &Reader<'_>, fleet: FleetId, backends: &[(BackendId, u32, u32)]) -> Vec<Locality> {
    let of_one = |(backend, weight, priority): &(BackendId, u32, u32)| {
        let found = endpoints::addresses(reader, fleet, backend.port);
        // What resolves names can't connect to a path.
        let reachable = found
            .into_iter()
            .filter(|endpoint| !matches!(endpoint.address, EndpointAddress::Pipe { .. }));
        let set = reader.endpoint_set_name(backend.port);
        let mut placed = endpoints::localities(&set, reachable.collect());
        for locality in &mut placed {
            locality.weight = *weight;
            locality.priority = *priority;
        }
        placed
    };
    backends.iter().flat_map(of_one).collect()
}

/// A cluster that resolves a name.
fn at_host(collector: &Collector, host: &Arc<str>, port: u16) -> ClusterParts {
    let endpoint = Endpoint {
        address: EndpointAddress::Name {
            host: Arc::clone(host),
            port,
        },
        hostname: Some(Arc::clone(host)),
        health: EndpointHealth::Serving,
    };
    let locality = Locality {
        region: (&*collector.name).into(),
        zone: None,
        priority: 0,
        weight: 1,
        endpoints: vec![endpoint],
    };
    ClusterParts {
        cluster: Arc::new(Cluster {
            name: collector.name.clone(),
            discovery: Discovery::Dns(vec![locality]),
            protocol: collector.protocol,
            tls: None,
            load_balancing: LoadBalancing::default(),
            upstream: Arc::default(),
            zones: None,
            stats: ClusterStats::default(),
            origins: Arc::default(),
        }),
        secrets: Box::default(),
    }
}
