//! The rules that fields of an EdgeProxy must keep among themselves.

use crate::api::DurationText;
use crate::api::edge_proxy::{
    EdgeProxySpec, FilterPosition,
    cluster::{ClusterPatch, ClusterProvider, ClusterService, ClusterServiceType},
    telemetry::{AccessLogFormat, AccessLogFormatType, AccessLogSink, AccessLogSinkType, ProxyTelemetry},
};
use crate::phase::{
    cidr::cidr,
    gateways::filter_order::{self, PREFIX},
};
use std::{collections::BTreeMap, net::IpAddr, time::Duration};

pub(crate) mod objects;
mod values;

/// How long a proxy drains at most, where nothing is said.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What holds of fields that aren't written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unwritten {
    /// What is usual.
    Usual,
    /// What the EdgeProxy says that this one is merged into.
    Below,
}

/// All that doesn't make sense.
pub(super) fn errors(spec: &EdgeProxySpec, unwritten: Unwritten) -> Vec<String> {
    let mut errors = values::unknown(spec);
    errors.extend(values::contradictions(spec));
    numbers(spec, unwritten, &mut errors);
    if let Some(telemetry) = &spec.telemetry {
        access_log(telemetry, &mut errors);
    }
    if let Some(cluster) = spec.provider.as_ref().and_then(|p| p.cluster.as_deref()) {
        exclusions(cluster, &mut errors);
        patches(cluster, &mut errors);
        if let Some(service) = &cluster.envoy_service {
            self::service(service, &mut errors);
        }
    }
    errors.extend(unknown_filters(&spec.filter_order));
    errors.extend(filter_positions(&spec.filter_order));
    errors.extend(filter_cycle(&spec.filter_order));
    errors
}

fn access_log(telemetry: &ProxyTelemetry, errors: &mut Vec<String>) {
    let settings = telemetry
        .access_log
        .as_ref()
        .and_then(|log| log.settings.as_deref())
        .unwrap_or_default();
    let mut missing = |what: &str| {
        errors.push(format!(
            "unable to configure access log when using {what} field being empty"
        ));
    };
    for setting in settings {
        let format = setting.format.as_deref();
        if format.is_some_and(|f: &AccessLogFormat| f.r#type == Some(AccessLogFormatType::Text) && f.text.is_none()) {
            missing("Text format but \"text\"");
        }
        for sink in &setting.sinks {
            match sink {
                AccessLogSink {
                    r#type: AccessLogSinkType::File,
                    file: None,
                    ..
                } => missing("File sink type but \"file\""),
                AccessLogSink {
                    r#type: AccessLogSinkType::Als,
                    als: None,
                    ..
                } => missing("ALS sink type but \"als\""),
                AccessLogSink {
                    r#type: AccessLogSinkType::OpenTelemetry,
                    open_telemetry: None,
                    ..
                } => {
                    missing("OpenTelemetry sink type but \"openTelemetry\"");
                }
                _ => {}
            }
        }
    }
}

/// Numbers and durations that mean nothing.
fn numbers(spec: &EdgeProxySpec, unwritten: Unwritten, errors: &mut Vec<String>) {
    let cluster = spec.provider.as_ref().and_then(|provider| provider.cluster.as_deref());
    let deployment = cluster.and_then(|cluster| cluster.envoy_deployment.as_deref());
    let concurrency = spec.concurrency.is_some_and(|n| n < 0);
    let negative = concurrency
        .then_some("concurrency must not be negative")
        .into_iter()
        .chain(deployment.and_then(objects::replicas));
    errors.extend(negative.map(str::to_owned));
    let Some(shutdown) = &spec.shutdown else { return };
    let durations = [
        ("drainTimeout", &shutdown.drain_timeout),
        ("minDrainDuration", &shutdown.min_drain_duration),
        ("healthCheckFailureDelay", &shutdown.health_check_failure_delay),
    ];
    let unreadable = durations.into_iter().filter_map(|(field, duration)| {
        let why = duration.as_ref()?.parse().err()?;
        Some(format!("shutdown.{field}: {why}"))
    });
    errors.extend(unreadable);
    let parsed = |duration: &Option<DurationText>| duration.as_ref()?.parse().ok();
    let usual = match unwritten {
        Unwritten::Usual => Some(DRAIN_TIMEOUT),
        Unwritten::Below => None,
    };
    let most = parsed(&shutdown.drain_timeout).or(usual);
    let least = parsed(&shutdown.min_drain_duration);
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        errors.push("shutdown.minDrainDuration must not be longer than shutdown.drainTimeout".to_owned());
    }
}

