//! What an EdgeProxy says of access logs and traces, for all of its fleet.
//!
//! Who may write an EdgeProxy runs the proxies, so its references need no ReferenceGrant. What can't be honoured is
//! left out alone, and every Gateway of the fleet says so: nothing that serves depends on who listens in.

mod access_log;
pub(crate) mod collector;
mod formats;
mod metrics;
mod tracing;

use super::gateway::Gateway;
use crate::{
    api::{
        EdgeProxy, Kind,
        edge_proxy::{
            EdgeProxySpec,
            telemetry::{Compression, ProxyMetrics, ProxyTelemetry, RequestIdExtensionAction},
        },
    },
    engine::reader::Reader,
    name::{Ancestor, BackendId, BackendPort, Id},
    phase::{
        backends::defaults::TlsDefaults,
        health_log,
        policies::{
            text_match::text_match,
            traffic::{Problems, compressor, holds_alone},
        },
    },
};
use collector::Collector;
use edge_ir::{
    AccessLog, ClusterStats, Compressor, FleetTracing, HealthLog, HostStats, MetricSink, ProxySettings,
    RequestIdTracing, TextMatcher,
};
use std::{collections::BTreeSet, sync::Arc};

/// What a fleet tells, and whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Telemetry {
    /// Access logs.
    pub(crate) access_log: AccessLog,
    /// Traces.
    pub(crate) tracing: Option<Arc<FleetTracing>>,
    /// Events of probes, where a policy says nothing of them.
    pub(crate) health_log: Option<HealthLog>,
    /// What is counted of clusters besides the usual.
    pub(crate) stats: ClusterStats,
    /// Whose requests are counted.
    pub(crate) host_stats: HostStats,
    /// What request ids have to do with traces.
    pub(crate) request_id: RequestIdTracing,
    /// Who is counted in the terms of gRPC.
    pub(crate) counted_calls: CountedCalls,
    /// Metrics that are kept; all where this is empty.
    pub(crate) kept_metrics: Vec<TextMatcher>,
    /// How metrics that are fetched are compressed, if they are.
    pub(crate) metrics_compressor: Option<Compressor>,
    /// Whom metrics are pushed to.
    pub(crate) metric_sinks: Vec<MetricSink>,
    /// Clusters of those who are told, by name.
    pub(crate) collectors: Vec<Collector>,
    /// Backends that are named, whether or not they can be told.
    pub(crate) named: BTreeSet<BackendPort>,
    /// The object that says so; none where the controller's own configuration does.
    pub(crate) said_by: Option<Id>,
    /// What can't be honoured, a sentence each.
    pub(crate) problems: Vec<String>,
}

impl Telemetry {
    /// Backends that are named, with who says so; sorted, as far as that is an object.
    pub(crate) fn ancestors(&self) -> Vec<(BackendPort, Ancestor)> {
        let Some(id) = self.said_by else {
            return Vec::new();
        };
        let ancestor = Ancestor {
            kind: Kind::EdgeProxy,
            id,
            section: None,
            port: None,
        };
        self.named.iter().map(|port| (*port, ancestor)).collect()
    }

    /// Backends whose endpoints are discovered.
    pub(crate) fn discovered(&self) -> BTreeSet<BackendId> {
        self.collectors.iter().filter_map(Collector::backend).collect()
    }
}

/// Whose calls are counted in the terms of gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CountedCalls {
    /// Those of listeners with GRPCRoutes.
    #[default]
    OfGrpcRoutes,
    /// Those of every listener.
    All,
}

fn request_id(spec: &ProxyTelemetry) -> Result<RequestIdTracing, String> {
    let tracing = spec.request_id.as_ref().and_then(|ids| ids.tracing.as_ref());
    let (packed, sampled) = match tracing {
        None | Some(RequestIdExtensionAction::PackAndSample) => (true, true),
        Some(RequestIdExtensionAction::Pack) => (true, false),
        Some(RequestIdExtensionAction::Sample) => (false, true),
        Some(RequestIdExtensionAction::Disable) => (false, false),
        Some(RequestIdExtensionAction::Other(other)) => {
            return Err(format!(
                "unsupported requestID tracing {other} in the referenced EdgeProxy"
            ));
        }
    };
    Ok(RequestIdTracing { packed, sampled })
}

/// Metrics to keep. Where one condition can't be read, all are kept: nobody misses what is there.
fn kept_metrics(spec: &ProxyMetrics, problems: &mut Vec<String>) -> Vec<TextMatcher> {
    let mut found = Problems::default();
    let kept: Vec<TextMatcher> = spec
        .matches
        .iter()
        .filter_map(|one| text_match("Metrics", one, &mut found))
        .collect();
    if found.is_empty() {
        return kept;
    }
    problems.push(format!(
        "Invalid metrics in the referenced EdgeProxy: {}",
        found.joined()
    ));
    Vec::new()
}

/// How metrics are compressed. Where that can't be read, they are told as they are.
fn metrics_compressor(spec: &Compression, problems: &mut Vec<String>) -> Option<Compressor> {
    let mut found = Problems::default();
    let compressor = compressor(spec, &mut found);
    if found.is_empty() {
        return compressor;
    }
    problems.push(format!(
        "Invalid metrics in the referenced EdgeProxy: {}",
        found.joined()
    ));
    None
}

/// Operators of the name under which clusters are counted.
const OF_RULE: [&str; 6] = [
    "ROUTE_NAME",
    "ROUTE_NAMESPACE",
    "ROUTE_KIND",
    "ROUTE_RULE_NAME",
    "ROUTE_RULE_NUMBER",
    "BACKEND_REFS",
];

