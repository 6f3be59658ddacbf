//! Listener → [`Listener`], in two steps: [`ListenerSpec`] is everything that the message alone decides (so a bad one
//! is rejected when it arrives), and [`ListenerSpec::finish`] adds the secrets once they are there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::Address as ProtoAddress;
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType as ListenerFilterConfig;
use envoy_types::pb::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain as ProtoChain, Listener as ProtoListener,
    ListenerFilter as ProtoListenerFilter, UdpListenerConfig,
};
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3::ProxyProtocol as ProtoProxyProtocol;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::network::connection_limit::v3::ConnectionLimit as ProtoConnectionLimit;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use envoy_types::pb::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3::FilterConfig as NamedHost;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::UdpProxyConfig;
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

use crate::compile::Context;
use crate::compile::access::{self, About};
use crate::compile::connection_limit::connection_limit;
use crate::compile::credential::CredentialUse;
use crate::compile::field::{At, Rejection, deadline, fields, is, number, truth, type_name, unpack};
use crate::compile::secret::{SecretKey, Secrets};
use crate::compile::tls::{self, DownstreamTlsSpec};
use crate::compile::{access_log, http, proxy_protocol, socket_options, stream};
use crate::config::ClusterId;
use crate::config::access::AccessRules;
use crate::config::access_log::AccessLogs;
use crate::config::connection_limit::ConnectionLimit;
use crate::config::http_manager::{HttpManager, RouteSource};
use crate::config::listener::{
    DualStack, FilterChain, ListenAddress, Listener, Network, ProxyProtocol, SocketProtocol, log_clusters,
};
use crate::config::socket::SocketOptions;
use crate::config::stream::UdpProxy;
use crate::config::timeouts::UNTIL_SERVED;
use crate::stats::ListenerStats;

mod matching;

use matching::Taken;

/// A listener without its secrets.
#[derive(Debug)]
pub struct ListenerSpec {
    /// The resource's name.
    pub name: Arc<str>,
    /// Where it listens.
    pub addresses: Vec<ListenAddress>,
    chains: Vec<ChainSpec>,
    udp: Option<Arc<UdpProxy>>,
    proxy_protocol: Option<ProxyProtocol>,
    unmatched_logs: Option<Arc<AccessLogs>>,
    inspects_tls: bool,
    per_connection_buffer_limit: usize,
    inspection_timeout: Duration,
    bypass_overload: bool,
    stats: Arc<ListenerStats>,
}

#[derive(Debug)]
struct ChainSpec {
    name: Arc<str>,
    taken: Taken,
    tls: Option<DownstreamTlsSpec>,
    handshake_timeout: Duration,
    network: Network,
    guards: Arc<[AccessRules]>,
    limits: Arc<[ConnectionLimit]>,
    credentials: Vec<CredentialUse>,
    fingerprint: u64,
    transport: u64,
    is_default: bool,
}

