//! How a cluster chooses an endpoint.

use super::super::common::{duration, extension};
use edge_ir::{Cluster, LoadBalancing, ReportedLoad, Timeout, ZoneRouting};
use envoy_types::pb::{
    envoy::{
        config::{
            cluster::v3::{LoadBalancingPolicy, load_balancing_policy::Policy},
            core::v3::TypedExtensionConfig,
        },
        extensions::load_balancing_policies::{
            client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
            common::v3::{
                LocalityLbConfig, SlowStartConfig,
                locality_lb_config::{LocalityConfigSpecifier, LocalityWeightedLbConfig},
            },
            least_request::v3::LeastRequest,
            maglev::v3::Maglev,
            override_host::v3::{OverrideHost, override_host::OverrideHostSource},
            random::v3::Random,
            round_robin::v3::RoundRobin,
            wrr_locality::v3::WrrLocality,
        },
    },
    google::protobuf::{FloatValue, UInt64Value},
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
    let locality_lb_config = Some(weighted());
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
                ZoneRouting::Unheeded => within,
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

/// Localities have weights, of which most clusters have one.
fn weighted() -> LocalityLbConfig {
    LocalityLbConfig {
        locality_config_specifier: Some(LocalityConfigSpecifier::LocalityWeightedLbConfig(
            LocalityWeightedLbConfig {},
        )),
    }
}
