//! Clusters.

use super::{
    common::{duration, from_ads, seconds},
    endpoints::{Probed, put_assignment},
    metadata::{SOCKET_NAME, put_metadata},
    upstream_tls,
};
use crate::{
    snapshot::{Body, Entry},
    wire::{put_message, put_str},
};
use bytes::Bytes;
use edge_ir::{
    Cluster, ClusterStats, Discovery, DnsFamily, DnsSettings, EndpointSocket, NamedHosts, ServerNaming, UpstreamTls,
};
use envoy_types::{
    pb::envoy::{
        config::cluster::v3::{
            self as pb, TrackClusterStats,
            cluster::{
                ClusterDiscoveryType, CustomClusterType, DiscoveryType, DnsLookupFamily, EdsClusterConfig, LbPolicy,
                TransportSocketMatch,
            },
        },
        extensions::clusters::{
            common::dns::v3 as dns,
            dns::v3::DnsCluster,
            dynamic_forward_proxy::v3::{self as dynamic, cluster_config::ClusterImplementationSpecifier},
        },
    },
    pb::google::protobuf::{Struct, Value, value::Kind},
    util::pack_any,
};
use prost::Message;
use std::sync::Arc;

mod balancing;
mod health;
mod settings;

/// `Cluster.name`, `.metadata`, `.load_assignment`.
const NAME: u32 = 1;
const METADATA: u32 = 25;
const LOAD_ASSIGNMENT: u32 = 33;

/// Key of the HTTP options among a cluster's protocol options.
pub(crate) const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Encodes clusters. Most differ from the one before in their names alone, and the rest is copied from that.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    last: Option<Arc<Cluster>>,
    /// Fields of the last cluster that depend neither on its names nor on its endpoints.
    settings: Vec<u8>,
    /// Scratch space.
    buffer: Vec<u8>,
}

impl Encoder {
    /// Encodes a cluster.
    pub(super) fn encode(&mut self, cluster: &Arc<Cluster>) -> Entry {
        if !self
            .last
            .as_ref()
            .is_some_and(|last| differ_in_names_alone(last, cluster))
        {
            self.settings = lower_settings(cluster).encode_to_vec();
            self.last = Some(Arc::clone(cluster));
        }
        let out = &mut self.buffer;
        out.clear();
        put_str(out, NAME, &cluster.name);
        out.extend_from_slice(&self.settings);
        put_metadata(out, METADATA, &cluster.origins);
        if let Discovery::Dns(localities) | Discovery::Fixed(localities) = &cluster.discovery {
            let probed = match health::asks_for_itself(cluster) {
                true => Probed::AsNamed,
                false => Probed::AsAsked,
            };
            put_message(out, LOAD_ASSIGNMENT, |out| {
                put_assignment(out, &cluster.name, localities, probed)
            });
        }
        let body = Body::Whole(Bytes::copy_from_slice(out));
        let entry = Entry::new(cluster.name.clone(), body, cluster.origins.clone());
        let warmed_by = match &cluster.discovery {
            Discovery::Endpoints(set) => Some(set.clone().into()),
            Discovery::Dns(_) | Discovery::OfRequest(_) | Discovery::Fixed(_) => None,
        };
        Entry { warmed_by, ..entry }
    }
}

/// Whether all that [`lower_settings`] looks at is the same.
fn differ_in_names_alone(a: &Cluster, b: &Cluster) -> bool {
    let Cluster {
        name: _,
        discovery: _,
        protocol,
        tls,
        sockets,
        load_balancing,
        upstream,
        zones,
        stat_name,
        stats,
        // What a service makes of it comes later.
        custom: _,
        origins: _,
    } = a;
    let is_own = |cluster: &Cluster| matches!(&cluster.discovery, Discovery::Endpoints(set) if **set == *cluster.name);
    is_own(a)
        && is_own(b)
        && !health::asks_for_itself(a)
        && (protocol, tls, sockets) == (&b.protocol, &b.tls, &b.sockets)
        && (load_balancing, zones, stat_name, stats) == (&b.load_balancing, &b.zones, &b.stat_name, &b.stats)
        && (Arc::ptr_eq(upstream, &b.upstream) || *upstream == b.upstream)
}

