//! What an EdgeProxy asks for: whether it makes sense, and what of it a fleet's infrastructure needs.

use super::{cluster_settings::cluster_settings, telemetry};
use crate::{
    api::{
        DurationText, EdgeProxy, IpFamily as ApiFamily, Text,
        edge_proxy::{BootstrapType, EdgeProxySpec, ProxyBootstrap, cluster::ClusterProvider},
    },
    settings::Settings,
};
use edge_ir::{BootstrapPatch, HostProcess, IpFamily, JsonPatchOperation, Placement, ProxySettings, StringMap};
use std::sync::Arc;

mod check;
mod merged;

use check::Unwritten;
pub(crate) use check::objects;
pub(crate) use merged::{is_merged, over};

/// Why an EdgeProxy can't be used, for people.
pub(crate) type ProxyProblem = String;

/// Whether a parametersRef names an EdgeProxy.
pub(crate) fn check_reference(group: &str, kind: &str) -> Result<(), ProxyProblem> {
    if group != "gateway.edge" || kind != "EdgeProxy" {
        return Err(format!(
            "unsupported parametersRef {group}/{kind}, only gateway.edge/EdgeProxy is supported"
        ));
    }
    Ok(())
}

/// Whether the settings make sense as they are in force, with all that doesn't.
pub(crate) fn check(proxy: &EdgeProxy, settings: &Settings) -> Result<(), ProxyProblem> {
    judge(proxy, settings, Unwritten::Usual)
}

/// The same of settings for all Gateways of a class, which may be merged.
pub(crate) fn check_of_class(proxy: &EdgeProxy, settings: &Settings) -> Result<(), ProxyProblem> {
    if proxy.spec.merge_gateways && settings.placement == Placement::Gateway {
        return Err("mergeGateways is not supported where proxies run in the namespaces of their Gateways".into());
    }
    check(proxy, settings)
}

/// Whether an EdgeProxy makes sense as it is written, whatever it may be merged into.
pub(crate) fn check_written(proxy: &EdgeProxy, settings: &Settings) -> Result<(), ProxyProblem> {
    let unwritten = match is_merged(proxy) {
        true => Unwritten::Below,
        false => Unwritten::Usual,
    };
    judge(proxy, settings, unwritten)
}

fn judge(proxy: &EdgeProxy, settings: &Settings, unwritten: Unwritten) -> Result<(), ProxyProblem> {
    let spec = &proxy.spec;
    if spec.merge_gateways && spec.merge_backends.is_some() {
        return Err("mergeGateways and mergeBackends cannot both be enabled".into());
    }
    let mut errors = check::errors(spec, unwritten);
    errors.extend(telemetry::stat_name_problem(spec));
    // What is wrong already would only be told a second time, in other words.
    if let (Some(_), Some(check), true) = (&spec.bootstrap, settings.check_bootstrap, errors.is_empty()) {
        let start = telemetry::put_into(proxy_settings(Some(proxy)), spec);
        errors.extend(check(&start, settings.start_place()).err());
    }
    if let (Some(cluster), Some(check), true) = (cluster_of(spec), settings.check_objects, errors.is_empty()) {
        errors.extend(check(&cluster_settings(cluster)));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(format!("[{}]", errors.join(", ")))
    }
}

/// Address family of a fleet's own sockets.
pub(crate) fn ip_family(proxy: Option<&EdgeProxy>) -> IpFamily {
    match proxy.and_then(|p| p.spec.ip_family.as_ref()) {
        Some(ApiFamily::Ipv6) => IpFamily::V6,
        Some(ApiFamily::DualStack) => IpFamily::DualStack,
        _ => IpFamily::V4,
    }
}

/// Proxies bind the ports of listeners as they are, low ones too.
pub(crate) fn binds_listener_ports(proxy: &EdgeProxy) -> bool {
    cluster_of(&proxy.spec).is_some_and(|cluster| cluster.use_listener_port_as_container_port)
}

