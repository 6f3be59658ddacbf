//! A socket of a fleet: a listener of the data plane with its filter chains, the tables these name, and the
//! certificates they serve.
//!
//! Which sockets there are, and which listeners of the API serve at each, is kept from the judgement on a fleet's
//! listeners, reduced to what the data plane sees of them: an edit of one listener makes one socket again.

use super::{
    client_validation::ClientTrust,
    fleet::{FleetListeners, ListenerState, Serving},
};
use crate::{
    api::Protocol,
    engine::reader::Reader,
    name::{FleetId, Id, ListenerId, SocketId},
    phase::{
        backends::cluster::ClusterParts,
        gateways::gateway::{Gateway, transport},
        hostname,
        policies::client::{ClientTraffic, Http3},
        routes::{bound, rules::failed_rules},
        secrets::{Provided, needs},
    },
};
use edge_ir::{
    Carrier, DownstreamTls, FilterChain, GuardSet, Hello, HttpManager, IpFamily, Listener, Network, Origin, Origins,
    PortProtocol, RouteTableName, Secret, ServerNames, SocketSettings, StreamProxy, TlsVersion,
};
use std::{collections::BTreeMap, sync::Arc};

mod filters;
mod modules;
mod ours;
mod outside;
mod quic;
mod rate_limit;
mod tls;

pub(crate) use modules::download;

/// A socket, and what it names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Socket {
    /// The socket itself.
    pub(crate) listener: Arc<Listener>,
    /// What takes HTTP/3 on the same port.
    pub(crate) quic: Option<Arc<Listener>>,
    /// Tables that its chains name, by name.
    pub(crate) tables: Vec<(RouteTableName, TableFrame)>,
    /// Certificates and authorities that its chains name, by name.
    pub(crate) secrets: Vec<Arc<Secret>>,
    /// Clusters of what filters ask that is no backend, by name.
    pub(crate) clusters: Vec<ClusterParts>,
}

/// What is known of a table besides its hosts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableFrame {
    /// What stands on the chains that name it.
    pub(crate) guards: GuardSet,
    /// The listeners that share it.
    pub(crate) origins: Origins,
}

/// What HTTPS listeners offer. Names of other listeners on the same connection are answered 421, so that HTTP/2 needn't
/// be withheld where certificates or hostnames overlap.
const ALPN: [&str; 2] = ["h2", "http/1.1"];

/// What the data plane sees of a listener.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SocketListener {
    /// Which one.
    pub(crate) id: ListenerId,
    full_name: Arc<str>,
    /// Its hostname, `*` for every one.
    hostname: Arc<str>,
    /// Port that clients use.
    port: u16,
    protocol: Protocol,
    http3: Http3,
    /// Server certificates, by their Secrets.
    certificates: Vec<Id>,
    /// Which clients may connect, where they must say who they are.
    clients: Option<Arc<ClientTrust>>,
    /// How clients are treated.
    traffic: Arc<ClientTraffic>,
    table: RouteTableName,
    origin: Origin,
}

/// The listeners that serve, at their sockets.
pub(crate) fn by_socket(fleet: FleetId, listeners: &FleetListeners) -> BTreeMap<SocketId, Vec<SocketListener>> {
    let mut sockets: BTreeMap<SocketId, Vec<SocketListener>> = BTreeMap::new();
    for listener in listeners.all().filter(|l| l.serving == Serving::Yes) {
        let socket = SocketId {
            fleet,
            transport: transport(&listener.protocol),
            port: listener.port,
        };
        sockets.entry(socket).or_default().push(socket_listener(listener));
    }
    sockets
}

fn socket_listener(listener: &ListenerState) -> SocketListener {
    let certificates = listener.certificates.iter();
    SocketListener {
        id: listener.id,
        full_name: Arc::clone(&listener.full_name),
        hostname: Arc::clone(&listener.hostname),
        port: listener.port,
        protocol: listener.protocol.clone(),
        http3: listener.http3(),
        certificates: certificates.map(|c| c.id).collect(),
        clients: listener.clients.clone(),
        traffic: Arc::clone(&listener.traffic),
        table: listener.table.clone(),
        origin: listener.origin.clone(),
    }
}

/// Builds a socket; none when nothing serves there.
pub(crate) fn socket(reader: &Reader<'_>, id: SocketId) -> Option<Socket> {
    let served = reader.socket_listeners(id);
    served.first()?;
    let shape = reader.fleet_shape(id.fleet)?;
    let ip_family = shape.settings.ip_family;
    let bound = shape.ports.container_port(id.port);
    let parts = match id.transport {
        PortProtocol::Tcp => stream_parts(reader, served, bound),
        PortProtocol::Udp => datagram_parts(reader, served),
    };
    let listener = listener(id, bound, served, ip_family, parts);
    Some(Socket {
        quic: quic::listener(reader, served, &listener).map(Arc::new),
        tables: tables(served, &listener),
        listener: Arc::new(listener),
        secrets: secrets(reader, served),
        clusters: clusters(reader, served),
    })
}

