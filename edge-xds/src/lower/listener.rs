//! Listeners and their filter chains.

use super::{
    access::cidr,
    access_log,
    common::{address, duration, extension, number, socket},
    datagram, downstream_tls, manager,
    metadata::put_metadata,
    networks::{Networks, networks},
    quic,
    socket_options::{buffers, keepalive},
    stream,
};
use crate::{
    names::OWN_LISTENERS,
    snapshot::{Body, Entry},
};
use edge_ir::{
    Accepts, AddressRange, Carrier, ConnectionLimit, ConnectionSettings, FilterChain, Fingerprint, FleetSettings,
    Hello, IpFamily, Listener, Network, ProxyHeader, ReadyListener, ServerNames, SocketSettings, TlsVersion,
};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                core::v3::{Address, SocketOption, address::Address as AddressKind, socket_address::Protocol},
                listener::v3::{self as pb, Filter, FilterChainMatch, ListenerFilter, filter, listener_filter},
            },
            extensions::{
                filters::{
                    listener::{proxy_protocol::v3::ProxyProtocol, tls_inspector::v3::TlsInspector},
                    network::{
                        connection_limit::v3::ConnectionLimit as Limiter,
                        http_connection_manager::v3::HttpConnectionManager,
                    },
                },
                transport_sockets::tls::v3::tls_parameters::TlsProtocol,
            },
        },
        google::protobuf::{BoolValue, UInt64Value},
    },
    util::pack_any,
};
use prost::{Message, Name};

/// `Listener.metadata`.
pub(super) const METADATA: u32 = 6;

/// Encodes a listener.
pub(super) fn encode_listener(listener: &Listener, settings: &FleetSettings) -> Entry {
    let own = &listener.socket;
    let (filter_chains, default_filter_chain) = chains(listener, settings);
    let mut message = pb::Listener {
        name: listener.name.to_string(),
        address: Some(any_address(listener.ip_family, listener.port)),
        filter_chains,
        default_filter_chain,
        per_connection_buffer_limit_bytes: number(own.buffer_limit.unwrap_or(SocketSettings::USUAL_BUFFER)),
        // Fairness between worker threads: by default each takes one connection and looks at its others again.
        max_connections_to_accept_per_socket_event: match own.accepts {
            Accepts::UpTo(connections) => number(connections),
            Accepts::All => None,
        },
        socket_options: socket_options(own),
        listener_filters: listener_filters(listener),
        listener_filters_timeout: own.inspection_timeout.map(duration),
        ..Default::default()
    };
    if let Some(udp) = &listener.udp {
        message.listener_filters = vec![datagram::proxy(udp, settings)];
        message.udp_listener_config = Some(datagram::listener_config());
        of_datagrams(&mut message);
    }
    if listener.carrier == Carrier::Quic {
        quic::put(&mut message);
        of_datagrams(&mut message);
    }
    if listener.default_chain.is_none() && listener.udp.is_none() {
        message.access_log = access_log::at(access_log::LogPoint::Unmatched, &settings.access_log);
    }
    let mut out = message.encode_to_vec();
    put_metadata(&mut out, METADATA, &listener.origins);
    Entry::new(
        listener.name.as_str(),
        Body::Whole(out.into()),
        listener.origins.clone(),
    )
}

/// The port is one of UDP.
fn of_datagrams(message: &mut pb::Listener) {
    if let Some(AddressKind::SocketAddress(socket)) = message.address.as_mut().and_then(|a| a.address.as_mut()) {
        socket.protocol = Protocol::Udp.into();
    }
}

/// Encodes the listener that tells whether the proxy is ready.
pub(super) fn encode_ready(ready: &ReadyListener) -> Entry {
    let name = format!("{OWN_LISTENERS}ready-{}-{}", ready.address, ready.port);
    let mut own = socket(&*ready.address, ready.port);
    // A node asks at the pod's first address, whatever family clients come by.
    own.ipv4_compat = &*ready.address == "::";
    let message = pb::Listener {
        name: name.clone(),
        address: Some(address(own)),
        filter_chains: vec![pb::FilterChain {
            filters: vec![http(manager::ready())],
            ..Default::default()
        }],
        // An overloaded proxy must be able to say so.
        bypass_overload_manager: true,
        ..Default::default()
    };
    Entry::new(name, Body::Whole(message.encode_to_vec().into()), [].into())
}

/// All addresses of a family.
pub(crate) fn any_address(family: IpFamily, port: u16) -> Address {
    let mut socket = socket(if family == IpFamily::V4 { "0.0.0.0" } else { "::" }, port);
    socket.ipv4_compat = family == IpFamily::DualStack;
    address(socket)
}

/// What looks at a connection before its chain is chosen: first whose it is, then what it asks for.
fn listener_filters(listener: &Listener) -> Vec<ListenerFilter> {
    let SocketSettings {
        proxy_header,
        fingerprints,
        ..
    } = &listener.socket;
    if listener.carrier == Carrier::Quic {
        // A handshake of QUIC says by itself what it is for, and no proxy puts a header in front of it.
        return Vec::new();
    }
    let header = (*proxy_header != ProxyHeader::Unread).then(|| {
        let reader = ProxyProtocol {
            allow_requests_without_proxy_protocol: *proxy_header == ProxyHeader::Optional,
            ..Default::default()
        };
        inspector("envoy.filters.listener.proxy_protocol", reader)
    });
    let hello = (listener.hello == Hello::Read).then(|| {
        let takes = |print| fingerprints.contains(&print).then_some(BoolValue { value: true });
        let reader = TlsInspector {
            enable_ja3_fingerprinting: takes(Fingerprint::Ja3),
            enable_ja4_fingerprinting: takes(Fingerprint::Ja4),
            ..Default::default()
        };
        inspector("envoy.filters.listener.tls_inspector", reader)
    });
    header.into_iter().chain(hello).collect()
}

