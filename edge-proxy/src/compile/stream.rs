//! TCP proxy → [`TcpProxy`], UDP proxy → [`UdpProxy`].

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::UdpSocketConfig;
use envoy_types::pb::envoy::config::listener::v3::UdpListenerConfig;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy as ProtoTcp;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::{
    ClusterSpecifier, TcpAccessLogOptions, WeightedCluster,
};
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::UdpProxyConfig;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::hash_policy::PolicySpecifier as FlowHashSource;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::{
    HashPolicy as FlowHash, RouteSpecifier,
};
use envoy_types::pb::envoy::r#type::v3::HashPolicy as ConnectionHash;
use envoy_types::pb::envoy::r#type::v3::hash_policy::PolicySpecifier as ConnectionHashSource;

use crate::compile::field::{At, Rejection, deadline, fields, number};
use crate::compile::{Context, access_log};
use crate::config::ClusterId;
use crate::config::stream::{ClusterShares, FlowRoute, Hashed, TcpProxy, UdpProxy};

mod flow;
pub(super) mod sni;
#[cfg(test)]
mod tests;

/// Envoy's default for connections that stand still.
const TCP_IDLE: Duration = Duration::from_secs(3600);
/// Envoy's default for sessions that stand still.
const UDP_IDLE: Duration = Duration::from_secs(60);
/// The largest payload that a UDP length field allows. Envoy's default is 1500 to save memory per socket; one buffer
/// serves all sessions here, so there is no reason to drop more than the configuration asks for.
const LARGEST_DATAGRAM: usize = 65_535;

/// Compiles a TCP proxy; the port is that of server names, where these are resolved.
pub(super) fn tcp(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoTcp,
    named_at: Option<u16>,
) -> Result<TcpProxy, Rejection> {
    fields!(at, message => ProtoTcp {
        stat_prefix, idle_timeout, max_connect_attempts, max_downstream_connection_duration, cluster_specifier,
        access_log, access_log_options, hash_policy;
        // Streams are never told to end early, as in Envoy by default.
        ignore check_drain_close;
        refuse access_log_flush_interval, flush_access_log_on_connected, on_demand, metadata_match, downstream_idle_timeout, upstream_idle_timeout, backoff_options,
               tunneling_config, max_downstream_connection_duration_jitter_percentage, proxy_protocol_tlvs,
               proxy_protocol_tlv_merge_policy, upstream_connect_mode, max_early_data_bytes
    });
    if let Some(message) = access_log_options {
        let at = at.field("access_log_options");
        fields!(at, message => TcpAccessLogOptions {
            ; ignore; refuse access_log_flush_interval, flush_access_log_on_connected, flush_access_log_on_start
        });
    }
    Ok(TcpProxy {
        shares: shares(context, at, cluster_specifier.as_ref())?,
        idle_timeout: deadline(&at.field("idle_timeout"), idle_timeout.as_ref(), Some(TCP_IDLE))?,
        max_duration: deadline(
            &at.field("max_downstream_connection_duration"),
            max_downstream_connection_duration.as_ref(),
            None,
        )?,
        max_connect_attempts: number(max_connect_attempts.as_ref()).unwrap_or(1).max(1),
        hashed: of_connections(&at.field("hash_policy"), hash_policy)?,
        named_at,
        access_logs: access_log::access_logs(context, &at.field("access_log"), access_log),
        stats: context.scopes.tcp(stat_prefix),
    })
}

/// The one policy of a list, if it has any: Envoy takes one.
fn one_of<'l, 'a, P>(at: &'a At<'_>, list: &'l [P]) -> Result<Option<(At<'a>, &'l P)>, Rejection> {
    match list {
        [] => Ok(None),
        [policy] => Ok(Some((at.index(0), policy))),
        [_, _, ..] => Err(at.error("must be one policy")),
    }
}

/// What of a connection is hashed.
fn of_connections(at: &At<'_>, list: &[ConnectionHash]) -> Result<Hashed, Rejection> {
    let Some((at, policy)) = one_of(at, list)? else {
        return Ok(Hashed::Nothing);
    };
    match &policy.policy_specifier {
        Some(ConnectionHashSource::SourceIp(_)) => Ok(Hashed::Address),
        Some(ConnectionHashSource::FilterState(_)) => Err(at.unsupported("filter_state")),
        None => Err(at.error("a policy is required")),
    }
}

