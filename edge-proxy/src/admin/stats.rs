//! `/stats` and `/stats/prometheus`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::StatusCode;
use regex::Regex;

use crate::admin::{Admin, Answer, parameter};
use crate::metrics::{Family, Sample, class_of, samples};
use crate::percent;
use crate::stats::{BUCKETS, HistogramValue, Value};

/// `/stats`
pub(super) fn stats(admin: &Admin, query: &str) -> Answer {
    match parameter(query, "format") {
        Some("prometheus") => return prometheus(admin, query),
        // A page for browsers is a text here.
        None | Some("" | "text" | "json" | "html" | "active-html") => {}
        Some(_) => {
            let usage = "usage: /stats?format=(json|prometheus|text)\n";
            return Answer::error(StatusCode::BAD_REQUEST, usage);
        }
    }
    let kept = match kept(admin, query) {
        Ok(kept) => kept,
        Err(answer) => return answer,
    };
    if parameter(query, "format") == Some("json") {
        let list: Vec<serde_json::Value> = kept
            .iter()
            .filter_map(|sample| match &sample.value {
                Value::Counter(value) => Some(serde_json::json!({ "name": sample.full(), "value": value })),
                Value::Gauge(value) => Some(serde_json::json!({ "name": sample.full(), "value": value })),
                Value::Histogram(_) => None,
            })
            .collect();
        return Answer::json(serde_json::json!({ "stats": list }).to_string());
    }
    let mut lines: Vec<String> = kept
        .iter()
        .map(|sample| match &sample.value {
            Value::Counter(value) => format!("{}: {value}\n", sample.full()),
            Value::Gauge(value) => format!("{}: {value}\n", sample.full()),
            Value::Histogram(value) => format!("{}: {}\n", sample.full(), summary(value)),
        })
        .collect();
    lines.sort();
    Answer::text(lines.concat())
}

/// The samples that the query asks for.
fn kept(admin: &Admin, query: &str) -> Result<Vec<Sample>, Answer> {
    let filter = match parameter(query, "filter").filter(|filter| !filter.is_empty()) {
        None => None,
        Some(filter) => match Regex::new(&percent::decode(filter)) {
            Ok(regex) => Some(regex),
            Err(error) => {
                return Err(Answer::error(
                    StatusCode::BAD_REQUEST,
                    format!("invalid filter: {error}\n"),
                ));
            }
        },
    };
    let used_only = parameter(query, "usedonly").is_some();
    let shared = &admin.control.shared;
    let snapshot = shared.snapshot.borrow().clone();
    let samples = samples(shared, &snapshot, &admin.bootstrap.kept).into_iter();
    Ok(samples
        .filter(|sample| !used_only || used(&sample.value))
        .filter(|sample| filter.as_ref().is_none_or(|filter| filter.is_match(&sample.full())))
        .collect())
}

fn used(value: &Value) -> bool {
    match value {
        Value::Counter(value) => *value != 0,
        Value::Gauge(value) => *value != 0,
        Value::Histogram(value) => value.count() != 0,
    }
}

fn summary(value: &HistogramValue) -> String {
    if value.count() == 0 {
        return "No recorded values".to_owned();
    }
    let mean = value.sum_us as f64 / 1000.0 / value.count() as f64;
    format!("count {} mean {mean:.3} ms", value.count())
}

/// `/stats/prometheus`
pub(super) fn prometheus(admin: &Admin, query: &str) -> Answer {
    match kept(admin, query) {
        Ok(kept) => Answer::text(exposition(&kept)),
        Err(answer) => answer,
    }
}

/// The text format, with Envoy's metric names and labels.
pub(super) fn exposition(samples: &[Sample]) -> String {
    let mut metrics: BTreeMap<String, (&'static str, String)> = BTreeMap::new();
    for sample in samples {
        let (name, labels) = metric(sample);
        let kind = match &sample.value {
            Value::Counter(_) => "counter",
            Value::Gauge(_) => "gauge",
            Value::Histogram(_) => "histogram",
        };
        let (_, lines) = metrics.entry(name.clone()).or_insert_with(|| (kind, String::new()));
        // Writing to a String can't fail.
        let _ = match &sample.value {
            Value::Counter(value) => writeln!(lines, "{name}{{{labels}}} {value}"),
            Value::Gauge(value) => writeln!(lines, "{name}{{{labels}}} {value}"),
            Value::Histogram(value) => histogram(lines, &name, &labels, value),
        };
    }
    let mut text = String::new();
    for (name, (kind, lines)) in metrics {
        let _ = write!(text, "# TYPE {name} {kind}\n{lines}");
    }
    text
}

fn histogram(lines: &mut String, name: &str, labels: &str, value: &HistogramValue) -> std::fmt::Result {
    let comma = if labels.is_empty() { "" } else { "," };
    let mut sum = 0;
    for (bound, count) in BUCKETS.iter().zip(&value.buckets) {
        sum += count;
        let bound = *bound as f64 / 1000.0;
        writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {sum}")?;
    }
    writeln!(lines, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", value.count())?;
    writeln!(lines, "{name}_sum{{{labels}}} {}", value.sum_us as f64 / 1000.0)?;
    writeln!(lines, "{name}_count{{{labels}}} {}", value.count())
}

/// Metric name and labels. `…_rq_2xx` becomes `…_rq_xx{envoy_response_code_class="2"}`, as in Envoy.
fn metric(sample: &Sample) -> (String, String) {
    let name = sample.name.replace('.', "_");
    let mut labels = Vec::new();
    let name = match class_of(&name) {
        Some((stem, class)) => {
            labels.push(format!("envoy_response_code_class=\"{class}\""));
            format!("{stem}_xx")
        }
        None => name,
    };
    let (prefix, label) = match sample.family {
        Family::Cluster => ("envoy_cluster_", "envoy_cluster_name"),
        Family::Http => ("envoy_http_", "envoy_http_conn_manager_prefix"),
        Family::Tcp => ("envoy_tcp_", "envoy_tcp_prefix"),
        Family::Udp => ("envoy_udp_", "envoy_udp_prefix"),
        Family::Listener => ("envoy_listener_", "envoy_listener_address"),
        Family::Secret => ("envoy_sds_", "envoy_xds_resource_name"),
        Family::Process => ("envoy_", ""),
    };
    if !label.is_empty() {
        labels.push(format!("{label}=\"{}\"", escape(&sample.label)));
    }
    (format!("{prefix}{name}"), labels.join(","))
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
