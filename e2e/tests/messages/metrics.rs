//! Metrics that are pushed: both data planes get the same requests, and must tell collectors the same of them.

use crate::bench::{Bench, Socket, backend, cluster, data_planes, endpoint, listener};
use e2e::{
    collector::{Collector, Heard},
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use envoy_types::pb::opentelemetry::proto::common::v1::{KeyValue, KeyValueList, any_value};
use prost::Message;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SINK: &str = "type.googleapis.com/envoy.extensions.stat_sinks.open_telemetry.v3.SinkConfig";
const DETECTOR: &str = "type.googleapis.com/envoy.extensions.tracers.opentelemetry.resource_detectors.v3";
const OPTIONS: &str = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// `opentelemetry.proto.collector.metrics.v1.ExportMetricsServiceRequest` and what is in it.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    /// A resource looks like a list of pairs.
    #[prost(message, optional, tag = "1")]
    resource: Option<KeyValueList>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "5")]
    gauge: Option<Sum>,
    #[prost(message, optional, tag = "7")]
    sum: Option<Sum>,
    #[prost(message, optional, tag = "9")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Number>,
    #[prost(int32, tag = "2")]
    temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(fixed64, tag = "2")]
    start: u64,
    #[prost(fixed64, tag = "3")]
    time: u64,
    #[prost(sfixed64, tag = "6")]
    value: i64,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Distribution>,
    #[prost(int32, tag = "2")]
    temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Distribution {
    #[prost(fixed64, tag = "2")]
    start: u64,
    #[prost(fixed64, tag = "3")]
    time: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    buckets: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

/// One value, in words that can be compared.
#[derive(Clone, Debug)]
struct Point {
    /// Kind, name and attributes.
    what: String,
    value: i64,
    start: u64,
    time: u64,
}

fn pairs(list: &[KeyValue]) -> BTreeMap<String, String> {
    let pair = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => (pair.key.clone(), text.clone()),
        other => panic!("{}: {other:?}", pair.key),
    };
    list.iter().map(pair).collect()
}

/// The values of a call, each beside its metric alone, as both data planes tell them.
fn points(heard: &Heard) -> Vec<Point> {
    let export = Export::decode(heard.message.as_slice()).unwrap();
    let of_resources = export.resource_metrics.into_iter();
    let metrics = of_resources
        .flat_map(|one| one.scope_metrics)
        .flat_map(|one| one.metrics);
    let mut all = Vec::new();
    for metric in metrics {
        let number = |kind: &str, sum: Sum| {
            let [point] = sum.data_points.try_into().unwrap();
            let (name, attributes) = (&metric.name, pairs(&point.attributes));
            Point {
                what: format!("{kind} {name} {attributes:?} {} {}", sum.temporality, sum.is_monotonic),
                value: point.value,
                start: point.start,
                time: point.time,
            }
        };
        if let Some(gauge) = metric.gauge.clone() {
            all.push(number("gauge", gauge));
        }
        if let Some(sum) = metric.sum.clone() {
            all.push(number("sum", sum));
        }
        if let Some(histogram) = metric.histogram {
            let [point] = histogram.data_points.try_into().unwrap();
            assert_eq!(point.buckets.len(), point.bounds.len() + 1, "{}", metric.name);
            assert_eq!(point.buckets.iter().sum::<u64>(), point.count, "{}", metric.name);
            assert!(point.sum.is_some_and(|sum| sum >= 0.0), "{}", metric.name);
            let (name, attributes) = (&metric.name, pairs(&point.attributes));
            all.push(Point {
                what: format!(
                    "histogram {name} {attributes:?} {} {:?}",
                    histogram.temporality, point.bounds
                ),
                value: i64::try_from(point.count).unwrap(),
                start: point.start,
                time: point.time,
            });
        }
    }
    all
}

fn collector(name: &str, at: &Collector) -> Value {
    let mut cluster = cluster(name, &[endpoint(at.address)]);
    cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": OPTIONS, "explicit_http_config": {"http2_protocol_options": {}},
    }});
    cluster
}

/// A sink that is a cluster, with more settings.
fn sink(cluster: &str, more: Value) -> Value {
    let mut config = json!({
        "@type": SINK,
        "grpc_service": {
            "envoy_grpc": {"cluster_name": cluster, "authority": "metrics.example.com"},
            "initial_metadata": [{"key": "x-token", "value": "t"}],
        },
    });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"name": "envoy.stat_sinks.open_telemetry", "typed_config": config})
}

