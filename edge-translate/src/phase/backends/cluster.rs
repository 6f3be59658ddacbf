//! Clusters: one for each backend, protocol and variant that a fleet sends traffic to.

use super::{backend_tls::Trust, endpoints, settings};
use crate::{
    engine::reader::Reader,
    name::{BackendId, FleetId},
    phase::{gateways::telemetry::Telemetry, listeners::client_certificate, precedence::Seniority},
};
use edge_ir::{AppProtocol, Cluster, Discovery, EndpointSetName, HealthCheck, Secret, UpstreamSettings, UpstreamTls};
use std::sync::Arc;

/// A cluster and the secrets that it names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterParts {
    /// The cluster.
    pub(crate) cluster: Arc<Cluster>,
    /// Authorities to trust and the certificate to show.
    pub(crate) secrets: Box<[Arc<Secret>]>,
}

/// Builds a cluster; none when the fleet doesn't use it.
pub(crate) fn cluster(reader: &Reader<'_>, fleet: FleetId, backend: BackendId) -> Option<ClusterParts> {
    reader.is_used(fleet, backend).then(|| parts(reader, fleet, backend))
}

/// The cluster of a backend for a fleet.
pub(crate) fn parts(reader: &Reader<'_>, fleet: FleetId, backend: BackendId) -> ClusterParts {
    let set = reader.endpoint_set_name(backend.port);
    let discovery = discovery(reader, fleet, backend, set);
    let variant = reader.variant(backend.variant);
    let telemetry = reader.fleet_shape(fleet).map(|shape| &*shape.telemetry);
    let settings = settings::settings(reader, backend.port, &variant);
    let (tls, secrets) = match settings.ok().and_then(|settings| settings.tls) {
        Some(trust) => {
            let (tls, secrets) = secure(reader, fleet, backend.protocol, trust);
            (Some(tls), secrets)
        }
        None => (None, Box::default()),
    };
    let cluster = Cluster {
        name: reader.cluster_name(backend),
        discovery,
        protocol: backend.protocol,
        tls,
        load_balancing: variant.load_balancing.clone(),
        upstream: upstream(telemetry, &variant.upstream),
        zones: None,
        stats: telemetry.map(|telemetry| telemetry.stats).unwrap_or_default(),
        origins: endpoints::origins(reader, backend.port),
    };
    ClusterParts {
        cluster: Arc::new(cluster),
        secrets,
    }
}

/// What policies ask of connections, with what the fleet logs of its probes.
fn upstream(telemetry: Option<&Telemetry>, asked: &Arc<UpstreamSettings>) -> Arc<UpstreamSettings> {
    let log = telemetry.and_then(|telemetry| telemetry.health_log.as_ref());
    match (log, asked.health_check.as_deref()) {
        (Some(log), Some(check)) if check.log.is_none() => {
            let check = HealthCheck {
                log: Some(log.clone()),
                ..check.clone()
            };
            Arc::new(UpstreamSettings {
                health_check: Some(Arc::new(check)),
                ..UpstreamSettings::clone(asked)
            })
        }
        _ => Arc::clone(asked),
    }
}

/// What the policy says, with what the fleet adds.
fn secure(
    reader: &Reader<'_>,
    fleet: FleetId,
    protocol: AppProtocol,
    trust: &Trust,
) -> (UpstreamTls, Box<[Arc<Secret>]>) {
    let own = trust.client_certificate.and_then(|id| {
        let certificate = reader.certificate(id)?.as_ref().ok()?;
        Some(Arc::clone(&certificate.secret))
    });
    let shown = own.or_else(|| client_certificate(reader, fleet));
    let tls = UpstreamTls {
        client_certificate: shown.as_ref().map(|c| c.name.clone()),
        // HTTP/1.1 and bare streams share a cluster, and a stream has no protocol to offer.
        alpn: match (&trust.alpn, protocol) {
            (Some(alpn), _) => alpn.clone(),
            (None, AppProtocol::Http2) => vec!["h2".into()],
            (None, AppProtocol::Http1) => Vec::new(),
        },
        ..trust.tls.clone()
    };
    (tls, trust.authorities.iter().cloned().chain(shown).collect())
}

/// The certificate that the fleet shows to backends: that of its oldest Gateway that has a usable one.
fn client_certificate(reader: &Reader<'_>, fleet: FleetId) -> Option<Arc<Secret>> {
    let mut gateways: Vec<_> = reader
        .members(fleet)
        .iter()
        .filter_map(|id| reader.gateway_object(*id))
        .filter(|gateway| gateway.spec.tls.is_some())
        .collect();
    gateways.sort_by_cached_key(|gateway| Seniority::of(&gateway.metadata));
    let usable = gateways
        .into_iter()
        .find_map(|gateway| client_certificate::certificate(reader, gateway)?.ok())?;
    let certificate = reader.certificate(usable.id)?.as_ref().ok()?;
    Some(Arc::clone(&certificate.secret))
}

/// Runs again for each new pod, as it looks at addresses, and stops there: its value differs for names only.
fn discovery(reader: &Reader<'_>, fleet: FleetId, backend: BackendId, set: EndpointSetName) -> Discovery {
    if endpoints::is_of_request(reader, backend.port) {
        return Discovery::OfRequest;
    }
    let found = endpoints::addresses(reader, fleet, backend.port);
    if endpoints::is_dns(&found) {
        Discovery::Dns(endpoints::placed(reader, backend.port, &set, found))
    } else {
        Discovery::Endpoints(set)
    }
}