/// The name under which the clusters of a Gateway's fleet are counted, with operators. Where it can't be read, they
/// have their own.
pub(crate) fn cluster_stat_name(reader: &Reader<'_>, gateway: Id) -> Option<Arc<str>> {
    let Gateway::Member(member) = &**reader.gateway(gateway)? else {
        return None;
    };
    let telemetry = member.proxy.as_ref()?.spec.telemetry.as_deref()?;
    let name = telemetry.metrics.as_deref()?.cluster_stat_name.as_deref()?;
    holds_alone(name, &OF_RULE).then(|| name.into())
}

/// What proxies start with, with what an EdgeProxy says of metrics, as far as that shapes a bootstrap. Of collectors
/// only their number is known before their backends are: each is told as a host.
pub(crate) fn put_into(start: ProxySettings, spec: &EdgeProxySpec) -> ProxySettings {
    let told = spec.telemetry.as_deref();
    let Some(metrics) = told.and_then(|told| told.metrics.as_deref()) else {
        return start;
    };
    // What is wrong with it is said where it is read for the fleet.
    let mut unsaid = Vec::new();
    let compression = metrics.prometheus.as_ref().and_then(|it| it.compression.as_ref());
    ProxySettings {
        metrics_compressor: compression.and_then(|it| metrics_compressor(it, &mut unsaid)),
        kept_metrics: kept_metrics(metrics, &mut unsaid),
        metric_sinks: metrics::placeholders(metrics),
        ..start
    }
}

/// Why the name under which an EdgeProxy has clusters counted is none.
pub(crate) fn stat_name_problem(spec: &EdgeProxySpec) -> Option<String> {
    let telemetry = spec.telemetry.as_deref()?;
    let name = telemetry.metrics.as_deref()?.cluster_stat_name.as_deref()?;
    if holds_alone(name, &OF_RULE) {
        return None;
    }
    let operators = name.split('%').skip(1).step_by(2);
    let foreign: Vec<String> = operators
        .filter(|operator| !OF_RULE.contains(operator))
        .map(|operator| format!("%{operator}%"))
        .collect();
    let why = match name {
        "" => "it is empty".to_owned(),
        _ if !name.matches('%').count().is_multiple_of(2) => "a % belongs to no operator".to_owned(),
        _ if foreign.is_empty() => "it holds control characters".to_owned(),
        _ => format!("unsupported operators: [{}]", foreign.join(" ")),
    };
    Some(format!("unable to configure Cluster Stat Name: {why}"))
}

/// Reads what an EdgeProxy says; a fleet goes by its key in logs and spans. Whom TLS can't be spoken to as the defaults
/// ask for is told nothing.
pub(crate) fn telemetry(
    reader: &Reader<'_>,
    proxy: &EdgeProxy,
    fleet: &str,
    tls: Result<TlsDefaults, String>,
) -> Telemetry {
    let metadata = &proxy.metadata;
    let home = match &*metadata.namespace {
        "" => Arc::clone(&reader.settings().controller_namespace),
        own => own.into(),
    };
    let id = reader.id(&metadata.namespace, &metadata.name);
    let mut told = Telemetry {
        said_by: reader.edge_proxy(id).map(|_| id),
        ..Telemetry::default()
    };
    let Some(spec) = proxy.spec.telemetry.as_deref() else {
        return told;
    };
    let mut finder = collector::Finder {
        reader,
        home: &home,
        fleet,
        tls,
        found: Vec::new(),
        named: BTreeSet::new(),
    };
    if let Some(log) = spec.access_log.as_deref() {
        told.access_log = access_log::access_log(&mut finder, log, &mut told.problems);
    }
    if let Some(tracing) = spec.tracing.as_deref() {
        match tracing::tracing(&mut finder, tracing) {
            Ok(tracing) => told.tracing = Some(Arc::new(tracing)),
            Err(why) => told.problems.push(format!(
                "Invalid tracing backendRefs in the referenced EdgeProxy: {why}"
            )),
        }
    }
    match spec.health_check_log.as_deref().map(health_log::log).transpose() {
        Ok(log) => told.health_log = log,
        Err(why) => told
            .problems
            .push(format!("Invalid health check log in the referenced EdgeProxy: {why}")),
    }
    if let Some(metrics) = spec.metrics.as_deref() {
        told.take_metrics(&mut finder, metrics);
    }
    match request_id(spec) {
        Ok(request_id) => told.request_id = request_id,
        Err(why) => told.problems.push(why),
    }
    told.collectors = finder.found;
    told.named = finder.named;
    told.collectors.sort_by(|a, b| a.name.cmp(&b.name));
    told
}

impl Telemetry {
    /// Takes in what is said of metrics.
    fn take_metrics(&mut self, finder: &mut collector::Finder<'_, '_>, metrics: &ProxyMetrics) {
        self.stats = ClusterStats {
            endpoints: metrics.enable_per_endpoint_stats,
            sizes: metrics.enable_request_response_sizes_stats,
        };
        if metrics.enable_virtual_host_stats {
            self.host_stats = HostStats::Own;
        }
        let compression = metrics.prometheus.as_ref().and_then(|it| it.compression.as_ref());
        self.metrics_compressor = compression.and_then(|it| metrics_compressor(it, &mut self.problems));
        if metrics.enable_grpc_stats == Some(true) {
            self.counted_calls = CountedCalls::All;
        }
        self.kept_metrics = kept_metrics(metrics, &mut self.problems);
        self.metric_sinks = metrics::sinks(finder, metrics, &mut self.problems);
    }
}
