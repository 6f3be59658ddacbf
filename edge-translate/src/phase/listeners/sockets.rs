//! The sockets of a fleet: listeners with their filter chains, the tables these name, and the certificates they serve.

use super::{
    finding::OVERLAP,
    fleet::{FleetListeners, ListenerState, Serving, container_port},
};
use crate::{
    api::Protocol,
    engine::reader::Reader,
    name::{Encryption, FleetId},
    phase::{
        gateways::{gateway::Gateway, proxy_settings},
        hostname,
        policies::guard,
        routes::rules::Compiled,
    },
    settings::Platform,
};
use edge_ir::{
    AccessLog, DownstreamTls, FilterChain, FilterId, FleetSettings, HttpManager, IpFamily, Listener, Network, Origin,
    Origins, PortProtocol, ReadyListener, RouteTableName, Secret, ServerNames, StreamProxy, TlsVersion,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

mod tls;

/// The sockets of a fleet, and what they name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sockets {
    /// Settings of the proxy.
    pub(crate) settings: Arc<FleetSettings>,
    /// Sockets, by name.
    pub(crate) listeners: Vec<Arc<Listener>>,
    /// Tables that chains name, by name.
    pub(crate) tables: Vec<(RouteTableName, Origins)>,
    /// Certificates that chains name, by name.
    pub(crate) secrets: Vec<Arc<Secret>>,
}

/// Port of the readiness listener.
const READY_PORT: u16 = 19003;

/// Builds the sockets of a fleet; none when it has no Gateway.
pub(crate) fn sockets(reader: &Reader<'_>, fleet: FleetId) -> Option<Sockets> {
    let listeners = reader.listeners(fleet)?;
    let settings = settings(reader, listeners);
    let mut ports: BTreeMap<(PortProtocol, u16), Vec<&ListenerState>> = BTreeMap::new();
    for served in serving(listeners) {
        ports.entry((transport(served), served.port)).or_default().push(served);
    }
    let platform = reader.settings().platform;
    let mut sockets: Vec<_> = ports
        .iter()
        .map(|((transport, port), served)| {
            let bound = container_port(*port, platform);
            let parts = match transport {
                PortProtocol::Tcp => stream_parts(reader, served, bound),
                PortProtocol::Udp => datagram_parts(reader, served),
            };
            Arc::new(socket(*transport, *port, bound, served, settings.ip_family, parts))
        })
        .collect();
    sockets.sort_by(|a, b| a.name.cmp(&b.name));
    Some(Sockets {
        settings: Arc::new(settings),
        listeners: sockets,
        tables: tables(listeners),
        secrets: secrets(reader, listeners),
    })
}

fn serving(listeners: &FleetListeners) -> impl Iterator<Item = &ListenerState> {
    listeners.all().filter(|l| l.serving == Serving::Yes)
}

fn settings(reader: &Reader<'_>, listeners: &FleetListeners) -> FleetSettings {
    let proxy = listeners.gateways.iter().find_map(|g| match &**reader.gateway(g.id)? {
        Gateway::Member(member) => member.proxy.as_deref(),
        Gateway::Foreign => None,
    });
    let ip_family = proxy_settings::ip_family(proxy);
    let address = match ip_family {
        IpFamily::V4 => "0.0.0.0",
        IpFamily::V6 | IpFamily::DualStack => "::",
    };
    FleetSettings {
        ip_family,
        access_log: match proxy.is_some_and(proxy_settings::disables_access_log) {
            true => AccessLog::Disabled,
            false => AccessLog::DefaultJson,
        },
        // On a shared machine every process needs a port of its own: who starts it chooses, in the bootstrap.
        ready: (reader.settings().platform == Platform::Cluster).then(|| ReadyListener {
            address: address.into(),
            port: READY_PORT,
        }),
        preserve_route_order: proxy.is_some_and(|p| p.spec.preserve_route_order),
    }
}

fn transport(listener: &ListenerState) -> PortProtocol {
    match listener.protocol {
        Protocol::Udp => PortProtocol::Udp,
        _ => PortProtocol::Tcp,
    }
}

/// What a socket does with what arrives.
#[derive(Default)]
struct Parts {
    chains: Vec<FilterChain>,
    default_chain: Option<FilterChain>,
    udp: Option<StreamProxy>,
}

/// All listeners of a port in one socket.
fn socket(
    transport: PortProtocol,
    port: u16,
    bound: u16,
    served: &[&ListenerState],
    ip_family: IpFamily,
    parts: Parts,
) -> Listener {
    let word = match transport {
        PortProtocol::Tcp => "tcp",
        PortProtocol::Udp => "udp",
    };
    Listener {
        name: format!("{word}-{port}").into(),
        port: bound,
        external_port: port,
        ip_family,
        udp: parts.udp,
        chains: parts.chains,
        default_chain: parts.default_chain,
        origins: served.iter().map(|l| l.origin.clone()).collect(),
    }
}

