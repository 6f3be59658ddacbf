//! What hosts report of their load in responses (ORCA), and what that makes them weigh.
//!
//! Envoy's forms, `endpoint-load-metrics: TEXT …`, `JSON …` and `BIN …`, and `endpoint-load-metrics-bin` of gRPC,
//! in heads and in trailers. A report that can't be read, or that tells no load, changes nothing.

use std::collections::HashMap;
use std::time::Instant;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use prost::Message;
use serde_json::Value;

use crate::config::cluster::Cluster;
use crate::config::endpoint::Host;
use crate::config::load::{LoadWeights, Metric};

const REPORT: &str = "endpoint-load-metrics";
const REPORT_BIN: &str = "endpoint-load-metrics-bin";

/// gRPC leaves the padding away.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// `xds.data.orca.v3.OrcaLoadReport`, as far as weights are made of it.
#[derive(Clone, PartialEq, Message)]
struct Report {
    #[prost(double, tag = "1")]
    cpu_utilization: f64,
    #[prost(double, tag = "2")]
    mem_utilization: f64,
    #[prost(map = "string, double", tag = "5")]
    utilization: HashMap<String, f64>,
    #[prost(double, tag = "6")]
    rps_fractional: f64,
    #[prost(double, tag = "7")]
    eps: f64,
    #[prost(map = "string, double", tag = "8")]
    named_metrics: HashMap<String, f64>,
    #[prost(double, tag = "9")]
    application_utilization: f64,
}

/// A response, or what is behind it, has come from a host.
pub(crate) fn heard(cluster: &Cluster, host: &Host, fields: &HeaderMap) {
    let Some(settings) = &cluster.loads else { return };
    if let Some(report) = report(fields)
        && let Some(weight) = report.weight(settings)
    {
        host.vitals.reported.tell(weight, Instant::now());
    }
}

fn report(fields: &HeaderMap) -> Option<Report> {
    if let Some(value) = fields.get(REPORT_BIN) {
        return binary(value.as_bytes());
    }
    let value = fields.get(REPORT)?.to_str().ok()?;
    let (form, value) = value.split_once(' ')?;
    match form {
        "BIN" => binary(value.as_bytes()),
        "TEXT" => text(value),
        "JSON" => json(value),
        _ => None,
    }
}

fn binary(value: &[u8]) -> Option<Report> {
    Report::decode(&*BASE64.decode(value).ok()?).ok()
}

fn text(value: &str) -> Option<Report> {
    let mut report = Report::default();
    let mut seen = Vec::new();
    for entry in value.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) = entry.split_once(['=', ':'])?;
        let (name, value) = (name.trim(), value.trim());
        if seen.contains(&name) {
            return None;
        }
        seen.push(name);
        let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
        report.put(name, value)?;
    }
    Some(report)
}

