//! Clusters: one for each backend and protocol that a fleet sends traffic to.

use super::endpoints;
use crate::engine::{
    key::{BackendId, FleetId},
    reader::Reader,
};
use edge_ir::{Cluster, Discovery, LoadBalancing};

/// Builds a cluster; none when the fleet doesn't use it.
pub(crate) fn cluster(reader: &Reader<'_>, fleet: FleetId, backend: BackendId) -> Option<Cluster> {
    if !reader.is_used(fleet, backend) {
        return None;
    }
    let set = reader.endpoint_set_name(backend.port);
    let discovery = discovery(reader, fleet, backend, &set);
    Some(Cluster {
        name: reader.cluster_name(backend),
        discovery,
        protocol: backend.protocol,
        load_balancing: LoadBalancing::default(),
        zones: None,
        origins: endpoints::origins(reader, backend.port),
    })
}

/// Runs again for each new pod, as it looks at addresses, and stops there: its value differs for names only.
fn discovery(reader: &Reader<'_>, fleet: FleetId, backend: BackendId, set: &str) -> Discovery {
    let found = endpoints::addresses(reader, fleet, backend.port);
    if endpoints::is_dns(&found) {
        Discovery::Dns(endpoints::localities(set, found))
    } else {
        Discovery::Endpoints(set.into())
    }
}
