//! Clusters: one for each backend, protocol and variant that a fleet sends traffic to.

use super::{backend_tls::Trust, endpoints, offer, set, settings, zones};
use crate::{
    engine::reader::Reader,
    name::{BackendId, BackendPort, BackendSet, Encryption, FleetId, Id, Variant},
    own_host,
    phase::{
        gateways::telemetry::Telemetry,
        secrets::{Needs, Provided, needs},
    },
};
use edge_ir::{
    AppProtocol, Cluster, ClusterName, ClusterStats, CustomObjects, Discovery, Endpoint, EndpointAddress,
    EndpointHealth, EndpointSetName, EndpointSocket, HealthCheck, HttpVersion, LoadBalancing, Locality, Secret,
    UpstreamSettings, UpstreamTls, ZoneRouting,
};
use std::{net::IpAddr, sync::Arc};

/// A cluster, and what a fleet has to have for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterParts {
    /// The cluster.
    pub(crate) cluster: Arc<Cluster>,
    /// Authorities to trust and the certificate to show.
    pub(crate) secrets: Box<[Arc<Secret>]>,
    /// Clusters of servers that have secrets which it names.
    pub(crate) servers: Box<[Arc<Cluster>]>,
}

/// A host that is found by its name, or at its address.
pub(crate) struct NamedHost<'a> {
    /// The name or address.
    pub(crate) host: &'a Arc<str>,
    /// Its port.
    pub(crate) port: u16,
    /// What is spoken there.
    pub(crate) protocol: AppProtocol,
    /// TLS, with the authorities that it names; none is spoken to in clear.
    pub(crate) tls: Option<(UpstreamTls, Arc<Secret>)>,
}

impl ClusterParts {
    /// A cluster that needs nothing else.
    pub(crate) fn alone(cluster: Arc<Cluster>) -> Self {
        Self {
            cluster,
            secrets: Box::default(),
            servers: Box::default(),
        }
    }

    /// The cluster of one host that is no backend.
    pub(crate) fn at_host(name: ClusterName, at: NamedHost<'_>) -> Self {
        let ip: Option<IpAddr> = at.host.parse().ok();
        let endpoint = Endpoint {
            address: match ip {
                Some(ip) => EndpointAddress::Socket { ip, port: at.port },
                None => EndpointAddress::Name {
                    host: Arc::clone(at.host),
                    port: at.port,
                },
            },
            hostname: ip.is_none().then(|| Arc::clone(at.host)),
            health: EndpointHealth::Serving,
        };
        let (tls, authorities) = at.tls.unzip();
        let cluster = Cluster {
            tls: tls.map(Box::new),
            ..of_one(name, endpoint, at.protocol, Discovery::Dns)
        };
        Self {
            cluster: Arc::new(cluster),
            secrets: authorities.into_iter().collect(),
            servers: Box::default(),
        }
    }
}

/// The cluster of one endpoint that is no backend, in clear.
pub(crate) fn of_one(
    name: ClusterName,
    endpoint: Endpoint,
    protocol: AppProtocol,
    found: fn(Vec<Locality>) -> Discovery,
) -> Cluster {
    let locality = Locality {
        region: (&*name).into(),
        weight: 1,
        endpoints: vec![endpoint],
        ..Locality::default()
    };
    Cluster {
        name,
        discovery: found(vec![locality]),
        protocol,
        tls: None,
        sockets: Vec::new(),
        load_balancing: LoadBalancing::default(),
        upstream: Arc::default(),
        zones: ZoneRouting::Unheeded,
        stat_name: None,
        stats: ClusterStats::default(),
        custom: None,
        origins: Arc::default(),
    }
}

/// Builds a cluster; none when the fleet doesn't use it.
pub(crate) fn cluster(reader: &Reader<'_>, fleet: FleetId, backend: BackendId) -> Option<ClusterParts> {
    reader.is_used(fleet, backend).then(|| parts(reader, fleet, backend))
}