/// What holds for all connections of a socket: its listeners have that in common (`shared_port`).
fn socket_settings(id: SocketId, served: &[SocketListener]) -> SocketSettings {
    match (id.transport, served.first()) {
        (PortProtocol::Tcp, Some(listener)) => listener.traffic.socket.clone(),
        (PortProtocol::Udp, _) | (_, None) => SocketSettings::default(),
    }
}

/// What a socket does with what arrives.
#[derive(Default)]
struct Parts {
    hello: Hello,
    chains: Vec<FilterChain>,
    default_chain: Option<FilterChain>,
    udp: Option<StreamProxy>,
}

/// All listeners of a port in one socket.
fn listener(id: SocketId, bound: u16, served: &[SocketListener], ip_family: IpFamily, parts: Parts) -> Listener {
    let port = id.port;
    let word = match id.transport {
        PortProtocol::Tcp => "tcp",
        PortProtocol::Udp => "udp",
    };
    Listener {
        name: format!("{word}-{port}").into(),
        port: bound,
        external_port: port,
        ip_family,
        socket: socket_settings(id, served),
        carrier: Carrier::Tcp,
        hello: parts.hello,
        udp: parts.udp,
        chains: parts.chains,
        default_chain: parts.default_chain,
        origins: served.iter().map(|l| l.origin.clone()).collect(),
    }
}

/// Chains of a TCP socket. Listeners of different protocol groups never share one: they conflict.
fn stream_parts(reader: &Reader<'_>, served: &[SocketListener], bound: u16) -> Parts {
    let mut parts = Parts::default();
    let mut plain: Option<&SocketListener> = None;
    for listener in served {
        let chains = match listener.protocol {
            Protocol::Https => vec![secure_chain(reader, listener, bound)],
            Protocol::Tls => tls::chains(reader, listener, bound),
            _ => {
                plain = plain.or(Some(listener));
                continue;
            }
        };
        parts.hello = Hello::Read;
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
            _ => http(reader, format!("http-{bound}"), listener, served, Carrier::Tcp),
        };
        parts.default_chain = Some(FilterChain {
            name: (&*listener.table).into(),
            server_names: ServerNames::Any,
            tls: None,
            connections: listener.traffic.connections,
            network,
            origins: Arc::new([listener.origin.clone()]),
        });
    }
    parts.chains.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

fn datagram_parts(reader: &Reader<'_>, served: &[SocketListener]) -> Parts {
    let udp = served
        .first()
        .map(|listener| stream(reader, listener, "service".into()));
    Parts {
        udp,
        ..Parts::default()
    }
}

/// The stream of a listener: its oldest route serves alone, of those that are accepted.
fn stream(reader: &Reader<'_>, listener: &SocketListener, stat_prefix: String) -> StreamProxy {
    let routes = reader
        .listener_routes(listener.id)
        .iter()
        .filter_map(|route| Some((*route, reader.bound(*route)?)));
    let accepted = routes.filter(|(_, bound)| failed_rules(&bound.summary).is_empty());
    let oldest = accepted.min_by(|(_, a), (_, b)| a.summary.seniority.cmp(&b.summary.seniority));
    match oldest.and_then(|(route, _)| bound::stream(reader, route, listener.id)) {
        Some(stream) => StreamProxy {
            stat_prefix: stat_prefix.into(),
            ..stream.clone()
        },
        None => nobody(stat_prefix.into()),
    }
}

/// A stream that closes its connections and drops its datagrams.
fn nobody(stat_prefix: Arc<str>) -> StreamProxy {
    StreamProxy {
        stat_prefix,
        access: None,
        shares: Vec::new(),
        invalid_weight: 0,
        hashes_source: false,
        named_at: None,
        origins: Arc::default(),
    }
}

/// The manager of a table: it has the filters that the routes of every listener in the table use.
fn http(
    reader: &Reader<'_>,
    stat_prefix: String,
    listener: &SocketListener,
    served: &[SocketListener],
    carrier: Carrier,
) -> Network {
    let sharers = served.iter().filter(|l| l.table == listener.table);
    let used = sharers.flat_map(|l| reader.filters(l.id));
    let member = reader.gateway(listener.id.gateway).map(|gateway| &**gateway);
    let shape = match member {
        Some(Gateway::Member(member)) => reader.fleet_shape(member.fleet),
        _ => None,
    };
    let moves = shape.map(|shape| &*shape.filter_order).unwrap_or_default();
    let counted = shape.map(|shape| shape.telemetry.counted_calls).unwrap_or_default();
    let of_listener = filters::of_listener(&listener.traffic, quic::alternative(listener, carrier), counted);
    let around = filters::Around {
        traffic: &listener.traffic,
        places: shape.and_then(|shape| shape.places.as_ref()),
    };
    let filters = filters::instances(reader, used, of_listener, around, moves);
    Network::Http(HttpManager {
        stat_prefix: stat_prefix.into(),
        route_table: listener.table.clone(),
        guards: filters::guards(&filters),
        filters,
        client: Arc::clone(&listener.traffic.http),
    })
}