/// A proxy that pushes to these, with more of the bootstrap.
fn bench(plane: &DataPlane, sinks: &[(&str, Value, &Collector)], more: Value) -> Bench {
    let (address, seen) = backend("ok");
    let mut clusters = vec![cluster("backend", &[endpoint(address)])];
    clusters.extend(sinks.iter().map(|(name, _, at)| collector(name, at)));
    let web = Socket {
        manager: json!({"route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/direct"}, "direct_response": {"status": 418}},
            {"match": {"prefix": "/here"}, "route": {"cluster": "backend"}},
        ]}]}}),
        ..Socket::of("web")
    };
    let mut bootstrap = json!({
        "stats_flush_interval": "0.2s",
        "stats_sinks": sinks.iter().map(|(name, more, _)| sink(name, more.clone())).collect::<Vec<_>>(),
    });
    bootstrap
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let listeners = [("web", listener(&web))];
    Bench::with_bootstrap(&clusters, plane, "x-envoy", &listeners, &bootstrap).reporting(seen)
}

/// Three requests that a backend answers and one that the proxy does.
fn ask(bench: &Bench) {
    for path in ["/here", "/here/too", "/here", "/direct"] {
        let status = bench
            .send("web", &format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"))
            .status;
        assert_eq!(status, if path == "/direct" { 418 } else { 200 });
    }
}

fn heard(collector: &Collector) -> Vec<Point> {
    collector.heard(EXPORT).iter().flat_map(points).collect()
}

/// Waits until what a collector was told amounts to the requests of so many rounds, and gives what it was told.
fn told(collector: &Collector, rounds: i64, amount: impl Fn(&[Point], &str) -> i64) -> Vec<Point> {
    let wanted = |all: &[Point]| {
        [
            "histogram cluster.upstream_rq_time ",
            "histogram http.downstream_rq_time ",
            "sum http.downstream_cx_destroy ",
        ]
        .map(|name| amount(all, name))
    };
    let told = wait_for("metrics of all requests", PATIENCE, || {
        let all = heard(collector);
        Ok((wanted(&all) == [3 * rounds, 4 * rounds, 4 * rounds]).then_some(all))
    });
    told.unwrap_or_else(|error| panic!("{error:#}: {:?} of {rounds}", wanted(&heard(collector))))
        .0
}

/// The value that was told last.
fn last(all: &[Point], name: &str) -> i64 {
    let mut found = all.iter().filter(|one| is_of(one, name));
    found.next_back().map_or(0, |one| one.value)
}

fn sum(all: &[Point], name: &str) -> i64 {
    all.iter().filter(|one| is_of(one, name)).map(|one| one.value).sum()
}

/// Whether it is of the listener or the backend that the requests are about, by the end of its name.
fn is_of(point: &Point, name: &str) -> bool {
    let is_about = point.what.contains("\"web\"") || point.what.contains("\"backend\"");
    is_about && point.what.contains(name)
}

#[test]
fn collectors_are_told_the_same() {
    let mut planes = Vec::new();
    for (name, plane) in data_planes() {
        let [all, since, whole] = [(); 3].map(|()| Collector::start().unwrap());
        let deltas = json!({"report_counters_as_deltas": true, "report_histograms_as_deltas": true,
        "resource_detectors": [{"name": "static", "typed_config": {
            "@type": format!("{DETECTOR}.StaticConfigResourceDetectorConfig"),
            "attributes": {"service.name": "edge", "a": "b"},
        }}]});
        let named = json!({"use_tag_extracted_name": false, "emit_tags_as_attributes": false, "prefix": "edge"});
        let sinks = [
            ("all", json!({}), &all),
            ("since", deltas, &since),
            ("whole", named, &whole),
        ];
        let bench = bench(&plane, &sinks, json!({}));
        ask(&bench);

        told(&since, 1, sum);
        ask(&bench);
        let cumulative = told(&all, 2, last);
        let differences = told(&since, 2, sum);
        for point in &cumulative {
            let is_gauge = point.what.starts_with("gauge ");
            assert_eq!(point.start == 0, is_gauge, "{name}: {point:?}");
            assert!(is_gauge || point.start < point.time, "{name}: {point:?}");
        }
        let starts: BTreeSet<u64> = differences
            .iter()
            .map(|one| one.start)
            .filter(|start| *start > 0)
            .collect();
        assert!(starts.len() > 1, "{name}: differences are told since the call before");
        let call = &since.heard(EXPORT)[0];
        assert_eq!(call.fields["x-token"], "t", "{name}");
        assert_eq!(call.fields["content-type"], "application/grpc", "{name}");
        let names = wait_for("whole names", PATIENCE, || {
            let names: BTreeSet<_> = heard(&whole).into_iter().map(|one| one.what).collect();
            let wanted = "sum edge.cluster.backend.upstream_rq_2xx {} 2 true";
            Ok(names.contains(wanted).then_some(names))
        });
        assert!(
            names
                .unwrap()
                .0
                .contains("sum edge.http.web.downstream_rq_4xx {} 2 true"),
            "{name}"
        );
        planes.push((
            resource(&since),
            resource(&all),
            latest(&cumulative),
            latest(&differences),
        ));
    }
    let [ours, theirs] = planes.try_into().unwrap();
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
    for (ours, theirs) in [(ours.2, theirs.2), (ours.3, theirs.3)] {
        let is_other = |(what, value): &(&String, &i64)| match theirs.get(*what) {
            // Clients and backends see other fields, and what is open is of the moment.
            Some(_) if what.contains("bytes") || what.starts_with("gauge ") => false,
            other => other != Some(*value),
        };
        let other: Vec<_> = ours.iter().filter(is_other).collect();
        assert!(other.is_empty(), "Envoy doesn't tell {other:#?}\nbut {theirs:#?}");
    }
}

/// The attributes of a resource; what made them is another program.
fn resource(collector: &Collector) -> BTreeMap<String, String> {
    let export = Export::decode(collector.heard(EXPORT)[0].message.as_slice()).unwrap();
    let mut all = pairs(&export.resource_metrics[0].resource.clone().unwrap().values);
    for (name, value) in &mut all {
        if name.starts_with("telemetry.sdk.") {
            value.clear();
        }
    }
    all
}

/// What was told of the backend, the connection manager and the listener that requests came to, with its last value.
fn latest(all: &[Point]) -> BTreeMap<String, i64> {
    let about = all
        .iter()
        .filter(|one| is_of(one, "") || one.what.contains("listener."));
    about.map(|one| (without_ports(&one.what), one.value)).collect()
}

/// The ports of listeners are others for each proxy.
fn without_ports(text: &str) -> String {
    match text.split_once("127.0.0.1_") {
        Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => text.to_owned(),
    }
}

#[test]
fn what_is_kept_is_told_and_nothing_else() {
    let patterns = |list: Value| json!({"patterns": list});
    for (matcher, is_kept) in [
        (
            json!({"inclusion_list": patterns(json!([
                {"prefix": "cluster.backend.upstream_rq_2"}, {"suffix": ".downstream_rq_total"},
                {"safe_regex": {"regex": "http\\.w.*_4xx"}}, {"exact": "server.live"},
            ]))}),
            [true, true, true, true, false],
        ),
        (
            json!({"exclusion_list": patterns(json!([
                {"prefix": "http.web."}, {"exact": "cluster.backend.upstream_rq_total"},
                {"safe_regex": {"regex": "rq_2xx"}},
            ]))}),
            [true, false, false, true, false],
        ),
        (json!({"reject_all": true}), [false; 5]),
    ] {
        for (name, plane) in data_planes() {
            let collector = Collector::start().unwrap();
            let config = json!({"stats_config": {"stats_matcher": matcher}});
            let named = json!({"use_tag_extracted_name": false});
            let bench = bench(&plane, &[("all", named, &collector)], config);
            ask(&bench);
            let wanted = [
                "cluster.backend.upstream_rq_2xx",
                "http.web.downstream_rq_total",
                "http.web.downstream_rq_4xx",
                "server.live",
                "cluster.backend.upstream_rq_total",
            ];
            let stats = bench.stats();
            let there = wanted.map(|name| stats.lines().any(|line| line.starts_with(&format!("{name}:"))));
            assert_eq!(there, is_kept, "{name}: {matcher}");
            if is_kept == [false; 5] {
                assert_eq!(stats, "", "{name}");
                continue;
            }
            let pushed = |what: &str| {
                heard(&collector)
                    .iter()
                    .any(|one| one.what.contains(&format!(" {what} ")))
            };
            wait_for("what is kept", PATIENCE, || {
                let all = wanted.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept);
                Ok(all.into_iter().all(|(what, _)| pushed(what)).then_some(()))
            })
            .unwrap();
            assert_eq!(wanted.map(pushed), is_kept, "{name}: {matcher}");
        }
    }
}

