//! What an EdgeProxy says of access logs and traces, for all of its fleet.
//!
//! Who may write an EdgeProxy runs the proxies, so its references need no ReferenceGrant. What can't be honoured is left
//! out alone, and every Gateway of the fleet says so: nothing that serves depends on who listens in.

mod access_log;
mod cel;
pub(crate) mod collector;
mod formats;
mod metrics;
mod tracing;

use crate::{
    api::{EdgeProxy, Kind},
    engine::reader::Reader,
    name::{Ancestor, BackendPort, Id},
    phase::{backends::defaults, health_log},
};
use collector::Collector;
use edge_ir::{AccessLog, ClusterStats, FleetTracing, HealthLog, MetricSink};
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
    pub(crate) fn discovered(&self) -> BTreeSet<BackendPort> {
        let backends = self.collectors.iter().filter_map(Collector::backend);
        backends.map(|backend| backend.port).collect()
    }
}

/// Reads what an EdgeProxy says; a fleet goes by its key in logs and spans.
pub(crate) fn telemetry(reader: &Reader<'_>, proxy: &EdgeProxy, fleet: &str) -> Telemetry {
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
        tls: defaults::defaults(reader, proxy),
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
        told.stats = ClusterStats {
            endpoints: metrics.enable_per_endpoint_stats,
            sizes: metrics.enable_request_response_sizes_stats,
        };
        told.metric_sinks = metrics::sinks(&mut finder, metrics, &mut told.problems);
    }
    told.collectors = finder.found;
    told.named = finder.named;
    told.collectors.sort_by(|a, b| a.name.cmp(&b.name));
    told
}