/// Both forms of names are JSON forms of a message; what isn't known is passed over.
fn json(value: &str) -> Option<Report> {
    let Value::Object(fields) = serde_json::from_str(value).ok()? else {
        return None;
    };
    let map = |value: &Value| -> Option<HashMap<String, f64>> {
        let entries = value.as_object()?.iter();
        entries
            .map(|(name, value)| Some((name.clone(), number(value)?)))
            .collect()
    };
    let mut report = Report::default();
    for (name, value) in &fields {
        match name.as_str() {
            "named_metrics" | "namedMetrics" => report.named_metrics = map(value)?,
            "utilization" => report.utilization = map(value)?,
            "cpuUtilization" | "cpu_utilization" => report.cpu_utilization = number(value)?,
            "memUtilization" | "mem_utilization" => report.mem_utilization = number(value)?,
            "applicationUtilization" | "application_utilization" => report.application_utilization = number(value)?,
            "rpsFractional" | "rps_fractional" => report.rps_fractional = number(value)?,
            "eps" => report.eps = number(value)?,
            _ => {}
        }
    }
    Some(report)
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

impl Report {
    fn put(&mut self, name: &str, value: f64) -> Option<()> {
        if let Some(name) = name.strip_prefix("named_metrics.").filter(|name| !name.is_empty()) {
            self.named_metrics.insert(name.to_owned(), value);
            return Some(());
        }
        if let Some(name) = name.strip_prefix("utilization.").filter(|name| !name.is_empty()) {
            self.utilization.insert(name.to_owned(), value);
            return Some(());
        }
        let field = match name {
            "cpu_utilization" => &mut self.cpu_utilization,
            "mem_utilization" => &mut self.mem_utilization,
            "application_utilization" => &mut self.application_utilization,
            "rps_fractional" => &mut self.rps_fractional,
            "eps" => &mut self.eps,
            _ => return None,
        };
        *field = value;
        Some(())
    }

    fn figure(&self, metric: &Metric) -> f64 {
        let greatest = |values: &HashMap<String, f64>| values.values().copied().fold(0.0, f64::max);
        let one = |values: &HashMap<String, f64>, name: &str| values.get(name).copied().unwrap_or_default();
        match metric {
            Metric::Application => self.application_utilization,
            Metric::Cpu => self.cpu_utilization,
            Metric::Memory => self.mem_utilization,
            Metric::Named(name) => one(&self.named_metrics, name),
            Metric::Utilization(name) => one(&self.utilization, name),
            Metric::AnyNamed => greatest(&self.named_metrics),
            Metric::AnyUtilization => greatest(&self.utilization),
        }
    }

    /// Requests a second for the load that they make, errors counted in; `None` where either isn't told.
    fn weight(&self, settings: &LoadWeights) -> Option<u32> {
        if self.rps_fractional.is_nan() || self.rps_fractional <= 0.0 {
            return None;
        }
        let figures = settings.metrics.iter().map(|metric| self.figure(metric));
        let asked = figures.fold(0.0, f64::max);
        let load = [asked, self.application_utilization, self.cpu_utilization]
            .into_iter()
            .find(|load| *load > 0.0)
            .unwrap_or_default();
        let load = load + settings.error_penalty * self.eps / self.rps_fractional;
        // Beyond the greatest number it is the greatest.
        (load > 0.0).then(|| (self.rps_fractional / load) as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue};

    use super::*;

    fn settings(error_penalty: f64, metrics: &[Metric]) -> LoadWeights {
        LoadWeights {
            blackout: Duration::ZERO,
            expiration: Duration::from_secs(1),
            update: Duration::from_secs(1),
            error_penalty,
            metrics: metrics.into(),
        }
    }

    fn weight(name: &'static str, value: &str, settings: &LoadWeights) -> Option<u32> {
        let value = HeaderValue::from_str(value).unwrap();
        let fields = HeaderMap::from_iter([(HeaderName::from_static(name), value)]);
        report(&fields)?.weight(settings)
    }

    #[test]
    fn every_form_tells_the_same() {
        let plain = settings(0.0, &[]);
        let message = Report {
            rps_fractional: 100.0,
            cpu_utilization: 0.5,
            ..Report::default()
        };
        let binary = base64::engine::general_purpose::STANDARD.encode(message.encode_to_vec());
        let unpadded = binary.trim_end_matches('=');
        for (name, value) in [
            (REPORT, "TEXT rps_fractional=100, cpu_utilization=0.5"),
            (REPORT, "TEXT rps_fractional:100,cpu_utilization:0.5"),
            (
                REPORT,
                r#"JSON {"rps_fractional": 100, "cpuUtilization": "0.5", "more": {}}"#,
            ),
            (REPORT, &format!("BIN {binary}")),
            (REPORT_BIN, &*binary),
            (REPORT_BIN, unpadded),
        ] {
            assert_eq!(weight(name, value, &plain), Some(200), "{value}");
        }
    }

    #[test]
    fn what_is_no_report_or_tells_no_load_makes_no_weight() {
        let plain = settings(0.0, &[]);
        for value in [
            "rps_fractional=100,cpu_utilization=0.5",
            "CSV rps_fractional=100,cpu_utilization=0.5",
            "TEXT rps_fractional=100,cpu_utilization=x",
            "TEXT rps_fractional=100,cpu_utilization=inf",
            "TEXT rps_fractional=100,cpu_utilization=0.5,cpu_utilization=0.5",
            "TEXT rps_fractional=100,cpu_utilization=0.5,unknown=1",
            "TEXT cpu_utilization=0.5",
            "TEXT rps_fractional=100",
            "JSON []",
            "BIN *",
        ] {
            assert_eq!(weight(REPORT, value, &plain), None, "{value}");
        }
    }

    #[test]
    fn metrics_that_are_asked_for_come_first_and_errors_count() {
        let value = "TEXT rps_fractional=100,eps=10,cpu_utilization=0.1,application_utilization=0.2,\
                     named_metrics.a=0.4,named_metrics.b=0.8,utilization.c=0.5";
        let named = |name: &str| Metric::Named(name.into());
        for (metrics, penalty, expected) in [
            (vec![], 0.0, 500),
            (vec![Metric::Cpu], 0.0, 1000),
            (vec![named("a")], 0.0, 250),
            (vec![named("a"), Metric::Utilization("c".into())], 0.0, 200),
            (vec![Metric::AnyNamed], 0.0, 125),
            (vec![named("none")], 0.0, 500),
            (vec![], 3.0, 200),
        ] {
            assert_eq!(
                weight(REPORT, value, &settings(penalty, &metrics)),
                Some(expected),
                "{metrics:?}"
            );
        }
    }
}
