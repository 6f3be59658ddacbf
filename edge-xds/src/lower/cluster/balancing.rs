//! How a cluster chooses an endpoint.

use super::super::common::{duration, extension};
use edge_ir::{Cluster, LoadBalancing, ReportedLoad, Timeout, ZonePreference, ZoneRouting};
use envoy_types::pb::{
    envoy::r#type::v3::Percent,
    envoy::{
        config::{
            cluster::v3::{LoadBalancingPolicy, load_balancing_policy::Policy},
            core::v3::TypedExtensionConfig,
        },
        extensions::load_balancing_policies::{
            client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
            common::v3::{
                LocalityLbConfig, SlowStartConfig,
                locality_lb_config::{
                    LocalityConfigSpecifier, LocalityWeightedLbConfig, ZoneAwareLbConfig,
                    zone_aware_lb_config::ForceLocalZone,
                },
            },
            least_request::v3::LeastRequest,
            maglev::v3::Maglev,
            override_host::v3::{OverrideHost, override_host::OverrideHostSource},
            random::v3::Random,
            round_robin::v3::RoundRobin,
            wrr_locality::v3::WrrLocality,
        },
    },
    google::protobuf::{FloatValue, UInt32Value, UInt64Value},
};

/// The policy of a cluster, below the endpoint that a client may name itself.
pub(super) fn lower(cluster: &Cluster) -> LoadBalancingPolicy {
    let policy = one(choice(cluster));
    let headers = &cluster.upstream.endpoint_headers;
    if headers.is_empty() {
        return policy;
    }
    let source = |header: &std::sync::Arc<str>| OverrideHostSource {
        header: header.to_string(),
        ..Default::default()
    };
    one(extension(
        "envoy.load_balancing_policies.override_host",
        OverrideHost {
            override_host_sources: headers.iter().map(source).collect(),
            fallback_policy: Some(policy),
            ..Default::default()
        },
    ))
}

fn one(policy: TypedExtensionConfig) -> LoadBalancingPolicy {
    LoadBalancingPolicy {
        policies: vec![Policy {
            typed_extension_config: Some(policy),
        }],
    }
}

fn choice(cluster: &Cluster) -> TypedExtensionConfig {
    let locality_lb_config = Some(by_locality(cluster.zones));
    let slow_start_config = cluster.upstream.slow_start.map(slow_start);
    match &cluster.load_balancing {
        LoadBalancing::LeastRequest => extension(
            "envoy.load_balancing_policies.least_request",
            LeastRequest {
                locality_lb_config,
                slow_start_config,
                ..Default::default()
            },
        ),
        LoadBalancing::RoundRobin => extension(
            "envoy.load_balancing_policies.round_robin",
            RoundRobin {
                locality_lb_config,
                slow_start_config,
            },
        ),
        LoadBalancing::Random => extension("envoy.load_balancing_policies.random", Random { locality_lb_config }),
        LoadBalancing::ConsistentHash(table_size) => extension(
            "envoy.load_balancing_policies.maglev",
            Maglev {
                table_size: Some(UInt64Value { value: *table_size }),
                locality_weighted_lb_config: (cluster.zones == ZoneRouting::Weighted)
                    .then_some(LocalityWeightedLbConfig {}),
                ..Default::default()
            },
        ),
        LoadBalancing::ReportedLoad(load) => {
            let within = extension(
                "envoy.load_balancing_policies.client_side_weighted_round_robin",
                reported(load, slow_start_config),
            );
            match cluster.zones {
                ZoneRouting::Weighted => extension(
                    "envoy.load_balancing_policies.wrr_locality",
                    WrrLocality {
                        endpoint_picking_policy: Some(one(within)),
                    },
                ),
                // It knows no zone of its own.
                ZoneRouting::Unheeded | ZoneRouting::PreferLocal(_) => within,
            }
        }
    }
}

fn slow_start(window: Timeout) -> SlowStartConfig {
    SlowStartConfig {
        slow_start_window: Some(duration(window)),
        ..Default::default()
    }
}

fn reported(load: &ReportedLoad, slow_start_config: Option<SlowStartConfig>) -> ClientSideWeightedRoundRobin {
    // At most a few hundred, which a float holds exactly.
    #[allow(clippy::cast_precision_loss, reason = "a percentage is a small number")]
    let penalty = |percent: u32| FloatValue {
        value: percent as f32 / 100.0,
    };
    ClientSideWeightedRoundRobin {
        blackout_period: load.blackout.map(duration),
        weight_expiration_period: load.expiration.map(duration),
        weight_update_period: load.update.map(duration),
        error_utilization_penalty: load.error_penalty_percent.map(penalty),
        metric_names_for_computing_utilization: load.metrics.iter().map(ToString::to_string).collect(),
        slow_start_config,
        ..Default::default()
    }
}

/// Localities have weights, of which most clusters have one, or the proxy's own comes first.
fn by_locality(zones: ZoneRouting) -> LocalityLbConfig {
    let specifier = match zones {
        ZoneRouting::Unheeded | ZoneRouting::Weighted => {
            LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {})
        }
        ZoneRouting::PreferLocal(preference) => LocalityConfigSpecifier::ZoneAwareLbConfig(prefer_local(preference)),
    };
    LocalityLbConfig {
        locality_config_specifier: Some(specifier),
    }
}

fn prefer_local(preference: ZonePreference) -> ZoneAwareLbConfig {
    let percent = |percent| Percent {
        value: f64::from(percent),
    };
    let force = |least| ForceLocalZone {
        min_size: Some(UInt32Value { value: least }),
    };
    ZoneAwareLbConfig {
        routing_enabled: preference.percent.map(percent),
        min_cluster_size: Some(UInt64Value {
            value: preference.min_endpoints,
        }),
        force_local_zone: preference.force.map(force),
        ..Default::default()
    }
}