/// What of an EdgeProxy the infrastructure needs.
pub(crate) fn proxy_settings(proxy: Option<&EdgeProxy>) -> ProxySettings {
    let ip_family = ip_family(proxy);
    let Some(spec) = proxy.map(|p| &p.spec) else {
        return ProxySettings {
            ip_family,
            prometheus: true,
            ..ProxySettings::default()
        };
    };
    let provider = spec.provider.as_deref();
    ProxySettings {
        ip_family,
        concurrency: spec.concurrency.and_then(|n| u32::try_from(n).ok()),
        log_levels: log_levels(spec),
        drain_timeout_seconds: seconds(spec.shutdown.as_ref().and_then(|s| s.drain_timeout.as_ref())),
        min_drain_seconds: seconds(spec.shutdown.as_ref().and_then(|s| s.min_drain_duration.as_ref())),
        health_check_failure_delay_seconds: seconds(
            spec.shutdown
                .as_ref()
                .and_then(|s| s.health_check_failure_delay.as_ref()),
        ),
        extra_args: spec.extra_args.iter().map(|a| Arc::from(&**a)).collect(),
        bootstrap: spec.bootstrap.as_deref().map(bootstrap_patch),
        prometheus: serves_prometheus(spec),
        // Who they are is told by what they name.
        metrics_compressor: None,
        kept_metrics: Vec::new(),
        metric_sinks: Vec::new(),
        host: provider.and_then(|p| p.host.as_ref()).map(|host| HostProcess {
            version: host.envoy_version.as_deref().map(Into::into),
        }),
        cluster: cluster_of(spec).map(cluster_settings).unwrap_or_default(),
    }
}

fn cluster_of(spec: &EdgeProxySpec) -> Option<&ClusterProvider> {
    spec.provider.as_ref()?.cluster.as_deref()
}

/// A component that the contract lists and proxies don't have: stock Envoy wouldn't start.
pub(crate) const IDLE_COMPONENT: &str = "system";

fn log_levels(spec: &EdgeProxySpec) -> StringMap {
    let levels = spec.logging.level.iter();
    levels
        .filter(|(component, _)| &***component != IDLE_COMPONENT)
        .map(|(component, level)| (Arc::from(&**component), Arc::from(level.as_str())))
        .collect()
}

fn seconds(duration: Option<&DurationText>) -> Option<u32> {
    let duration = duration?.parse().ok()?;
    // Rounded up, for 0 is no wait at all.
    u32::try_from(duration.as_millis().div_ceil(1000)).ok()
}

fn serves_prometheus(spec: &EdgeProxySpec) -> bool {
    let metrics = spec.telemetry.as_ref().and_then(|t| t.metrics.as_ref());
    !metrics.and_then(|m| m.prometheus.as_ref()).is_some_and(|p| p.disable)
}

fn bootstrap_patch(bootstrap: &ProxyBootstrap) -> BootstrapPatch {
    let text = || Arc::from(bootstrap.value.as_deref().unwrap_or_default());
    match bootstrap.r#type {
        BootstrapType::Merge => BootstrapPatch::Merge(text()),
        BootstrapType::JsonPatch => BootstrapPatch::JsonPatch(bootstrap.json_patches.iter().map(operation).collect()),
        BootstrapType::Replace | BootstrapType::Other(_) => BootstrapPatch::Replace(text()),
    }
}

/// An operation as data.
pub(crate) fn operation(operation: &crate::api::edge_proxy::JsonPatchOperation) -> JsonPatchOperation {
    let text = |t: &Option<Text>| t.as_deref().map(Arc::from);
    JsonPatchOperation {
        op: operation.op.as_str().into(),
        path: text(&operation.path),
        json_path: text(&operation.json_path),
        from: text(&operation.from),
        value: operation.value.as_ref().map(|v| v.to_string().into()),
    }
}