/// Compiles a listener.
pub fn listener(context: &mut Context, message: &ProtoListener) -> Result<ListenerSpec, Rejection> {
    let at = &At::root();
    fields!(at, message => ProtoListener {
        name, address, additional_addresses, filter_chains, default_filter_chain, per_connection_buffer_limit_bytes,
        listener_filters, listener_filters_timeout, bind_to_port, bypass_overload_manager, use_original_dst,
        stat_prefix, ignore_global_conn_limit, udp_listener_config, socket_options, access_log;
        // Socket tuning, observation, and drain_type: every listener here drains on removal and on failed health.
        ignore stats_matcher, per_connection_buffer_high_watermark_timeout, metadata, drain_type,
               continue_on_listener_filters_timeout, tcp_fast_open_queue_length, traffic_direction,
               connection_balance_config, reuse_port, enable_reuse_port, tcp_backlog_size,
               max_connections_to_accept_per_socket_event, enable_mptcp;
        refuse tcp_keepalive, fcds_config, filter_chain_matcher, deprecated_v1, transparent, freebind, api_listener,
               listener_specifier
    });
    if truth(use_original_dst.as_ref()) {
        return Err(at.unsupported("use_original_dst"));
    }
    if bind_to_port.as_ref().is_some_and(|bind| !bind.value) {
        return Err(at.unsupported("bind_to_port"));
    }
    let socket = socket_options::read(&at.field("socket_options"), socket_options)?;
    let addresses = addresses(at, address.as_ref(), additional_addresses, socket)?;
    let serves = match addresses[0].protocol {
        SocketProtocol::Tcp if udp_listener_config.is_some() => return Err(at.unsupported("udp_listener_config")),
        SocketProtocol::Tcp => connections(
            context,
            at,
            filter_chains,
            default_filter_chain.as_ref(),
            listener_filters,
        )?,
        SocketProtocol::Udp
            if udp_listener_config
                .as_ref()
                .is_some_and(|udp| udp.quic_options.is_some()) =>
        {
            return Err(at.field("udp_listener_config").unsupported("quic_options"));
        }
        SocketProtocol::Udp if !filter_chains.is_empty() => return Err(at.unsupported("filter_chains")),
        SocketProtocol::Udp if default_filter_chain.is_some() => return Err(at.unsupported("default_filter_chain")),
        SocketProtocol::Udp => datagrams(context, at, udp_listener_config.as_ref(), listener_filters)?,
    };
    let main = addresses[0].address.to_string();
    let named = |name: &String, otherwise: String| if name.is_empty() { otherwise } else { name.clone() };
    let label = named(stat_prefix, main.replace(':', "_"));
    let spec = ListenerSpec {
        name: named(name, main).into(),
        addresses,
        chains: serves.chains,
        udp: serves.udp,
        proxy_protocol: serves.proxy_protocol,
        unmatched_logs: access_log::unmatched(context, &at.field("access_log"), access_log),
        inspects_tls: serves.inspects_tls,
        per_connection_buffer_limit: number(per_connection_buffer_limit_bytes.as_ref()).unwrap_or(1 << 20) as usize,
        inspection_timeout: deadline(
            &at.field("listener_filters_timeout"),
            listener_filters_timeout.as_ref(),
            Some(UNTIL_SERVED),
        )?
        .unwrap_or(Duration::from_secs(60)),
        bypass_overload: *bypass_overload_manager || *ignore_global_conn_limit,
        stats: context.scopes.listener(&label),
    };
    matching::index(&spec.chains, |_| Ok(Arc::new(())), at)?;
    Ok(spec)
}

/// What a listener does with what arrives.
#[derive(Debug, Default)]
struct Serves {
    chains: Vec<ChainSpec>,
    udp: Option<Arc<UdpProxy>>,
    proxy_protocol: Option<ProxyProtocol>,
    inspects_tls: bool,
}

fn connections(
    context: &mut Context,
    at: &At<'_>,
    filter_chains: &[ProtoChain],
    default: Option<&ProtoChain>,
    listener_filters: &[ProtoListenerFilter],
) -> Result<Serves, Rejection> {
    let before = listener_filters_of(&at.field("listener_filters"), listener_filters)?;
    let mut chains = Vec::with_capacity(filter_chains.len() + 1);
    let list = at.field("filter_chains");
    for (index, message) in filter_chains.iter().enumerate() {
        chains.push(chain(context, &list.index(index), message, false)?);
    }
    if let Some(message) = default {
        chains.push(chain(context, &at.field("default_filter_chain"), message, true)?);
    }
    if chains.is_empty() {
        return Err(list.error("at least one filter chain is required"));
    }
    for chain in &mut chains {
        // A connection that could say whom it is for isn't served on where it must.
        chain.fingerprint ^= before.fingerprint;
        chain.transport ^= before.fingerprint;
    }
    let needs_name = chains.iter().any(|chain| chain.taken.only_tls);
    Ok(Serves {
        chains,
        proxy_protocol: before.proxy_protocol,
        inspects_tls: before.inspects_tls || needs_name,
        udp: None,
    })
}

fn datagrams(
    context: &mut Context,
    at: &At<'_>,
    socket: Option<&UdpListenerConfig>,
    listener_filters: &[ProtoListenerFilter],
) -> Result<Serves, Rejection> {
    let max_datagram = stream::udp_listener(&at.field("udp_listener_config"), &socket.cloned().unwrap_or_default())?;
    let at = at.field("listener_filters");
    let [filter] = listener_filters else {
        return Err(at.error("exactly one filter of datagrams, the UDP proxy, is supported"));
    };
    let at = at.index(0);
    if filter.filter_disabled.is_some() {
        return Err(at.unsupported("filter_disabled"));
    }
    let Some(ListenerFilterConfig::TypedConfig(config)) = &filter.config_type else {
        return Err(at.error(format!("filter {:?} needs typed_config", filter.name)));
    };
    let at = at.field("typed_config");
    let message: UdpProxyConfig = unpack(&at, config)?;
    let proxy = stream::udp(context, &at, &message, max_datagram)?;
    Ok(Serves {
        udp: Some(Arc::new(proxy)),
        ..Serves::default()
    })
}

