//! Clusters of services that an address names: what filters ask that is no backend of ours.

use crate::{
    engine::reader::Reader,
    name::{OutsideService, Scheme},
    phase::backends::{
        backend_tls::system_authorities,
        cluster::{ClusterParts, NamedHost},
    },
};
use edge_ir::{AppProtocol, Cluster, Inside, Secret, ServerNaming, SubjectName, TlsParameters, UpstreamTls};
use std::sync::Arc;

/// The cluster of a service, found by its name or at its address, and in TLS verified by the authorities of the system.
pub(super) fn parts(reader: &Reader<'_>, service: &OutsideService) -> ClusterParts {
    let variant = reader.variant(service.variant);
    let tls = match service.scheme {
        Scheme::Https => {
            let authorities = system_authorities();
            Some((tls(service, &authorities), authorities))
        }
        Scheme::Http => None,
    };
    let at = NamedHost {
        host: &service.host,
        port: service.port,
        protocol: AppProtocol::Http1,
        tls,
    };
    let parts = ClusterParts::at_host(reader.outside_cluster_name(service), at);
    ClusterParts {
        cluster: Arc::new(Cluster {
            load_balancing: variant.load_balancing.clone(),
            upstream: Arc::clone(&variant.upstream),
            ..Cluster::clone(&parts.cluster)
        }),
        ..parts
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
        authorities: Some(authorities.name.clone().into()),
        // Without a name any certificate of a known authority would do.
        subjects: vec![subject],
        client_certificate: None,
        alpn: Vec::new(),
        inside: Inside::default(),
        parameters: TlsParameters::default(),
    }
}