/// The cluster of a backend for a fleet.
pub(crate) fn parts(reader: &Reader<'_>, fleet: FleetId, backend: BackendId) -> ClusterParts {
    let set_name = reader.endpoint_set_name(backend.port);
    let variant = reader.variant(backend.variant);
    let discovery = discovery(reader, fleet, backend, &variant);
    let telemetry = reader.fleet_shape(fleet).map(|shape| &*shape.telemetry);
    let settings = settings::settings(reader, backend.port, &variant);
    let version = variant.upstream.http_version;
    let mut named: Vec<Provided> = Vec::new();
    let mut secured = |trust: &Trust| {
        let (tls, provided) = secure(reader, fleet, (backend.protocol, version), trust);
        named.extend(provided);
        tls
    };
    let (tls, sockets) = match reader.set_behind(backend.port) {
        Some(set) if variant.encryption != Encryption::Client => {
            sockets(reader, (&set, &set_name), backend.protocol, secured)
        }
        _ => (settings.ok().and_then(|s| s.tls).map(&mut secured), Vec::new()),
    };
    let Needs { secrets, servers } = needs(named);
    let cluster = Cluster {
        name: reader.cluster_name(backend),
        discovery,
        protocol: backend.protocol,
        tls: tls.map(Box::new),
        sockets,
        load_balancing: variant.load_balancing.clone(),
        upstream: upstream(telemetry, &variant.upstream),
        zones: zones::routing(reader, backend.port, &variant),
        stat_name: variant.stat_name.clone(),
        stats: telemetry.map(|telemetry| telemetry.stats).unwrap_or_default(),
        custom: custom(reader, backend.port),
        origins: endpoints::origins(reader, backend.port),
    };
    ClusterParts {
        cluster: Arc::new(cluster),
        secrets,
        servers,
    }
}

/// What extension services are shown with the cluster: the objects that stand for a backend of it.
fn custom(reader: &Reader<'_>, port: BackendPort) -> Option<Arc<CustomObjects>> {
    let backends = reader.backends_behind(port).into_iter();
    let resources = backends.filter_map(|port| reader.custom_backend(port).cloned());
    CustomObjects {
        resources: resources.collect(),
        policies: Vec::new(),
    }
    .shared()
}

/// How the backends of a set are spoken to, and endpoints of which it isn't known: those are never spoken to in clear
/// where one of the backends isn't.
fn sockets(
    reader: &Reader<'_>,
    (set, name): (&BackendSet, &EndpointSetName),
    protocol: AppProtocol,
    secured: impl FnMut(&Trust) -> UpstreamTls,
) -> (Option<UpstreamTls>, Vec<EndpointSocket>) {
    if !set::has_sockets(reader, set) {
        return (None, Vec::new());
    }
    let trusts = set.members.iter().map(|member| set::trust(reader, member));
    let mut secured = secured;
    let mut sockets: Vec<EndpointSocket> = trusts
        .enumerate()
        .map(|(number, trust)| EndpointSocket {
            name: set::socket_name(name, number),
            tls: trust.map(|trust| secured(trust)),
        })
        .collect();
    offer::level(protocol, &mut sockets);
    let first = sockets.iter().find_map(|socket| socket.tls.clone());
    (first, sockets)
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
    (protocol, version): (AppProtocol, HttpVersion),
    trust: &Trust,
) -> (UpstreamTls, impl Iterator<Item = Provided> + use<>) {
    let own = trust.client_certificate.and_then(|id| certificate(reader, id));
    let shape = reader.fleet_shape(fleet);
    let shown = own.or_else(|| certificate(reader, shape?.client_certificate?));
    let asked = match shape {
        Some(shape) => trust.asked.over(&shape.backend_tls.asked),
        None => trust.asked.clone(),
    };
    let offer = offer::offer(protocol, version, trust, &asked);
    let tls = UpstreamTls {
        client_certificate: shown.as_ref().map(Provided::source),
        alpn: offer.alpn,
        inside: offer.inside,
        parameters: asked.parameters(),
        ..trust.tls.clone()
    };
    (tls, trust.authorities.clone().into_iter().chain(shown))
}

fn certificate(reader: &Reader<'_>, secret: Id) -> Option<Provided> {
    let certificate = reader.certificate(secret)?.as_ref().ok()?;
    Some(certificate.provided.clone())
}

/// Runs again for each new pod, as it looks at addresses, and stops there: its value differs for names only.
fn discovery(reader: &Reader<'_>, fleet: FleetId, backend: BackendId, variant: &Variant) -> Discovery {
    if endpoints::is_of_request(reader, backend.port) {
        return Discovery::OfRequest(own_host::named_hosts(reader.settings().platform));
    }
    let routing = endpoints::routing(reader, fleet, &variant.placement);
    let listed = || Discovery::Endpoints(reader.endpoints_name(reader.endpoints_of(backend)));
    if let Some(set) = reader.set_behind(backend.port) {
        let localities = set::localities(reader, backend.port, &set, routing, &variant.placement);
        let has_names = localities.iter().any(|locality| endpoints::is_dns(&locality.endpoints));
        return match has_names {
            true => Discovery::Dns(localities),
            false => listed(),
        };
    }
    let found = endpoints::addresses(reader, backend.port, routing);
    match endpoints::is_dns(&found) {
        true => Discovery::Dns(zones::placed(reader, backend.port, found, &variant.placement)),
        false => listed(),
    }
}