/// What can't be asked for together. The cluster checks the same when an EdgeProxy is written there.
fn exclusions(cluster: &ClusterProvider, errors: &mut Vec<String>) {
    let daemon_set = cluster.envoy_daemon_set.as_deref();
    let deployment = cluster.envoy_deployment.as_deref();
    let autoscaler = cluster.envoy_hpa.as_deref();
    let containers = [
        deployment.and_then(|d| d.container.as_deref()),
        daemon_set.and_then(|d| d.container.as_deref()),
    ];
    let both = deployment.is_some() && daemon_set.is_some();
    let scaled = autoscaler.is_some() && daemon_set.is_some();
    let broken = both
        .then_some("only one of envoyDeployment or envoyDaemonSet can be specified")
        .into_iter()
        .chain(containers.into_iter().flatten().find_map(objects::container))
        .chain(scaled.then_some("cannot use envoyHpa if envoyDaemonSet is used"))
        .chain(autoscaler.into_iter().flat_map(objects::autoscaler))
        .chain(cluster.envoy_pdb.as_deref().and_then(objects::budget));
    errors.extend(broken.map(str::to_owned));
}

fn patches(cluster: &ClusterProvider, errors: &mut Vec<String>) {
    let all: [(&str, Option<&ClusterPatch>); 5] = [
        (
            "daemonset",
            cluster.envoy_daemon_set.as_ref().and_then(|d| d.patch.as_deref()),
        ),
        (
            "deployment",
            cluster.envoy_deployment.as_ref().and_then(|d| d.patch.as_deref()),
        ),
        ("hpa", cluster.envoy_hpa.as_ref().and_then(|h| h.patch.as_deref())),
        ("pdb", cluster.envoy_pdb.as_ref().and_then(|p| p.patch.as_deref())),
        (
            "service",
            cluster.envoy_service.as_ref().and_then(|s| s.patch.as_deref()),
        ),
    ];
    let given = all.into_iter().filter_map(|(what, patch)| Some((what, patch?)));
    errors.extend(given.flat_map(|(what, patch)| objects::patch(what, patch)));
}

fn service(service: &ClusterService, errors: &mut Vec<String>) {
    if let ClusterServiceType::Other(kind) = &service.r#type {
        errors.push(format!("unsupported service type {kind}"));
    }
    if service.r#type != ClusterServiceType::LoadBalancer {
        let mut only = |field: &str| errors.push(format!("{field} can only be set for LoadBalancer type"));
        if service.allocate_load_balancer_node_ports.is_some() {
            only("allocateLoadBalancerNodePorts");
        }
        if !service.load_balancer_source_ranges.is_empty() {
            only("loadBalancerSourceRanges");
        }
        if service.load_balancer_ip.is_some() {
            only("loadBalancerIP");
        }
    }
    let ranges = service.load_balancer_source_ranges.iter();
    for range in ranges.filter(|range| cidr(range).is_err()) {
        errors.push(format!("loadBalancerSourceRange:{range} is an invalid IP subnet"));
    }
    if let Some(ip) = service
        .load_balancer_ip
        .as_deref()
        .filter(|ip| ip.parse::<IpAddr>().is_err())
    {
        errors.push(format!("loadBalancerIP:{ip} is an invalid IP address"));
    }
}

/// Filters that nothing moves.
fn unknown_filters(order: &[FilterPosition]) -> impl Iterator<Item = String> {
    let names = order
        .iter()
        .flat_map(|position| [Some(&position.name), position.before.as_ref(), position.after.as_ref()]);
    let unknown = names.flatten().filter(|name| !filter_order::is_known(name));
    unknown.map(|name| format!("unsupported filter {name} in filterOrder"))
}

/// Positions that say no place, or two.
fn filter_positions(order: &[FilterPosition]) -> Option<String> {
    let beside =
        |position: &FilterPosition| usize::from(position.before.is_some()) + usize::from(position.after.is_some());
    let odd = order.iter().find(|position| beside(position) != 1)?;
    Some(match beside(odd) {
        0 => "one of before or after must be specified".to_owned(),
        _ => "only one of before or after can be specified".to_owned(),
    })
}

/// A filter that must stand both before and after another.
fn filter_cycle(order: &[FilterPosition]) -> Option<String> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for position in order {
        let name = filter_order::word(&position.name);
        if let Some(other) = position.before.as_deref() {
            before.entry(name).or_default().push(filter_order::word(other));
        }
        if let Some(other) = position.after.as_deref() {
            before.entry(filter_order::word(other)).or_default().push(name);
        }
    }
    let cycle = before.keys().find_map(|start| find_cycle(&before, &mut vec![start]))?;
    let cycle: Vec<String> = cycle.iter().map(|word| format!("{PREFIX}{word}")).collect();
    Some(format!("there is a cycle in the filter order: {}", cycle.join(" -> ")))
}

/// Follows edges from the end of `path`; a cycle is the path back to its start.
fn find_cycle<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>, path: &mut Vec<&'a str>) -> Option<Vec<&'a str>> {
    let (first, last) = (*path.first()?, *path.last()?);
    for next in edges.get(last).into_iter().flatten() {
        if *next == first {
            return Some([path.as_slice(), &[first]].concat());
        }
        if path.contains(next) {
            continue;
        }
        path.push(next);
        if let Some(cycle) = find_cycle(edges, path) {
            return Some(cycle);
        }
        path.pop();
    }
    None
}