#[test]
fn calls_have_as_many_values_as_they_may() {
    for (name, plane) in data_planes() {
        let collector = Collector::start().unwrap();
        let most = json!({"max_data_points_per_request": 7});
        let bench = bench(&plane, &[("all", most, &collector)], json!({}));
        ask(&bench);
        told(&collector, 1, last);
        let calls = collector.heard(EXPORT);
        let sizes: BTreeSet<usize> = calls.iter().map(|one| points(one).len()).collect();
        assert!(calls.len() > 1 && sizes.last() == Some(&7), "{name}: {sizes:?}");
    }
}

#[test]
fn what_there_is_at_the_end_is_told() {
    // Envoy gathers it too, and ends before its call goes out.
    let collector = Collector::start().unwrap();
    let seldom = json!({"stats_flush_interval": "299s"});
    let bench = bench(&DataPlane::EdgeProxy, &[("all", json!({}), &collector)], seldom);
    ask(&bench);
    assert!(collector.heard(EXPORT).is_empty());
    bench.order("/quitquitquit");
    let is_told = |name: &str| {
        let name = format!("sum {name} ");
        heard(&collector).iter().any(|one| one.what.starts_with(&name))
    };
    wait_for("the last metrics", PATIENCE, || {
        Ok((is_told("cluster.upstream_rq_xx") && is_told("http.downstream_rq_total")).then_some(()))
    })
    .unwrap();
}
