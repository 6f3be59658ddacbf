//! Endpoints.

use super::common::{endpoint_address, number};
use crate::snapshot::{Body, Entry};
use edge_ir::{Endpoint, EndpointHealth, EndpointSet, Locality};
use envoy_types::pb::envoy::config::{
    core::v3::{HealthStatus, Locality as Place},
    endpoint::v3::{self as pb, ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier},
};
use prost::Message;

/// Encodes a set of endpoints. It has no place for metadata of its own: the cluster that uses it carries the origins.
pub(super) fn encode_endpoints(set: &EndpointSet) -> Entry {
    let message = ClusterLoadAssignment {
        cluster_name: set.name.to_string(),
        endpoints: lower_localities(&set.localities),
        ..Default::default()
    };
    Entry::new(
        set.name.clone(),
        Body::Whole(message.encode_to_vec().into()),
        set.origins.clone(),
    )
}

/// Groups of endpoints by place and priority.
pub(super) fn lower_localities(localities: &[Locality]) -> Vec<LocalityLbEndpoints> {
    localities.iter().map(lower_locality).collect()
}

fn lower_locality(locality: &Locality) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: Some(Place {
            region: locality.region.to_string(),
            zone: locality.zone.as_deref().unwrap_or_default().to_owned(),
            ..Default::default()
        }),
        lb_endpoints: locality.endpoints.iter().map(lower_endpoint).collect(),
        // Weighing localities takes one that has no weight to be closed.
        load_balancing_weight: number(locality.weight.max(1)),
        priority: locality.priority,
        ..Default::default()
    }
}

fn lower_endpoint(endpoint: &Endpoint) -> LbEndpoint {
    let health = match endpoint.health {
        EndpointHealth::Serving => HealthStatus::Unknown,
        EndpointHealth::Draining => HealthStatus::Draining,
    };
    LbEndpoint {
        health_status: health.into(),
        load_balancing_weight: number(1),
        host_identifier: Some(HostIdentifier::Endpoint(pb::Endpoint {
            address: Some(endpoint_address(&endpoint.address)),
            hostname: endpoint.hostname.as_deref().unwrap_or_default().to_owned(),
            ..Default::default()
        })),
        ..Default::default()
    }
}