/// The main address and the others, all of one protocol.
fn addresses(
    at: &At<'_>,
    main: Option<&ProtoAddress>,
    additional: &[AdditionalAddress],
    socket: SocketOptions,
) -> Result<Vec<ListenAddress>, Rejection> {
    let main = listen_address(&at.field("address"), main)?;
    let mut addresses = vec![ListenAddress { socket, ..main }];
    let list = at.field("additional_addresses");
    for (index, message) in additional.iter().enumerate() {
        let at = list.index(index);
        let address = listen_address(&at.field("address"), message.address.as_ref())?;
        if address.protocol != main.protocol {
            return Err(at.field("address").error("has another protocol than the main address"));
        }
        let own = message.socket_options.as_ref();
        let own = own
            .map(|own| socket_options::read(&at.field("socket_options").field("socket_options"), &own.socket_options));
        let socket = own.transpose()?.unwrap_or(socket);
        addresses.push(ListenAddress { socket, ..address });
    }
    Ok(addresses)
}

fn listen_address(at: &At<'_>, message: Option<&ProtoAddress>) -> Result<ListenAddress, Rejection> {
    match message.and_then(|message| message.address.as_ref()) {
        Some(Address::SocketAddress(message)) => {
            let at = at.field("socket_address");
            let protocol = match Protocol::try_from(message.protocol) {
                Ok(Protocol::Tcp) => SocketProtocol::Tcp,
                Ok(Protocol::Udp) => SocketProtocol::Udp,
                Err(_) => return Err(at.unsupported("protocol")),
            };
            let Some(PortSpecifier::PortValue(port)) = message.port_specifier else {
                return Err(at.field("port_value").error("is required"));
            };
            let port = u16::try_from(port).map_err(|_| at.field("port_value").error("is not a port"))?;
            let ip = message.address.parse().map_err(|_| {
                at.field("address")
                    .error(format!("{:?} is not an IP address", message.address))
            })?;
            let family = if message.ipv4_compat {
                DualStack::Mapped
            } else {
                DualStack::Single
            };
            Ok(ListenAddress {
                address: SocketAddr::new(ip, port),
                family,
                protocol,
                socket: SocketOptions::default(),
            })
        }
        Some(Address::Pipe(_)) => Err(at.unsupported("pipe")),
        Some(Address::EnvoyInternalAddress(_)) => Err(at.unsupported("envoy_internal_address")),
        None => Err(at.error("is required")),
    }
}

/// What is looked at before a connection has a chain.
#[derive(Debug, Default)]
struct ListenerFilters {
    inspects_tls: bool,
    proxy_protocol: Option<ProxyProtocol>,
    /// Hash of what decides whom a connection is for.
    fingerprint: u64,
}

fn listener_filters_of(at: &At<'_>, list: &[ProtoListenerFilter]) -> Result<ListenerFilters, Rejection> {
    let mut filters = ListenerFilters::default();
    for (index, filter) in list.iter().enumerate() {
        let at = at.index(index);
        if filter.filter_disabled.is_some() {
            return Err(at.unsupported("filter_disabled"));
        }
        match &filter.config_type {
            Some(ListenerFilterConfig::TypedConfig(config)) if is::<TlsInspector>(config) => {
                filters.inspects_tls = true;
            }
            Some(ListenerFilterConfig::TypedConfig(config)) if is::<ProtoProxyProtocol>(config) => {
                filters.proxy_protocol = Some(proxy_protocol::listener(&at.field("typed_config"), config)?);
                filters.fingerprint = xxh3_64(&config.value);
                // Of an empty message too.
                filters.fingerprint |= 1;
            }
            Some(ListenerFilterConfig::TypedConfig(config)) => {
                return Err(at.field("typed_config").error(format!(
                    "filter {:?} ({}) is not supported by this proxy",
                    filter.name,
                    type_name(config)
                )));
            }
            None if filter.name == "envoy.filters.listener.tls_inspector" => filters.inspects_tls = true,
            _ => return Err(at.error(format!("filter {:?} is not supported by this proxy", filter.name))),
        }
    }
    Ok(filters)
}