/// What of a flow of datagrams is hashed.
fn of_datagrams(at: &At<'_>, list: &[FlowHash]) -> Result<Hashed, Rejection> {
    let Some((at, policy)) = one_of(at, list)? else {
        return Ok(Hashed::Nothing);
    };
    match &policy.policy_specifier {
        Some(FlowHashSource::SourceIp(true)) => Ok(Hashed::Address),
        Some(FlowHashSource::SourceIp(false)) => Err(at.field("source_ip").error("must be true")),
        Some(FlowHashSource::Key(_)) => Err(at.unsupported("key")),
        None => Err(at.error("a policy is required")),
    }
}

fn shares(
    context: &mut Context,
    at: &At<'_>,
    specifier: Option<&ClusterSpecifier>,
) -> Result<ClusterShares, Rejection> {
    let WeightedCluster { clusters } = match specifier {
        Some(ClusterSpecifier::Cluster(name)) => {
            return Ok(ClusterShares::single(ClusterId(context.clusters.intern(name))));
        }
        Some(ClusterSpecifier::WeightedClusters(weighted)) => weighted,
        None => return Err(at.field("cluster").error("is required")),
    };
    let at = at.field("weighted_clusters");
    let list = at.field("clusters");
    let mut shares = Vec::with_capacity(clusters.len());
    for (index, message) in clusters.iter().enumerate() {
        let at = list.index(index);
        fields!(at, message => ClusterWeight { name, weight; ignore; refuse metadata_match });
        if *weight == 0 {
            return Err(at.field("weight").error("must be at least 1"));
        }
        shares.push((ClusterId(context.clusters.intern(name)), *weight));
    }
    ClusterShares::weighted(shares).ok_or_else(|| list.error("at least one cluster is required"))
}

/// Compiles a UDP proxy and the socket settings that belong to it.
pub(super) fn udp(
    context: &mut Context,
    at: &At<'_>,
    message: &UdpProxyConfig,
    max_downstream_datagram: usize,
) -> Result<UdpProxy, Rejection> {
    fields!(at, message => UdpProxyConfig {
        stat_prefix, idle_timeout, upstream_socket_config, route_specifier, access_log, hash_policies;
        // Told in the log of this proxy, if there are any.
        ignore proxy_access_log;
        refuse access_log_options, use_original_src_ip, use_per_packet_load_balancing, session_filters, tunneling_config
    });
    if !message.proxy_access_log.is_empty() {
        let reason = at.unsupported("proxy_access_log");
        tracing::warn!(%reason, "an access log is left out");
    }
    let max_upstream_datagram = max_datagram(&at.field("upstream_socket_config"), upstream_socket_config.as_ref())?;
    Ok(UdpProxy {
        route: route(context, at, route_specifier.as_ref())?,
        idle_timeout: deadline(&at.field("idle_timeout"), idle_timeout.as_ref(), Some(UDP_IDLE))?,
        max_downstream_datagram,
        max_upstream_datagram,
        hashed: of_datagrams(&at.field("hash_policies"), hash_policies)?,
        access_logs: access_log::access_logs(context, &at.field("access_log"), access_log),
        stats: context.scopes.udp(stat_prefix),
    })
}

fn route(context: &mut Context, at: &At<'_>, specifier: Option<&RouteSpecifier>) -> Result<FlowRoute, Rejection> {
    match specifier {
        Some(RouteSpecifier::Matcher(message)) => flow::route(context, &at.field("matcher"), message),
        #[allow(deprecated)]
        Some(RouteSpecifier::Cluster(name)) => Ok(FlowRoute::always(ClusterId(context.clusters.intern(name)))),
        None => Err(at.field("matcher").error("is required")),
    }
}

/// The size of datagrams that a UDP listener takes.
pub(super) fn udp_listener(at: &At<'_>, message: &UdpListenerConfig) -> Result<usize, Rejection> {
    fields!(at, message => UdpListenerConfig {
        downstream_socket_config; ignore; refuse quic_options, udp_packet_packet_writer_config
    });
    max_datagram(&at.field("downstream_socket_config"), downstream_socket_config.as_ref())
}

fn max_datagram(at: &At<'_>, message: Option<&UdpSocketConfig>) -> Result<usize, Rejection> {
    let Some(message) = message else {
        return Ok(LARGEST_DATAGRAM);
    };
    fields!(at, message => UdpSocketConfig {
        max_rx_datagram_size;
        // Only speed.
        ignore prefer_gro;
        refuse
    });
    match max_rx_datagram_size {
        None => Ok(LARGEST_DATAGRAM),
        Some(size) if size.value == 0 => Err(at.field("max_rx_datagram_size").error("must be at least 1")),
        Some(size) => Ok(usize::try_from(size.value)
            .unwrap_or(LARGEST_DATAGRAM)
            .min(LARGEST_DATAGRAM)),
    }
}
