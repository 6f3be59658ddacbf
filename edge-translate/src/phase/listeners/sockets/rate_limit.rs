//! The service that counts requests for all proxies: what an instance asks, and the cluster of it.

use crate::{
    engine::reader::Reader,
    phase::backends::{
        backend_tls::system_authorities,
        cluster::{ClusterParts, NamedHost},
    },
    settings::RateLimitSettings,
};
use edge_ir::{
    AppProtocol, ClusterName, FilterSettings, RateLimitService, Secret, SecretContent, SecretName, ServerNaming,
    SubjectName, Timeout, TlsParameters, Told, UpstreamTls,
};
use std::sync::Arc;

/// The name of its cluster.
const CLUSTER: &str = "ratelimit_cluster";
/// The name of those who vouch for it: no namespace is called so.
const AUTHORITIES: &str = "ratelimit_cluster/ca.crt";
/// Its Service beside the controller of a cluster, and the port of that.
const SERVICE: &str = "edge-ratelimit";
const PORT: u16 = 8081;
/// Time for its answer.
const TIMEOUT: Timeout = Timeout(20);

/// What an instance asks.
pub(super) fn service(reader: &Reader<'_>) -> FilterSettings {
    let Some(settings) = &reader.settings().rate_limit else {
        // Without a service no policy has such a limit.
        return FilterSettings::OfRoutes;
    };
    FilterSettings::RateLimitService(Arc::new(RateLimitService {
        cluster: ClusterName::from(CLUSTER),
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        unanswered: settings.unanswered,
        told: Told::Usual,
    }))
}

/// Its cluster.
pub(super) fn cluster(reader: &Reader<'_>) -> Option<ClusterParts> {
    let settings = reader.settings();
    let service = settings.rate_limit.as_ref()?;
    let beside = || {
        let namespace = &settings.controller_namespace;
        let domain = &settings.dns_domain;
        (format!("{SERVICE}.{namespace}.svc.{domain}").into(), PORT)
    };
    let (host, port) = service.address.clone().unwrap_or_else(beside);
    let name: Arc<str> = format!("{SERVICE}.{}", settings.controller_namespace).into();
    let authorities = authorities(service);
    let tls = UpstreamTls {
        naming: ServerNaming::Fixed,
        server_name: Arc::clone(&name),
        authorities: Some(authorities.name.clone()),
        subjects: vec![SubjectName::Dns(name)],
        client_certificate: None,
        alpn: vec!["h2".into()],
        parameters: TlsParameters::default(),
    };
    let at = NamedHost {
        host: &host,
        port,
        protocol: AppProtocol::Http2,
        tls: Some((tls, authorities)),
    };
    Some(ClusterParts::at_host(ClusterName::from(CLUSTER), at))
}

/// Who vouches for it.
fn authorities(service: &RateLimitSettings) -> Arc<Secret> {
    let Some(bundle) = service.authorities.clone() else {
        return system_authorities();
    };
    Arc::new(Secret {
        name: SecretName::from(AUTHORITIES),
        content: SecretContent::Authorities { bundle, revoked: None },
        origins: Arc::default(),
    })
}