fn chain(context: &mut Context, at: &At<'_>, message: &ProtoChain, is_default: bool) -> Result<ChainSpec, Rejection> {
    fields!(at, message => ProtoChain {
        filter_chain_match, filters, transport_socket, use_proxy_proto, name, transport_socket_connect_timeout;
        ignore metadata;
        refuse
    });
    let at_timeout = at.field("transport_socket_connect_timeout");
    let timeout = deadline(&at_timeout, transport_socket_connect_timeout.as_ref(), None)?;
    if truth(use_proxy_proto.as_ref()) {
        return Err(at.unsupported("use_proxy_proto"));
    }
    let taken = match filter_chain_match {
        None => Taken::default(),
        Some(message) => matching::taken(&at.field("filter_chain_match"), message)?,
    };
    let at_filters = at.field("filters");
    let Some((last, before)) = filters.split_last() else {
        return Err(at_filters.error("an HTTP connection manager or a TCP proxy is required"));
    };
    let (mut guards, mut limits, mut named_at) = (Vec::new(), Vec::new(), None);
    // A connection that was let in by other rules isn't served on as if it had been by these.
    let mut transport = transport_socket
        .as_ref()
        .map_or(0, |socket| xxh3_64(&socket.encode_to_vec()));
    for (index, filter) in before.iter().enumerate() {
        let at = at_filters.index(index);
        match filter.config_type.as_ref() {
            Some(ConfigType::TypedConfig(config)) if is::<ProtoConnectionLimit>(config) => {
                limits.extend(connection_limit(&at.field("typed_config"), config)?);
            }
            Some(ConfigType::TypedConfig(config)) if is::<NamedHost>(config) => {
                named_at = Some(stream::sni::port(&at.field("typed_config"), config)?);
            }
            _ => {
                guards.extend(guard(&at, filter)?);
                transport = transport.rotate_left(7) ^ xxh3_64(&filter.encode_to_vec());
            }
        }
    }
    context.credentials.clear();
    let network = network(context, &at_filters.index(before.len()), last, named_at)?;
    let credentials = std::mem::take(&mut context.credentials);
    let tls = match transport_socket {
        None => None,
        Some(socket) => tls::downstream(context, &at.field("transport_socket"), socket)?,
    };
    let network = match network {
        Network::Tcp(proxy) if tls.is_none() && taken.only_tls => Network::Passthrough(proxy),
        other => other,
    };
    Ok(ChainSpec {
        name: name.as_str().into(),
        taken,
        tls,
        handshake_timeout: timeout.unwrap_or(UNTIL_SERVED),
        network,
        fingerprint: xxh3_64(&message.encode_to_vec()),
        transport,
        credentials,
        guards: guards.into(),
        limits: limits.into(),
        is_default,
    })
}

/// Rules over who may connect, if the filter has any.
fn guard(at: &At<'_>, filter: &Filter) -> Result<Option<AccessRules>, Rejection> {
    let at_config = at.field("typed_config");
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
        return Err(at.error(format!("network filter {:?} needs typed_config", filter.name)));
    };
    if !is::<NetworkRbac>(config) {
        return Err(at.error(format!(
            "network filter {:?} ({}) is not supported by this proxy",
            filter.name,
            type_name(config)
        )));
    }
    let message: NetworkRbac = unpack(&at_config, config)?;
    fields!(at_config, &message => NetworkRbac {
        rules;
        // Shadow rules and prefixes are for statistics alone; what rules see of a connection never changes, so it is
        // the same whether they are asked once or for every byte.
        ignore shadow_rules, shadow_matcher, shadow_rules_stat_prefix, stat_prefix, enforcement_type;
        refuse matcher, delay_deny
    });
    let rules = rules.as_ref();
    rules
        .map(|message| access::rules(&at_config.field("rules"), message, About::Connections))
        .transpose()
}

fn network(context: &mut Context, at: &At<'_>, filter: &Filter, named_at: Option<u16>) -> Result<Network, Rejection> {
    let at_config = at.field("typed_config");
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
        return Err(at.error(format!("filter {:?} needs typed_config", filter.name)));
    };
    if is::<TcpProxy>(config) {
        let proxy = stream::tcp(context, &at_config, &unpack(&at_config, config)?, named_at)?;
        return Ok(Network::Tcp(Arc::new(proxy)));
    }
    if named_at.is_some() {
        return Err(at.error("server names are resolved for a TCP proxy alone"));
    }
    let manager: HttpConnectionManager = unpack(&at_config, config)?;
    http::manager(context, &at_config, &manager).map(|manager| Network::Http(Arc::new(manager)))
}

