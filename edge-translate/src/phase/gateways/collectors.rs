//! The clusters of those who are told what a fleet's proxies see.
//!
//! They are named for what is told and not for the backend: what one collector is sent is counted apart from what
//! routes send to the same backend, and its settings are its own.

use super::telemetry::collector::{Collector, CollectorTarget};
use crate::{
    engine::reader::Reader,
    name::FleetId,
    phase::backends::cluster::{self, ClusterParts, NamedHost},
};
use edge_ir::Cluster;
use std::sync::Arc;

/// The clusters of a fleet's collectors; none when it has no Gateway.
pub(crate) fn collectors(reader: &Reader<'_>, fleet: FleetId) -> Option<Vec<ClusterParts>> {
    let shape = reader.fleet_shape(fleet)?;
    let collectors = shape.telemetry.collectors.iter();
    Some(collectors.map(|collector| parts(reader, fleet, collector)).collect())
}

fn parts(reader: &Reader<'_>, fleet: FleetId, collector: &Collector) -> ClusterParts {
    let name = collector.name.clone();
    match &collector.target {
        CollectorTarget::Host(host, port) => {
            let at = NamedHost {
                host,
                port: *port,
                protocol: collector.protocol,
                tls: None,
            };
            ClusterParts::at_host(name, at)
        }
        CollectorTarget::Backend(backend) => {
            let parts = cluster::parts(reader, fleet, *backend);
            ClusterParts {
                cluster: Arc::new(Cluster {
                    name,
                    ..Cluster::clone(&parts.cluster)
                }),
                ..parts
            }
        }
    }
}
