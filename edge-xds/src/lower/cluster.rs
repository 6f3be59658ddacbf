//! Clusters.

use super::{
    common::{duration, from_ads, seconds},
    endpoints::lower_localities,
    metadata::put_metadata,
    upstream_tls,
};
use crate::snapshot::{Body, Entry};
use edge_ir::{Cluster, Discovery, DnsFamily, DnsSettings, Locality, ServerNaming, UpstreamTls};
use envoy_types::{
    pb::envoy::{
        config::{
            cluster::v3::{
                self as pb,
                cluster::{
                    ClusterDiscoveryType, CustomClusterType, DiscoveryType, DnsLookupFamily, EdsClusterConfig, LbPolicy,
                },
            },
            endpoint::v3::ClusterLoadAssignment,
        },
        extensions::clusters::{
            common::dns::v3 as dns,
            dns::v3::DnsCluster,
            dynamic_forward_proxy::v3::{self as dynamic, cluster_config::ClusterImplementationSpecifier},
        },
    },
    util::pack_any,
};
use prost::Message;

mod balancing;
mod health;
mod settings;

/// `Cluster.metadata`.
const METADATA: u32 = 25;

/// Key of the HTTP options among a cluster's protocol options.
pub(crate) const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Encodes a cluster.
pub(super) fn encode_cluster(cluster: &Cluster) -> Entry {
    let mut message = pb::Cluster {
        name: cluster.name.to_string(),
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        // An endpoint that the platform takes away is gone, whatever a health check said last.
        ignore_health_on_host_removal: true,
        load_balancing_policy: Some(balancing::lower(cluster)),
        ..Default::default()
    };
    let mut warmed_by = None;
    match &cluster.discovery {
        Discovery::Endpoints(set) => {
            warmed_by = Some(set.clone().into());
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
        Discovery::Dns(localities) => lower_dns(&mut message, localities, cluster.upstream.dns.unwrap_or_default()),
        Discovery::OfRequest => lower_of_request(&mut message, cluster.tls.as_ref()),
    }
    message.transport_socket = cluster.tls.as_ref().map(upstream_tls::lower);
    settings::put(&mut message, cluster);
    let http = settings::http_options(cluster).map(|options| (HTTP_OPTIONS.to_owned(), pack_any(options)));
    message.typed_extension_protocol_options = http.into_iter().collect();
    let mut out = message.encode_to_vec();
    put_metadata(&mut out, METADATA, &cluster.origins);
    let entry = Entry::new(cluster.name.clone(), Body::Whole(out.into()), cluster.origins.clone());
    Entry { warmed_by, ..entry }
}

/// Endpoints are what the host of each request resolves to. The filter on the chain has the same cache.
fn lower_of_request(message: &mut pb::Cluster, tls: Option<&UpstreamTls>) {
    let config = dynamic::ClusterConfig {
        // A proxy wants to be told that a name other than the one resolved is asked for, or that none is verified.
        allow_insecure_cluster_options: tls
            .is_some_and(|tls| tls.naming != ServerNaming::OfRequest || tls.authorities.is_none()),
        cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(
            super::filter::dns_cache(),
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

fn lower_dns(message: &mut pb::Cluster, localities: &[Locality], settings: DnsSettings) {
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
    message.load_assignment = Some(ClusterLoadAssignment {
        cluster_name: message.name.clone(),
        endpoints: lower_localities(localities),
        ..Default::default()
    });
}
