//! `/stats` and `/stats/prometheus`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;
use regex::Regex;

use crate::admin::{Answer, parameter};
use crate::config::Snapshot;
use crate::config::listener::Network;
use crate::control::Control;
use crate::shared::Shared;
use crate::stats::{BUCKETS, HistogramValue, Merge, Scope, Value};

/// One merged value with where it belongs.
pub(super) struct Sample {
    /// `cluster`, `http`, `tcp`, `udp`, `listener`, or empty for the process.
    family: &'static str,
    /// The cluster's name and so on.
    label: Arc<str>,
    /// The name within the family.
    name: &'static str,
    /// The whole name in Envoy's dotted form.
    full: String,
    value: Value,
}

/// All values of the scopes of a snapshot and of the process.
pub(super) fn samples(shared: &Shared, snapshot: &Snapshot) -> Vec<Sample> {
    let mut samples = Vec::new();
    add(&mut samples, "", &*shared.stats);
    let mut clusters = BTreeMap::new();
    for entry in snapshot.clusters.iter().flatten() {
        clusters.insert(entry.cluster.stats.label.clone(), entry.cluster.stats.clone());
    }
    let mut listeners = BTreeMap::new();
    let mut managers = BTreeMap::new();
    let mut streams = BTreeMap::new();
    let mut datagrams = BTreeMap::new();
    for listener in snapshot.listeners.values() {
        listeners.insert(listener.stats.label.clone(), listener.stats.clone());
        for chain in listener.chains.all() {
            match &chain.network {
                Network::Http(http) => drop(managers.insert(http.stats.label.clone(), http.stats.clone())),
                Network::Tcp(proxy) | Network::Passthrough(proxy) => {
                    drop(streams.insert(proxy.stats.label.clone(), proxy.stats.clone()))
                }
            }
        }
        if let Some(proxy) = &listener.udp {
            datagrams.insert(proxy.stats.label.clone(), proxy.stats.clone());
        }
    }
    clusters
        .values()
        .for_each(|scope| add(&mut samples, "cluster", &**scope));
    managers.values().for_each(|scope| add(&mut samples, "http", &**scope));
    streams.values().for_each(|scope| add(&mut samples, "tcp", &**scope));
    datagrams.values().for_each(|scope| add(&mut samples, "udp", &**scope));
    listeners
        .values()
        .for_each(|scope| add(&mut samples, "listener", &**scope));
    samples
}

fn add<C>(samples: &mut Vec<Sample>, family: &'static str, scope: &Scope<C>)
where
    Scope<C>: Merge,
{
    scope.merge(&mut |name, value| {
        let full = format!("{}{name}", scope.prefix);
        samples.push(Sample {
            family,
            label: scope.label.clone(),
            name,
            full,
            value,
        });
    });
}

/// `/stats`
pub(super) fn stats(control: &Control, query: &str) -> Answer {
    if parameter(query, "format") == Some("prometheus") {
        return prometheus(control, query);
    }
    let kept = match kept(control, query) {
        Ok(kept) => kept,
        Err(answer) => return answer,
    };
    if parameter(query, "format") == Some("json") {
        let list: Vec<serde_json::Value> = kept
            .iter()
            .filter_map(|sample| match &sample.value {
                Value::Counter(value) => Some(serde_json::json!({ "name": sample.full, "value": value })),
                Value::Gauge(value) => Some(serde_json::json!({ "name": sample.full, "value": value })),
                Value::Histogram(_) => None,
            })
            .collect();
        return Answer::json(serde_json::json!({ "stats": list }).to_string());
    }
    let mut lines: Vec<String> = kept
        .iter()
        .map(|sample| match &sample.value {
            Value::Counter(value) => format!("{}: {value}\n", sample.full),
            Value::Gauge(value) => format!("{}: {value}\n", sample.full),
            Value::Histogram(value) => format!("{}: {}\n", sample.full, summary(value)),
        })
        .collect();
    lines.sort();
    Answer::text(lines.concat())
}

/// The samples that the query asks for.
fn kept(control: &Control, query: &str) -> Result<Vec<Sample>, Answer> {
    let filter = match parameter(query, "filter").filter(|filter| !filter.is_empty()) {
        None => None,
        Some(filter) => match Regex::new(&decode(filter)) {
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
    let snapshot = control.shared.snapshot.borrow().clone();
    let samples = samples(&control.shared, &snapshot).into_iter();
    Ok(samples
        .filter(|sample| !used_only || used(&sample.value))
        .filter(|sample| filter.as_ref().is_none_or(|filter| filter.is_match(&sample.full)))
        .collect())
}

fn used(value: &Value) -> bool {
    match value {
        Value::Counter(value) => *value != 0,
        Value::Gauge(value) => *value != 0,
        Value::Histogram(value) => value.count() != 0,
    }
}

/// Undoes percent escapes; what is not one stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, escape.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn summary(value: &HistogramValue) -> String {
    if value.count() == 0 {
        return "No recorded values".to_owned();
    }
    let mean = value.sum_us as f64 / 1000.0 / value.count() as f64;
    format!("count {} mean {mean:.3} ms", value.count())
}

/// `/stats/prometheus`
pub(super) fn prometheus(control: &Control, query: &str) -> Answer {
    match kept(control, query) {
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

/// Metric name and labels. `…_2xx` becomes `…_xx{envoy_response_code_class="2"}`, as in Envoy.
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
        "cluster" => ("envoy_cluster_", "envoy_cluster_name"),
        "http" => ("envoy_http_", "envoy_http_conn_manager_prefix"),
        "tcp" => ("envoy_tcp_", "envoy_tcp_prefix"),
        "udp" => ("envoy_udp_", "envoy_udp_prefix"),
        "listener" => ("envoy_listener_", "envoy_listener_address"),
        _ => ("envoy_", ""),
    };
    if !label.is_empty() {
        labels.push(format!("{label}=\"{}\"", escape(&sample.label)));
    }
    (format!("{prefix}{name}"), labels.join(","))
}

fn class_of(name: &str) -> Option<(&str, char)> {
    let stem = name.strip_suffix("xx")?;
    let class = stem.chars().next_back().filter(char::is_ascii_digit)?;
    Some((stem.strip_suffix(class)?.strip_suffix('_')?, class))
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