fn inspector<M: Message + Name>(name: &str, config: M) -> ListenerFilter {
    let filter = extension(name, config);
    ListenerFilter {
        name: filter.name,
        config_type: filter.typed_config.map(listener_filter::ConfigType::TypedConfig),
        ..Default::default()
    }
}

fn socket_options(socket: &SocketSettings) -> Vec<SocketOption> {
    let buffers = socket.system_buffer.map(buffers).unwrap_or_default();
    let keepalive = socket.keepalive.map(keepalive).unwrap_or_default();
    [keepalive, buffers].concat()
}

/// The chains that something chooses, and the one for the rest.
fn chains(listener: &Listener, settings: &FleetSettings) -> (Vec<pb::FilterChain>, Option<pb::FilterChain>) {
    let of = |chain| by_network(chain, lower_chain(chain, listener.carrier, settings), settings);
    let mut chosen: Vec<_> = listener.chains.iter().flat_map(of).collect();
    let mut default: Vec<_> = listener.default_chain.iter().flat_map(of).collect();
    // A default chain has nothing that it is chosen by.
    if default.len() > 1 {
        chosen.append(&mut default);
    }
    (chosen, default.pop())
}

/// A chain for those whom the rules about its stream let in, and one that closes the connections of the others.
fn by_network(chain: &FilterChain, open: pb::FilterChain, settings: &FleetSettings) -> Vec<pb::FilterChain> {
    let Network::Tcp(proxy) = &chain.network else {
        return vec![open];
    };
    let Some(Networks { allowed, denied }) = proxy.access.as_deref().and_then(networks) else {
        return vec![open];
    };
    let closed = || pb::FilterChain {
        name: format!("{}/denied", chain.name),
        filter_chain_match: server_names(chain),
        filters: stream::nobody(proxy, settings),
        ..Default::default()
    };
    match (allowed.as_slice(), denied.as_slice()) {
        (_, []) => vec![open],
        ([], _) => vec![closed()],
        (allowed, denied) => vec![from(open, allowed), from(closed(), denied)],
    }
}

/// A chain for clients in these networks.
fn from(mut chain: pb::FilterChain, networks: &[AddressRange]) -> pb::FilterChain {
    let chosen = chain.filter_chain_match.get_or_insert_default();
    chosen.source_prefix_ranges = networks.iter().map(cidr).collect();
    chain
}

fn server_names(chain: &FilterChain) -> Option<FilterChainMatch> {
    match &chain.server_names {
        ServerNames::Any => None,
        ServerNames::Only(names) => Some(FilterChainMatch {
            server_names: names.iter().map(|name| name.to_string()).collect(),
            ..Default::default()
        }),
    }
}

fn lower_chain(chain: &FilterChain, carrier: Carrier, settings: &FleetSettings) -> pb::FilterChain {
    let ConnectionSettings {
        limit,
        handshake_timeout,
        idle_timeout,
    } = chain.connections;
    let (stat_prefix, network) = match &chain.network {
        Network::Http(manager) => (
            &manager.stat_prefix,
            vec![http(match carrier {
                Carrier::Tcp => manager::lower_manager(manager, settings),
                Carrier::Quic => quic::manager(manager::lower_manager(manager, settings)),
            })],
        ),
        Network::Tcp(proxy) => (&proxy.stat_prefix, stream::tcp(proxy, idle_timeout, settings)),
    };
    let limiter = limit.map(|limit| limiter(stat_prefix, limit));
    let clients = chain.tls.as_ref().and_then(|tls| tls.clients.as_deref());
    let presence = clients.and_then(|clients| downstream_tls::presence(stat_prefix, clients));
    pb::FilterChain {
        name: chain.name.to_string(),
        filter_chain_match: server_names(chain),
        filters: limiter.into_iter().chain(presence).chain(network).collect(),
        transport_socket: chain.tls.as_ref().map(match carrier {
            Carrier::Tcp => downstream_tls::lower,
            Carrier::Quic => quic::transport_socket,
        }),
        transport_socket_connect_timeout: handshake_timeout.map(duration),
        ..Default::default()
    }
}

/// The network filter that closes what is too much.
fn limiter(stat_prefix: &str, limit: ConnectionLimit) -> Filter {
    let limiter = Limiter {
        stat_prefix: stat_prefix.to_owned(),
        max_connections: Some(UInt64Value {
            value: limit.connections,
        }),
        delay: limit.delay.map(duration),
        ..Default::default()
    };
    Filter {
        name: "envoy.filters.network.connection_limit".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(limiter))),
    }
}

/// The network filter that holds an HTTP connection manager.
pub(crate) fn http(manager: HttpConnectionManager) -> Filter {
    Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(manager))),
    }
}

/// A version of TLS.
pub(super) fn lower_version(version: TlsVersion) -> TlsProtocol {
    match version {
        TlsVersion::V1_0 => TlsProtocol::TlSv10,
        TlsVersion::V1_1 => TlsProtocol::TlSv11,
        TlsVersion::V1_2 => TlsProtocol::TlSv12,
        TlsVersion::V1_3 => TlsProtocol::TlSv13,
    }
}