impl ListenerSpec {
    /// The route tables that must be there before the listener serves.
    pub fn route_tables(&self) -> impl Iterator<Item = &Arc<str>> {
        self.managers().filter_map(|manager| match &manager.routes {
            RouteSource::Dynamic { name, .. } => Some(name),
            RouteSource::Inline(_) => None,
        })
    }

    /// The secrets that must be there before the listener serves.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        let tls = self.chains.iter().filter_map(|chain| chain.tls.as_ref());
        let credentials = self.chains.iter().flat_map(|chain| &chain.credentials);
        tls.flat_map(DownstreamTlsSpec::secrets)
            .chain(credentials.map(CredentialUse::secret))
    }

    /// The HTTP connection managers of its chains.
    pub fn managers(&self) -> impl Iterator<Item = &Arc<HttpManager>> {
        self.chains.iter().filter_map(|chain| chain.network.http())
    }

    /// The clusters that its streams and datagrams go to, and those that its filters ask; those that requests go to are
    /// in route tables.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let streams = self.chains.iter().filter_map(|chain| match &chain.network {
            Network::Tcp(proxy) | Network::Passthrough(proxy) => Some(proxy.shares.clusters()),
            Network::Http(_) => None,
        });
        let filters = self.managers().flat_map(|manager| manager.filters.clusters());
        let datagrams = self.udp.iter().flat_map(|proxy| proxy.route.clusters());
        let networks = self.chains.iter().map(|chain| &chain.network);
        let logs = log_clusters(networks, self.udp.as_ref(), self.unmatched_logs.as_ref());
        streams.flatten().chain(filters).chain(datagrams).chain(logs)
    }

    /// Adds the secrets. Chains that are the same as in `previous` keep their identity, so that their connections
    /// need not notice.
    pub fn finish(&self, secrets: &Secrets, previous: Option<&Listener>) -> Result<Listener, Rejection> {
        let known = previous.map(|listener| listener.chains.all()).unwrap_or_default();
        let at = At::root();
        let chains = matching::index(
            &self.chains,
            |chain| {
                let (mut fingerprint, mut transport) = (chain.fingerprint, chain.transport);
                let mut settings = chain.fingerprint;
                for key in chain.tls.iter().flat_map(DownstreamTlsSpec::secrets) {
                    let hash = secrets.get(key).map_or(0, |secret| secret.hash);
                    fingerprint = fingerprint.rotate_left(7) ^ hash;
                }
                // A connection that stands has nothing of a renewed certificate; who is let in is another matter.
                for key in chain.tls.iter().filter_map(DownstreamTlsSpec::trusted) {
                    let hash = secrets.get(key).map_or(0, |secret| secret.hash);
                    transport = transport.rotate_left(7) ^ hash;
                    settings = settings.rotate_left(7) ^ hash;
                }
                for credential in &chain.credentials {
                    let hash = secrets.get(credential.secret()).map_or(0, |secret| secret.hash);
                    fingerprint = fingerprint.rotate_left(7) ^ hash;
                }
                if let Some(same) = known.iter().find(|known| known.fingerprint == fingerprint) {
                    return Ok(Arc::clone(same));
                }
                for credential in &chain.credentials {
                    credential.finish(secrets)?;
                }
                let tls = chain.tls.as_ref().map(|spec| spec.finish(&at, secrets)).transpose()?;
                let (name, network) = (chain.name.clone(), chain.network.clone());
                Ok(Arc::new(FilterChain {
                    name,
                    tls,
                    handshake_timeout: chain.handshake_timeout,
                    network,
                    guards: Arc::clone(&chain.guards),
                    limits: Arc::clone(&chain.limits),
                    fingerprint,
                    settings,
                    transport,
                }))
            },
            &at,
        )?;
        Ok(Listener {
            name: self.name.clone(),
            addresses: self.addresses.clone(),
            chains,
            udp: self.udp.clone(),
            proxy_protocol: self.proxy_protocol.clone(),
            unmatched_logs: self.unmatched_logs.clone(),
            inspects_tls: self.inspects_tls,
            per_connection_buffer_limit: self.per_connection_buffer_limit,
            inspection_timeout: self.inspection_timeout,
            bypass_overload: self.bypass_overload,
            stats: self.stats.clone(),
        })
    }
}