fn secure_chain(reader: &Reader<'_>, listener: &SocketListener, bound: u16) -> FilterChain {
    FilterChain {
        name: Arc::clone(&listener.full_name),
        server_names: server_names(vec![Arc::clone(&listener.hostname)]),
        tls: Some(downstream_tls(reader, listener, &ALPN)),
        connections: listener.traffic.connections,
        network: http(
            reader,
            format!("https-{bound}"),
            listener,
            std::slice::from_ref(listener),
            Carrier::Tcp,
        ),
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

/// The server certificates of a listener.
fn provided<'a>(reader: &'a Reader<'_>, listener: &'a SocketListener) -> impl Iterator<Item = &'a Provided> {
    let certificates = listener.certificates.iter();
    certificates.filter_map(|id| Some(&reader.certificate(*id)?.as_ref().ok()?.provided))
}

fn downstream_tls(reader: &Reader<'_>, listener: &SocketListener, alpn: &[&str]) -> DownstreamTls {
    let tls = &listener.traffic.tls;
    let parameters = &tls.parameters;
    let max_version = parameters.max_version.unwrap_or(TlsVersion::V1_3);
    DownstreamTls {
        certificates: provided(reader, listener).map(|provided| provided.source()).collect(),
        // The lowest that is chosen by itself is none above the highest.
        min_version: parameters.min_version.unwrap_or(TlsVersion::V1_2).min(max_version),
        max_version,
        alpn: tls
            .protocols
            .clone()
            .unwrap_or_else(|| alpn.iter().map(|p| Arc::from(*p)).collect()),
        ciphers: parameters.ciphers.clone(),
        curves: parameters.curves.clone(),
        signature_algorithms: parameters.signature_algorithms.clone(),
        resumption: tls.resumption,
        clients: listener.clients.as_ref().map(|trust| Arc::clone(&trust.validation)),
    }
}

fn tables(served: &[SocketListener], listener: &Listener) -> Vec<(RouteTableName, TableFrame)> {
    // Chains of one table have the same filters of routes.
    let chains = listener.chains.iter().chain(&listener.default_chain);
    let guards: BTreeMap<_, _> = chains
        .filter_map(|chain| match &chain.network {
            Network::Http(manager) => Some((&manager.route_table, &manager.guards)),
            Network::Tcp(_) => None,
        })
        .collect();
    let mut tables: BTreeMap<RouteTableName, Vec<Origin>> = BTreeMap::new();
    let http = served.iter();
    for listener in http.filter(|l| matches!(l.protocol, Protocol::Http | Protocol::Https)) {
        let origins = tables.entry(listener.table.clone()).or_default();
        origins.push(listener.origin.clone());
    }
    let tables = tables.into_iter();
    let framed = tables.map(|(name, origins)| {
        let guards = guards.get(&name).map(|guards| GuardSet::clone(guards));
        let frame = TableFrame {
            guards: guards.unwrap_or_default(),
            origins: origins.into(),
        };
        (name, frame)
    });
    framed.collect()
}

fn clusters(reader: &Reader<'_>, served: &[SocketListener]) -> Vec<ClusterParts> {
    let used = served.iter().flat_map(|l| reader.filters(l.id));
    let asked = used.flat_map(|key| filters::clusters(reader, key));
    let certificates = served.iter().flat_map(|listener| provided(reader, listener));
    let servers = needs(certificates.cloned())
        .servers
        .into_iter()
        .map(ClusterParts::alone);
    let all = asked.chain(servers);
    let by_name: BTreeMap<_, _> = all.map(|parts| (parts.cluster.name.clone(), parts)).collect();
    by_name.into_values().collect()
}

fn secrets(reader: &Reader<'_>, served: &[SocketListener]) -> Vec<Arc<Secret>> {
    let certificates = served.iter().flat_map(|listener| provided(reader, listener));
    let held = certificates.filter_map(Provided::held);
    let certificates = held.map(|secret| (secret.name.clone(), Arc::clone(secret)));
    let trusted = served.iter().filter_map(|l| l.clients.as_ref());
    let authorities = trusted.filter_map(|trust| trust.authorities.as_ref());
    let authorities = authorities.map(|secret| (secret.name.clone(), Arc::clone(secret)));
    let used = served.iter().flat_map(|l| reader.filters(l.id));
    let of_filters = used.flat_map(|key| filters::secrets(reader, key));
    let of_filters = of_filters.map(|secret| (secret.name.clone(), secret));
    let secrets = certificates.chain(authorities).chain(of_filters);
    secrets.collect::<BTreeMap<_, _>>().into_values().collect()
}
