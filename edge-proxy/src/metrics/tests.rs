use std::time::Duration;

use http::HeaderValue;

use super::memory::Memory;
use super::otlp::MetricValue;
use super::*;
use crate::config::ClusterId;
use crate::config::collector::{Collector, Form};
use crate::config::metrics::{Naming, Sink, Temporality};
use crate::stats::{ClusterStats, WorkerIndex};

fn sink(temporality: Temporality) -> Sink {
    Sink {
        collector: Collector {
            cluster: ClusterId(0),
            cluster_name: "collector".into(),
            authority: HeaderValue::from_static("collector"),
            metadata: Box::default(),
            timeout: Duration::from_secs(1),
            patience: Duration::from_secs(1),
            full: 1,
            form: Form::OtlpMetrics {
                resource: Default::default(),
            },
        },
        interval: Duration::from_secs(5),
        counters: temporality,
        histograms: temporality,
        naming: Naming::Tagged,
        has_attributes: true,
        prefix: Box::default(),
        most: None,
    }
}

/// A round over a cluster, in the words of a test.
fn round(memory: &mut Memory, sink: &Sink, scope: &ClusterStats) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    memory.begin();
    of(scope, Family::Cluster, &Kept::All, &mut |sample| {
        let told = memory.told(sink, &sample);
        all.extend(told.map(|value| match value {
            MetricValue::Gauge(value) => (sample.name, value as u64),
            MetricValue::Counter(value) => (sample.name, value),
            MetricValue::Histogram(value) => (sample.name, value.count()),
        }));
    });
    memory.end();
    all
}

#[test]
fn what_was_never_used_is_not_told_and_what_was_is_until_it_is_gone() {
    let (mut memory, sink) = (Memory::default(), sink(Temporality::Cumulative));
    let scope = ClusterStats::new("cluster.a.", "a", 1);
    assert_eq!(round(&mut memory, &sink, &scope), []);
    let cells = scope.cells(WorkerIndex(0));
    cells.upstream_rq_total.inc();
    cells.upstream_rq_active.inc();
    let both = [("upstream_rq_total", 1), ("upstream_rq_active", 1)];
    assert_eq!(round(&mut memory, &sink, &scope), both);
    cells.upstream_rq_active.dec();
    let back = [("upstream_rq_total", 1), ("upstream_rq_active", 0)];
    assert_eq!(round(&mut memory, &sink, &scope), back, "a gauge that is 0 again");
    assert_eq!(round(&mut memory, &sink, &scope), back);
    // Another takes its place.
    memory.begin();
    memory.end();
    assert_eq!(round(&mut memory, &sink, &ClusterStats::new("cluster.a.", "a", 1)), []);
}

#[test]
fn differences_are_told_once_and_what_begins_anew_is_told_whole() {
    let (mut memory, sink) = (Memory::default(), sink(Temporality::Delta));
    let scope = ClusterStats::new("cluster.a.", "a", 1);
    let cells = scope.cells(WorkerIndex(0));
    cells.upstream_rq_total.add(5);
    cells.upstream_rq_time.record(Duration::from_millis(1));
    let first = [("upstream_rq_total", 5), ("upstream_rq_time", 1)];
    assert_eq!(round(&mut memory, &sink, &scope), first);
    assert_eq!(round(&mut memory, &sink, &scope), []);
    cells.upstream_rq_total.add(2);
    cells.upstream_rq_time.record(Duration::from_millis(1));
    cells.upstream_rq_time.record(Duration::from_millis(7));
    let second = [("upstream_rq_total", 2), ("upstream_rq_time", 2)];
    assert_eq!(round(&mut memory, &sink, &scope), second);
    let anew = ClusterStats::new("cluster.a.", "a", 1);
    anew.cells(WorkerIndex(0)).upstream_rq_total.add(3);
    anew.cells(WorkerIndex(0))
        .upstream_rq_time
        .record(Duration::from_millis(1));
    let whole = [("upstream_rq_total", 3), ("upstream_rq_time", 1)];
    assert_eq!(round(&mut memory, &sink, &anew), whole);
}

#[test]
fn what_varies_in_names_is_told_as_tags() {
    let sample = |family, prefix: &str, label: &str, name| Sample {
        family,
        prefix: prefix.into(),
        label: label.into(),
        name,
        value: Value::Counter(1),
    };
    for (sample, name, tags) in [
        (
            sample(Family::Cluster, "cluster.a.", "a", "upstream_rq_2xx"),
            "cluster.upstream_rq_xx",
            &[("envoy.cluster_name", "a"), ("envoy.response_code_class", "2")][..],
        ),
        (
            sample(Family::Listener, "listener.[__]_80.", "[__]_80", "ssl.handshake"),
            "listener.ssl.handshake",
            &[("envoy.listener_address", "[__]_80")],
        ),
        (
            sample(Family::Udp, "udp.dns.", "dns", "idle_timeout"),
            "udp.idle_timeout",
            &[("envoy.udp_prefix", "dns")],
        ),
        (
            sample(Family::Secret, "sds.www.", "www", "update_success"),
            "sds.update_success",
            &[("envoy.xds_resource_name", "www")],
        ),
        (
            sample(
                Family::Cluster,
                "cluster.a.",
                "a",
                "outlier_detection.ejections_enforced_consecutive_5xx",
            ),
            "cluster.outlier_detection.ejections_enforced_consecutive_5xx",
            &[("envoy.cluster_name", "a")],
        ),
        (sample(Family::Process, "", "", "server.live"), "server.live", &[]),
    ] {
        assert_eq!(
            (sample.tagged().as_str(), &*sample.tags().collect::<Vec<_>>()),
            (name, tags)
        );
    }
}

#[test]
fn classes_of_responses_are_told_from_other_names() {
    assert_eq!(class_of("downstream_rq_5xx"), Some(("downstream_rq", "5")));
    for name in [
        "xx",
        "rq_xx",
        "rq5xx",
        "upstream_rq_total",
        "upstream_rq_axx",
        "äxx",
        "outlier_detection.ejections_detected_consecutive_5xx",
        "outlier_detection.ejections_enforced_consecutive_5xx",
    ] {
        assert_eq!(class_of(name), None, "{name}");
    }
}
