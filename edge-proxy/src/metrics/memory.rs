//! What a sink was told, and what follows from that for what it is told next.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::metrics::{Sink, Temporality};
use crate::metrics::Sample;
use crate::metrics::otlp::MetricValue;
use crate::stats::{HistogramValue, Value};

/// What was told, by the parts of names. What was never used isn't told, and isn't in here.
#[derive(Debug, Default)]
pub(super) struct Memory {
    scopes: FxHashMap<Arc<str>, ScopeMemory>,
    round: u64,
}

/// What was told of a scope.
#[derive(Debug, Default)]
struct ScopeMemory {
    values: FxHashMap<&'static str, Value>,
    /// When it was there last.
    round: u64,
}

impl Memory {
    /// Begins a round, in which all that there is comes by.
    pub(super) fn begin(&mut self) {
        self.round += 1;
    }

    /// Forgets what wasn't there any more.
    pub(super) fn end(&mut self) {
        let round = self.round;
        self.scopes.retain(|_, known| known.round == round);
    }

    /// What is told of a value, if anything is.
    pub(super) fn told(&mut self, sink: &Sink, sample: &Sample) -> Option<MetricValue> {
        let is_zero = match &sample.value {
            Value::Counter(value) => *value == 0,
            Value::Gauge(value) => *value == 0,
            Value::Histogram(value) => value.count() == 0,
        };
        let known = match self.scopes.get_mut(&sample.prefix) {
            Some(known) => known,
            None if is_zero => return None,
            None => self.scopes.entry(Arc::clone(&sample.prefix)).or_default(),
        };
        known.round = self.round;
        if is_zero && !known.values.contains_key(sample.name) {
            return None;
        }
        let before = known.values.insert(sample.name, sample.value.clone());
        match &sample.value {
            Value::Gauge(value) => Some(MetricValue::Gauge(*value)),
            Value::Counter(value) => counter(sink.counters, *value, before),
            Value::Histogram(value) => histogram(sink.histograms, value, before),
        }
    }
}

fn counter(temporality: Temporality, value: u64, before: Option<Value>) -> Option<MetricValue> {
    if temporality == Temporality::Cumulative {
        return Some(MetricValue::Counter(value));
    }
    let since = match before {
        // What is smaller has begun anew.
        Some(Value::Counter(before)) if before <= value => value - before,
        _ => value,
    };
    Some(since).filter(|since| *since > 0).map(MetricValue::Counter)
}

fn histogram(temporality: Temporality, value: &HistogramValue, before: Option<Value>) -> Option<MetricValue> {
    if temporality == Temporality::Cumulative {
        return Some(MetricValue::Histogram(Box::new(value.clone())));
    }
    let since = match before {
        Some(Value::Histogram(before)) => value.since(&before),
        _ => None,
    };
    let told = since.unwrap_or_else(|| value.clone());
    Some(told)
        .filter(|told| told.count() > 0)
        .map(|told| MetricValue::Histogram(Box::new(told)))
}
