//! Streams and datagrams: bytes handed on as they are.

use edge_ir::{StreamProxy, StreamShare};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                core::v3::UdpSocketConfig,
                listener::v3::{Filter, ListenerFilter, UdpListenerConfig, filter, listener_filter},
            },
            extensions::filters::{
                network::tcp_proxy::v3::{
                    TcpProxy,
                    tcp_proxy::{ClusterSpecifier, WeightedCluster, weighted_cluster::ClusterWeight},
                },
                udp::udp_proxy::v3::{Route, UdpProxyConfig, udp_proxy_config::RouteSpecifier},
            },
        },
        xds::core::v3::TypedExtensionConfig,
        xds::r#type::matcher::v3::{
            Matcher,
            matcher::{OnMatch, on_match},
        },
    },
    util::pack_any,
};

/// A cluster that is never defined: connections to it are closed.
const NOBODY: &str = "EmptyCluster";
/// Where the share of unresolved backends goes, as for HTTP.
const INVALID: &str = "invalid-backend-cluster";

/// The network filter that hands a connection on.
pub(super) fn tcp(stream: &StreamProxy) -> Filter {
    let proxy = TcpProxy {
        stat_prefix: stream.stat_prefix.to_string(),
        cluster_specifier: Some(cluster_specifier(stream)),
        ..Default::default()
    };
    Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(proxy))),
    }
}

fn cluster_specifier(stream: &StreamProxy) -> ClusterSpecifier {
    let weight = |name: &str, weight| ClusterWeight {
        name: name.to_owned(),
        weight,
        ..Default::default()
    };
    match (stream.shares.as_slice(), stream.invalid_weight) {
        ([], _) => ClusterSpecifier::Cluster(NOBODY.to_owned()),
        ([StreamShare { cluster, .. }], 0) => ClusterSpecifier::Cluster(cluster.to_string()),
        (shares, invalid) => {
            let mut clusters: Vec<_> = shares.iter().map(|s| weight(&s.cluster, s.weight)).collect();
            if invalid > 0 {
                clusters.push(weight(INVALID, invalid));
            }
            ClusterSpecifier::WeightedClusters(WeightedCluster { clusters })
        }
    }
}

/// The listener filter that hands datagrams on. It has one destination; several are refused before they get here.
pub(super) fn udp(stream: &StreamProxy) -> ListenerFilter {
    let cluster = stream.shares.first().map_or(NOBODY, |share| &*share.cluster).to_owned();
    let action = TypedExtensionConfig {
        name: "route".to_owned(),
        typed_config: Some(pack_any(Route { cluster })),
    };
    let proxy = UdpProxyConfig {
        stat_prefix: stream.stat_prefix.to_string(),
        route_specifier: Some(RouteSpecifier::Matcher(Matcher {
            on_no_match: Some(Box::new(OnMatch {
                on_match: Some(on_match::OnMatch::Action(action)),
                ..Default::default()
            })),
            ..Default::default()
        })),
        ..Default::default()
    };
    ListenerFilter {
        name: "envoy.filters.udp_listener.udp_proxy".to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(pack_any(proxy))),
        ..Default::default()
    }
}

/// What a UDP listener must have to be one.
pub(super) fn udp_config() -> UdpListenerConfig {
    UdpListenerConfig {
        downstream_socket_config: Some(UdpSocketConfig::default()),
        ..Default::default()
    }
}
