//! Streams: connections handed on as they are.

use super::{
    access,
    access_log::{self, LogPoint},
    common::duration,
    filter::dns_cache,
};
use edge_ir::{FleetSettings, NamedAt, StreamProxy, StreamShare, Timeout};
use envoy_types::{
    pb::envoy::{
        config::listener::v3::{Filter, filter},
        extensions::filters::network::{
            sni_dynamic_forward_proxy::v3::{FilterConfig as NamedHost, filter_config::PortSpecifier},
            tcp_proxy::v3::{
                TcpProxy,
                tcp_proxy::{ClusterSpecifier, WeightedCluster, weighted_cluster::ClusterWeight},
            },
        },
        r#type::v3::{
            HashPolicy,
            hash_policy::{PolicySpecifier, SourceIp},
        },
    },
    util::pack_any,
};

/// A cluster that is never defined: connections to it are closed.
pub(super) const NOBODY: &str = "EmptyCluster";
/// Where the share of unresolved backends goes, as for HTTP.
pub(super) const INVALID: &str = "invalid-backend-cluster";

/// The network filters that hand a connection on, if it may come, for as long as it isn't silent too long.
pub(super) fn tcp(stream: &StreamProxy, idle: Option<Timeout>, settings: &FleetSettings) -> Vec<Filter> {
    let access = stream.access.as_deref().map(|rules| Filter {
        name: "envoy.filters.network.rbac".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(access::of_connections(
            rules,
            &stream.stat_prefix,
        )))),
    });
    let named = stream.named_at.map(named_host);
    let rest = [proxy(stream, idle, settings)];
    access.into_iter().chain(named).chain(rest).collect()
}

/// The network filters that close a connection, and write it down as one of this stream's.
pub(super) fn nobody(stream: &StreamProxy, settings: &FleetSettings) -> Vec<Filter> {
    let closed = StreamProxy {
        shares: Vec::new(),
        ..stream.clone()
    };
    vec![proxy(&closed, None, settings)]
}

/// Resolves the server name of a connection. The cluster has the same cache.
fn named_host(named: NamedAt) -> Filter {
    let named = NamedHost {
        dns_cache_config: Some(dns_cache(named.hosts)),
        port_specifier: Some(PortSpecifier::PortValue(named.port.into())),
        ..Default::default()
    };
    Filter {
        name: "envoy.filters.network.sni_dynamic_forward_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(named))),
    }
}

fn proxy(stream: &StreamProxy, idle: Option<Timeout>, settings: &FleetSettings) -> Filter {
    let proxy = TcpProxy {
        stat_prefix: stream.stat_prefix.to_string(),
        idle_timeout: idle.map(duration),
        access_log: access_log::at(LogPoint::Requests, &settings.access_log),
        cluster_specifier: Some(cluster_specifier(stream)),
        hash_policy: stream.hashes_source.then(source_ip).into_iter().collect(),
        ..Default::default()
    };
    Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(filter::ConfigType::TypedConfig(pack_any(proxy))),
    }
}

fn source_ip() -> HashPolicy {
    HashPolicy {
        policy_specifier: Some(PolicySpecifier::SourceIp(SourceIp {})),
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
