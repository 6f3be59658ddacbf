//! Balancing by the load that hosts report, and hosts that requests name.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::LoadBalancingPolicy;
use envoy_types::pb::envoy::extensions::load_balancing_policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin;
use envoy_types::pb::envoy::extensions::load_balancing_policies::override_host::v3::OverrideHost;
use envoy_types::pb::envoy::extensions::load_balancing_policies::override_host::v3::override_host::OverrideHostSource;
use envoy_types::pb::envoy::extensions::load_balancing_policies::wrr_locality::v3::WrrLocality;

use crate::compile::access::metadata_path;
use crate::compile::balancing::{Chosen, extension_balancing, localities, slow_start};
use crate::compile::field::{At, Rejection, duration_or, fields, truth};
use crate::compile::template::header_name;
use crate::config::cluster::LbPolicy;
use crate::config::load::{HostSource, LoadWeights, Metric};

/// Round robin by weights that are made of reports.
pub(super) fn by_load(at: &At<'_>, message: &ClientSideWeightedRoundRobin) -> Result<Chosen, Rejection> {
    fields!(at, message => ClientSideWeightedRoundRobin {
        enable_oob_load_report, blackout_period, weight_expiration_period, weight_update_period,
        error_utilization_penalty, metric_names_for_computing_utilization, slow_start_config;
        // How often hosts would report by calls of their own.
        ignore oob_reporting_period, oob_reporting_config;
        refuse
    });
    if truth(enable_oob_load_report.as_ref()) {
        return Err(at.unsupported("enable_oob_load_report"));
    }
    let penalty = error_utilization_penalty.as_ref().map_or(0.0, |value| value.value);
    if penalty.is_nan() || penalty < 0.0 {
        return Err(at.field("error_utilization_penalty").error("must not be less than 0"));
    }
    let names = metric_names_for_computing_utilization.iter();
    let time = |field: &str, value: &Option<_>, usual| duration_or(&at.field(field), value.as_ref(), usual);
    let loads = LoadWeights {
        // Envoy's times where none are said.
        blackout: time("blackout_period", blackout_period, Duration::from_secs(10))?,
        expiration: time(
            "weight_expiration_period",
            weight_expiration_period,
            Duration::from_secs(180),
        )?,
        update: time("weight_update_period", weight_update_period, Duration::from_secs(1))?
            .max(Duration::from_millis(100)),
        error_penalty: f64::from(penalty),
        metrics: names.filter_map(|name| metric(name)).collect(),
    };
    let slow_start = slow_start(at, slow_start_config.as_ref())?;
    Ok(Chosen {
        loads: Some(Box::new(loads)),
        ..localities(at, LbPolicy::Reported, None, slow_start)?
    })
}

fn metric(name: &str) -> Option<Metric> {
    match name.split_once('.') {
        Some(("named_metrics", "*")) => Some(Metric::AnyNamed),
        Some(("named_metrics", key)) if !key.is_empty() => Some(Metric::Named(key.into())),
        Some(("utilization", "*")) => Some(Metric::AnyUtilization),
        Some(("utilization", key)) if !key.is_empty() => Some(Metric::Utilization(key.into())),
        _ => match name {
            "application_utilization" => Some(Metric::Application),
            "cpu_utilization" => Some(Metric::Cpu),
            "mem_utilization" => Some(Metric::Memory),
            // As in Envoy: no report has it.
            _ => None,
        },
    }
}

/// The same in localities by weight, the only use that Envoy has for this policy.
pub(super) fn by_locality(at: &At<'_>, message: &WrrLocality) -> Result<Chosen, Rejection> {
    fields!(at, message => WrrLocality { endpoint_picking_policy; ignore; refuse });
    let at = at.field("endpoint_picking_policy");
    let mut chosen = inner(&at, endpoint_picking_policy.as_ref())?;
    if chosen.loads.is_none() || !chosen.named.is_empty() {
        return Err(at.error("must be ClientSideWeightedRoundRobin"));
    }
    chosen.balancing.locality_weighted = true;
    chosen.balancing.zones = None;
    Ok(chosen)
}

/// Any policy, for requests that name no host.
pub(super) fn named(at: &At<'_>, message: &OverrideHost) -> Result<Chosen, Rejection> {
    fields!(at, message => OverrideHost { override_host_sources, fallback_policy; ignore; refuse selected_host_key });
    let list = at.field("override_host_sources");
    if override_host_sources.is_empty() {
        return Err(list.error("is required"));
    }
    let sources = override_host_sources.iter().enumerate();
    let sources = sources.map(|(index, source)| self::source(&list.index(index), source));
    let at = at.field("fallback_policy");
    let chosen = inner(&at, fallback_policy.as_ref())?;
    if !chosen.named.is_empty() {
        return Err(at.error("names hosts once more"));
    }
    Ok(Chosen {
        named: sources.collect::<Result<_, _>>()?,
        ..chosen
    })
}

fn inner(at: &At<'_>, message: Option<&LoadBalancingPolicy>) -> Result<Chosen, Rejection> {
    match message {
        Some(message) => extension_balancing(at, message),
        None => Err(at.error("is required")),
    }
}

fn source(at: &At<'_>, message: &OverrideHostSource) -> Result<HostSource, Rejection> {
    fields!(at, message => OverrideHostSource { header, metadata; ignore; refuse });
    match (header.as_str(), metadata) {
        ("", Some(key)) => Ok(HostSource::Metadata(metadata_path(&at.field("metadata"), key)?)),
        ("", None) => Err(at.error("header or metadata is required")),
        (header, None) => Ok(HostSource::Header(header_name(&at.field("header"), header)?)),
        (_, Some(_)) => Err(at.error("header excludes metadata")),
    }
}
