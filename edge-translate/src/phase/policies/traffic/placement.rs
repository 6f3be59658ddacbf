//! What is said of endpoints besides their addresses: what their zones weigh or mean, and where they are probed.

use super::Problems;
use crate::{
    api::{
        BackendTrafficPolicySpec, RoutingType,
        load_balancer::{LoadBalancerType, PreferLocalZone, ZoneAware},
    },
    name::{Placement, Routing, Zones},
};
use edge_ir::ZonePreference;
use std::{collections::BTreeMap, sync::Arc};

const AREA: &str = "LoadBalancer";

/// What a policy says of endpoints.
pub(super) fn placement(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Placement {
    let check = spec.health_check.as_deref();
    let active = check.and_then(|check| check.active.as_deref());
    let elsewhere = active.and_then(|active| active.overrides.as_ref());
    let probe_port = elsewhere.and_then(|elsewhere| elsewhere.port);
    if probe_port == Some(0) {
        problems.add(
            "HealthCheck",
            "Overrides.Port value 0 is out of range, must be between 1 and 65535",
        );
    }
    let balancer = spec.load_balancer.as_deref();
    let zones = balancer.and_then(|balancer| Some((&balancer.r#type, balancer.zone_aware.as_deref()?)));
    Placement {
        probe_port,
        routing: routing(spec, problems),
        zones: zones.map_or(Zones::default(), |(of_type, aware)| zones_of(of_type, aware, problems)),
    }
}

fn routing(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Routing> {
    match spec.routing_type.as_ref()? {
        RoutingType::Endpoint => Some(Routing::Endpoints),
        RoutingType::Service => Some(Routing::Service),
        RoutingType::Other(other) => {
            problems.add("RoutingType", format_args!("{other} is not Endpoint or Service"));
            None
        }
    }
}

fn zones_of(of_type: &LoadBalancerType, aware: &ZoneAware, problems: &mut Problems) -> Zones {
    let prefers_local = aware.prefer_local.is_some();
    if prefers_local && !aware.weighted_zones.is_empty() {
        problems.add(
            AREA,
            "ZoneAware PreferLocal and WeightedZones cannot be specified together",
        );
    }
    match of_type {
        LoadBalancerType::ConsistentHash if prefers_local => problems.add(
            AREA,
            "PreferLocal zone-aware routing is not supported for ConsistentHash load balancers. Use weightedZones \
             instead",
        ),
        LoadBalancerType::BackendUtilization if prefers_local => problems.add(
            AREA,
            "PreferLocal zone-aware routing is not currently supported for BackendUtilization load balancers. Only \
             WeightedZones can be used with BackendUtilization",
        ),
        _ => {}
    }
    if aware.weighted_zones.is_empty() {
        return match prefers_local {
            true => Zones::Known,
            false => Zones::default(),
        };
    }
    let mut weights: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for one in &aware.weighted_zones {
        if weights.insert((&*one.zone).into(), one.weight).is_some() {
            problems.add(AREA, format_args!("zone {:?} is weighed twice", one.zone));
        }
    }
    Zones::Weighted(weights.into_iter().collect())
}

/// How far a policy has endpoints in the zone of the proxy come first.
pub(super) fn zone_preference(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<ZonePreference> {
    let aware = spec.load_balancer.as_deref()?.zone_aware.as_deref()?;
    let PreferLocalZone {
        force,
        min_endpoints_threshold,
        percentage_enabled,
    } = aware.prefer_local.as_ref()?;
    let percent = |percent| problems.number(AREA, "PreferLocal.PercentageEnabled", percent, 0..=100);
    Some(ZonePreference {
        // What a proxy takes it for where nothing is said.
        min_endpoints: min_endpoints_threshold.unwrap_or(6),
        percent: percentage_enabled.map(percent),
        force: force
            .as_ref()
            .map(|force| force.min_endpoints_in_zone_threshold.unwrap_or(1)),
    })
}
