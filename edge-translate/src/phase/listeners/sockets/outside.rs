//! Clusters of services that an address names: what filters ask that is no backend of ours.

use crate::{
    name::{OutsideService, Scheme},
    phase::backends::{backend_tls::system_authorities, cluster::ClusterParts},
};
use edge_ir::{
    AppProtocol, Cluster, ClusterStats, Discovery, Endpoint, EndpointAddress, EndpointHealth, LoadBalancing, Locality,
    ServerNaming, SubjectName, TlsParameters, UpstreamTls,
};
use std::sync::Arc;

/// The cluster of a service, found by its name, and in TLS verified by the authorities of the system.
pub(super) fn parts(service: &OutsideService) -> ClusterParts {
    let name = service.cluster();
    let authorities = match service.scheme {
        Scheme::Https => Some(system_authorities()),
        Scheme::Http => None,
    };
    let tls = authorities.as_ref().map(|authorities| UpstreamTls {
        naming: ServerNaming::Fixed,
        server_name: Arc::clone(&service.host),
        authorities: Some(authorities.name.clone()),
        // Without a name any certificate of a known authority would do.
        subjects: vec![SubjectName::Dns(Arc::clone(&service.host))],
        client_certificate: None,
        alpn: Vec::new(),
        parameters: TlsParameters::default(),
    });
    let endpoint = Endpoint {
        address: EndpointAddress::Name {
            host: Arc::clone(&service.host),
            port: service.port,
        },
        hostname: Some(Arc::clone(&service.host)),
        health: EndpointHealth::Serving,
    };
    let locality = Locality {
        region: (&*name).into(),
        zone: None,
        priority: 0,
        weight: 1,
        endpoints: vec![endpoint],
    };
    ClusterParts {
        cluster: Arc::new(Cluster {
            name,
            discovery: Discovery::Dns(vec![locality]),
            protocol: AppProtocol::Http1,
            tls,
            load_balancing: LoadBalancing::default(),
            upstream: Arc::default(),
            zones: None,
            stats: ClusterStats::default(),
            origins: Arc::default(),
        }),
        secrets: authorities.into_iter().collect(),
    }
}