/// A cluster without its name, its origins and the endpoints that it holds itself.
fn lower_settings(cluster: &Cluster) -> pb::Cluster {
    let mut message = pb::Cluster {
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        // An endpoint that the platform takes away is gone, whatever a health check said last.
        ignore_health_on_host_removal: true,
        alt_stat_name: cluster.stat_name.as_deref().unwrap_or_default().to_owned(),
        load_balancing_policy: Some(balancing::lower(cluster)),
        ..Default::default()
    };
    match &cluster.discovery {
        Discovery::Endpoints(set) => {
            message.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into()));
            let service_name = if **set == *cluster.name {
                String::new()
            } else {
                set.to_string()
            };
            message.eds_cluster_config = Some(EdsClusterConfig {
                eds_config: Some(from_ads()),
                service_name,
            });
        }
        Discovery::Dns(_) => lower_dns(&mut message, cluster.upstream.dns.unwrap_or_default()),
        Discovery::OfRequest(hosts) => lower_of_request(&mut message, *hosts, cluster.tls.as_deref()),
        Discovery::Fixed(_) => {
            message.cluster_discovery_type = Some(ClusterDiscoveryType::Type(DiscoveryType::Static.into()));
        }
    }
    message.transport_socket = cluster.tls.as_deref().map(upstream_tls::lower);
    message.transport_socket_matches = cluster.sockets.iter().map(transport_socket).collect();
    settings::put(&mut message, cluster);
    message.track_cluster_stats = (cluster.stats != ClusterStats::default()).then_some(TrackClusterStats {
        timeout_budgets: false,
        request_response_sizes: cluster.stats.sizes,
        per_endpoint_stats: cluster.stats.endpoints,
    });
    let http = settings::http_options(cluster).map(|options| (HTTP_OPTIONS.to_owned(), pack_any(options)));
    message.typed_extension_protocol_options = http.into_iter().collect();
    message
}

/// How the endpoints that name it are spoken to.
fn transport_socket(socket: &EndpointSocket) -> TransportSocketMatch {
    let name = Value {
        kind: Some(Kind::StringValue(socket.name.to_string())),
    };
    TransportSocketMatch {
        name: socket.name.to_string(),
        r#match: Some(Struct {
            fields: [(SOCKET_NAME.to_owned(), name)].into_iter().collect(),
        }),
        transport_socket: Some(socket.tls.as_ref().map_or_else(settings::clear, upstream_tls::lower)),
    }
}

/// Endpoints are what the host of each request resolves to. The filter on the chain has the same cache.
fn lower_of_request(message: &mut pb::Cluster, hosts: NamedHosts, tls: Option<&UpstreamTls>) {
    let config = dynamic::ClusterConfig {
        // A proxy wants to be told that a name other than the one resolved is asked for, or that none is verified; in
        // clear too, where the cluster says anything else of HTTP.
        allow_insecure_cluster_options: tls
            .is_none_or(|tls| tls.naming != ServerNaming::OfRequest || tls.authorities.is_none()),
        cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(
            super::filter::dns_cache(hosts),
        )),
        ..Default::default()
    };
    message.cluster_discovery_type = Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
        name: "envoy.clusters.dynamic_forward_proxy".to_owned(),
        typed_config: Some(pack_any(config)),
    }));
    message.lb_policy = LbPolicy::ClusterProvided.into();
    message.load_balancing_policy = None;
}

fn lower_dns(message: &mut pb::Cluster, settings: DnsSettings) {
    let family = match settings.family {
        DnsFamily::V4Preferred => dns::DnsLookupFamily::V4Preferred,
        DnsFamily::V4 => dns::DnsLookupFamily::V4Only,
        DnsFamily::V6 => dns::DnsLookupFamily::V6Only,
        // The proxy's word for it: IPv6 is tried first.
        DnsFamily::V6Preferred => dns::DnsLookupFamily::Auto,
        DnsFamily::All => dns::DnsLookupFamily::All,
    };
    let config = DnsCluster {
        dns_refresh_rate: Some(settings.refresh.map_or(seconds(30), duration)),
        respect_dns_ttl: settings.respect_ttl.unwrap_or(true),
        dns_lookup_family: family.into(),
        ..Default::default()
    };
    message.cluster_discovery_type = Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
        name: "envoy.cluster.dns".to_owned(),
        typed_config: Some(pack_any(config)),
    }));
}