/// Chains of a TCP socket. Listeners of different protocol groups never share one: they conflict.
fn stream_parts(reader: &Reader<'_>, served: &[&ListenerState], bound: u16) -> Parts {
    let mut parts = Parts::default();
    let mut plain: Option<&ListenerState> = None;
    for listener in served {
        let chains = match listener.protocol {
            Protocol::Https => vec![secure_chain(reader, listener, bound)],
            Protocol::Tls => tls::chains(reader, listener, bound),
            _ => {
                plain = plain.or(Some(listener));
                continue;
            }
        };
        for chain in chains {
            match chain.server_names {
                ServerNames::Any => parts.default_chain = Some(chain),
                ServerNames::Only(_) => parts.chains.push(chain),
            }
        }
    }
    if let Some(listener) = plain {
        let network = match listener.protocol {
            Protocol::Tcp => Network::Tcp(stream(reader, listener, format!("tcp-{bound}"))),
            _ => http(reader, format!("http-{bound}"), listener, served),
        };
        parts.default_chain = Some(FilterChain {
            name: (&*listener.table).into(),
            server_names: ServerNames::Any,
            tls: None,
            network,
            origins: Arc::new([listener.origin.clone()]),
        });
    }
    parts.chains.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

fn datagram_parts(reader: &Reader<'_>, served: &[&ListenerState]) -> Parts {
    let udp = served
        .first()
        .map(|listener| stream(reader, listener, "service".into()));
    Parts {
        udp,
        ..Parts::default()
    }
}

/// The stream of a listener: its oldest route serves alone.
fn stream(reader: &Reader<'_>, listener: &ListenerState, stat_prefix: String) -> StreamProxy {
    let routes = reader
        .listener_routes(listener.id)
        .iter()
        .filter_map(|route| reader.rules(*route));
    let oldest = routes.min_by(|a, b| a.seniority.cmp(&b.seniority));
    let is_guarded = guard::covers_listener(reader, listener.id);
    match oldest.map(|rules| &rules.compiled) {
        Some(Compiled::Stream(streams)) if !is_guarded => StreamProxy {
            stat_prefix: stat_prefix.into(),
            ..streams.on(Encryption::Policy).clone()
        },
        _ => nobody(stat_prefix.into()),
    }
}

/// A stream that closes its connections and drops its datagrams.
fn nobody(stat_prefix: Arc<str>) -> StreamProxy {
    StreamProxy {
        stat_prefix,
        shares: Vec::new(),
        invalid_weight: 0,
        origins: Arc::default(),
    }
}

/// The manager of a table: it has the filters that the routes of every listener in the table use.
fn http(reader: &Reader<'_>, stat_prefix: String, listener: &ListenerState, served: &[&ListenerState]) -> Network {
    let sharers = served.iter().filter(|l| l.table == listener.table);
    let used: BTreeSet<FilterId> = sharers
        .flat_map(|l| reader.filters(l.id))
        .map(|filter| FilterId {
            kind: filter.kind,
            owner: reader.text(filter.owner),
        })
        .collect();
    Network::Http(HttpManager {
        stat_prefix: stat_prefix.into(),
        route_table: listener.table.clone(),
        filters: used.into_iter().collect(),
        client: Arc::default(),
    })
}

fn secure_chain(reader: &Reader<'_>, listener: &ListenerState, bound: u16) -> FilterChain {
    let overlaps = listener.conditions.iter().any(|c| c.kind == OVERLAP);
    // A client may reuse an HTTP/2 connection for a name of the other listener; with HTTP/1.1 it can't.
    let alpn: &[&str] = if overlaps { &["http/1.1"] } else { &["h2", "http/1.1"] };
    FilterChain {
        name: Arc::clone(&listener.full_name),
        server_names: server_names(vec![Arc::clone(&listener.hostname)]),
        tls: Some(downstream_tls(listener, alpn)),
        network: http(reader, format!("https-{bound}"), listener, &[listener]),
        origins: Arc::new([listener.origin.clone()]),
    }
}

/// Names of a chain; the name that stands for all makes it the one for connections that no other is for.
fn server_names(names: Vec<Arc<str>>) -> ServerNames {
    match names.iter().any(|name| **name == *hostname::ANY) {
        true => ServerNames::Any,
        false => ServerNames::Only(names),
    }
}

fn downstream_tls(listener: &ListenerState, alpn: &[&str]) -> DownstreamTls {
    DownstreamTls {
        certificates: listener.certificates.iter().map(|c| c.name.clone()).collect(),
        min_version: TlsVersion::V1_2,
        max_version: TlsVersion::V1_3,
        alpn: alpn.iter().map(|p| Arc::from(*p)).collect(),
    }
}

fn tables(listeners: &FleetListeners) -> Vec<(RouteTableName, Origins)> {
    let mut tables: BTreeMap<RouteTableName, Vec<Origin>> = BTreeMap::new();
    for listener in serving(listeners).filter(|l| matches!(l.protocol, Protocol::Http | Protocol::Https)) {
        tables
            .entry(listener.table.clone())
            .or_default()
            .push(listener.origin.clone());
    }
    tables
        .into_iter()
        .map(|(name, origins)| (name, origins.into()))
        .collect()
}

fn secrets(reader: &Reader<'_>, listeners: &FleetListeners) -> Vec<Arc<Secret>> {
    let named = serving(listeners).flat_map(|l| &l.certificates);
    let secrets = named.filter_map(|named| {
        let certificate = reader.certificate(named.id)?.as_ref().ok()?;
        Some((named.name.clone(), Arc::clone(&certificate.secret)))
    });
    secrets.collect::<BTreeMap<_, _>>().into_values().collect()
}
