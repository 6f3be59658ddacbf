//! Clusters of services that an address names: what filters ask that is no backend of ours.

use crate::{
    engine::reader::Reader,
    name::{OutsideService, Scheme},
    phase::backends::{backend_tls::system_authorities, cluster::ClusterParts},
};
use edge_ir::{
    AppProtocol, Cluster, ClusterStats, Discovery, Endpoint, EndpointAddress, EndpointHealth, Locality, Secret,
    ServerNaming, SubjectName, TlsParameters, UpstreamTls,
};
use std::sync::Arc;

/// The cluster of a service, found by its name or at its address, and in TLS verified by the authorities of the system.
pub(super) fn parts(reader: &Reader<'_>, service: &OutsideService) -> ClusterParts {
    let name = reader.outside_cluster_name(service);
    let variant = reader.variant(service.variant);
    let authorities = match service.scheme {
        Scheme::Https => Some(system_authorities()),
        Scheme::Http => None,
    };
    let tls = authorities.as_ref().map(|authorities| tls(service, authorities));
    let ip = service.ip();
    let endpoint = Endpoint {
        address: match ip {
            Some(ip) => EndpointAddress::Socket { ip, port: service.port },
            None => EndpointAddress::Name {
                host: Arc::clone(&service.host),
                port: service.port,
            },
        },
        hostname: ip.is_none().then(|| Arc::clone(&service.host)),
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
            load_balancing: variant.load_balancing.clone(),
            upstream: Arc::clone(&variant.upstream),
            zones: None,
            stats: ClusterStats::default(),
            origins: Arc::default(),
        }),
        secrets: authorities.into_iter().collect(),
    }
}

/// TLS to a service. An address is no server name (RFC 6066 §3), and stands in certificates as what it is.
fn tls(service: &OutsideService, authorities: &Secret) -> UpstreamTls {
    let (server_name, subject) = match service.ip() {
        Some(ip) => (Arc::default(), SubjectName::Ip(ip)),
        None => (Arc::clone(&service.host), SubjectName::Dns(Arc::clone(&service.host))),
    };
    UpstreamTls {
        naming: ServerNaming::Fixed,
        server_name,
        authorities: Some(authorities.name.clone()),
        // Without a name any certificate of a known authority would do.
        subjects: vec![subject],
        client_certificate: None,
        alpn: Vec::new(),
        parameters: TlsParameters::default(),
    }
}
