//! Clusters.

use super::{
    common::{CONNECTION_BUFFER, extension, from_ads, number, seconds},
    endpoints::lower_localities,
    metadata::put_metadata,
    upstream_tls,
};
use crate::snapshot::{Body, Entry};
use edge_ir::{AppProtocol, Cluster, Discovery, LoadBalancing, Locality, ServerNaming, UpstreamTls, ZoneRouting};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                cluster::v3::{
                    self as pb, CircuitBreakers, LoadBalancingPolicy,
                    circuit_breakers::Thresholds,
                    cluster::{
                        ClusterDiscoveryType, CustomClusterType, DiscoveryType, DnsLookupFamily, EdsClusterConfig,
                        LbPolicy,
                    },
                    load_balancing_policy::Policy,
                },
                core::v3::{
                    Http1ProtocolOptions, Http2ProtocolOptions, TypedExtensionConfig, UpstreamHttpProtocolOptions,
                },
                endpoint::v3::ClusterLoadAssignment,
            },
            extensions::{
                clusters::{
                    common::dns::v3 as dns,
                    dns::v3::DnsCluster,
                    dynamic_forward_proxy::v3::{self as dynamic, cluster_config::ClusterImplementationSpecifier},
                },
                load_balancing_policies::{
                    common::v3::{
                        LocalityLbConfig,
                        locality_lb_config::{
                            LocalityConfigSpecifier, LocalityWeightedLbConfig, ZoneAwareLbConfig,
                            zone_aware_lb_config::ForceLocalZone,
                        },
                    },
                    least_request::v3::LeastRequest,
                    round_robin::v3::RoundRobin,
                },
                upstreams::http::v3::{
                    HttpProtocolOptions,
                    http_protocol_options::{
                        ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
                    },
                },
            },
        },
        google::protobuf::UInt64Value,
    },
    util::pack_any,
};
use prost::Message;

/// `Cluster.metadata`.
const METADATA: u32 = 25;

/// Key of the HTTP options among a cluster's protocol options.
pub(crate) const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Encodes a cluster.
pub(super) fn encode_cluster(cluster: &Cluster) -> Entry {
    let mut message = pb::Cluster {
        name: cluster.name.to_string(),
        connect_timeout: Some(seconds(10)),
        per_connection_buffer_limit_bytes: number(CONNECTION_BUFFER),
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![Thresholds {
                max_retries: number(1024),
                ..Default::default()
            }],
            ..Default::default()
        }),
        // An endpoint that the platform takes away is gone, whatever a health check said last.
        ignore_health_on_host_removal: true,
        load_balancing_policy: Some(lower_policy(cluster)),
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
        Discovery::Dns(localities) => lower_dns(&mut message, localities),
        Discovery::OfRequest => lower_of_request(&mut message, cluster.tls.as_ref()),
    }
    message.transport_socket = cluster.tls.as_ref().map(upstream_tls::lower);
    if let Some(options) = http_options(cluster) {
        message.typed_extension_protocol_options =
            std::iter::once((HTTP_OPTIONS.to_owned(), pack_any(options))).collect();
    }
    let mut out = message.encode_to_vec();
    put_metadata(&mut out, METADATA, &cluster.origins);
    let entry = Entry::new(cluster.name.clone(), Body::Whole(out.into()), cluster.origins.clone());
    Entry { warmed_by, ..entry }
}

/// What a cluster says about HTTP; HTTP/1.1 in clear needs no word.
fn http_options(cluster: &Cluster) -> Option<HttpProtocolOptions> {
    let of_request = cluster.tls.as_ref().filter(|tls| tls.naming == ServerNaming::OfRequest);
    let config = match cluster.protocol {
        AppProtocol::Http1 if of_request.is_none() => return None,
        AppProtocol::Http1 => ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default()),
        // With prior knowledge.
        AppProtocol::Http2 => ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
            initial_stream_window_size: number(65_536),
            initial_connection_window_size: number(1_048_576),
            ..Default::default()
        }),
    };
    let explicit = ExplicitHttpConfig {
        protocol_config: Some(config),
    };
    Some(HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)),
        upstream_http_protocol_options: of_request.map(|tls| UpstreamHttpProtocolOptions {
            auto_sni: true,
            auto_san_validation: tls.authorities.is_some(),
            ..Default::default()
        }),
        ..Default::default()
    })
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

fn lower_dns(message: &mut pb::Cluster, localities: &[Locality]) {
    let config = DnsCluster {
        dns_refresh_rate: Some(seconds(30)),
        respect_dns_ttl: true,
        dns_lookup_family: dns::DnsLookupFamily::V4Preferred.into(),
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

fn lower_policy(cluster: &Cluster) -> LoadBalancingPolicy {
    let locality_lb_config = Some(lower_locality_config(cluster.zones));
    let policy: TypedExtensionConfig = match cluster.load_balancing {
        LoadBalancing::LeastRequest => extension(
            "envoy.load_balancing_policies.least_request",
            LeastRequest {
                locality_lb_config,
                ..Default::default()
            },
        ),
        LoadBalancing::RoundRobin => extension(
            "envoy.load_balancing_policies.round_robin",
            RoundRobin {
                locality_lb_config,
                ..Default::default()
            },
        ),
    };
    LoadBalancingPolicy {
        policies: vec![Policy {
            typed_extension_config: Some(policy),
        }],
    }
}

fn lower_locality_config(zones: Option<ZoneRouting>) -> LocalityLbConfig {
    let specifier = match zones {
        None => LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {}),
        Some(ZoneRouting { min_endpoints }) => LocalityConfigSpecifier::ZoneAwareLbConfig(ZoneAwareLbConfig {
            min_cluster_size: Some(UInt64Value {
                value: min_endpoints.into(),
            }),
            force_local_zone: Some(ForceLocalZone {
                min_size: number(min_endpoints),
            }),
            ..Default::default()
        }),
    };
    LocalityLbConfig {
        locality_config_specifier: Some(specifier),
    }
}
