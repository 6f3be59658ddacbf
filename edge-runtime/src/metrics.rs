//! The controller's own metrics: a closed list of series, counted in atomics, rendered as Prometheus text.
//!
//! No registry crate: the list is short, every label has few values that are known beforehand, and counting must not
//! take a lock. Deliberately absent: series by fleet or object, whose number users decide.

use edge_infra::ObjectKind;
use objects::Objects;
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

mod objects;
mod series;

pub use objects::{Deed, End};
pub use series::{Counter, Gauge, Timer};

/// Upper bounds of the buckets of every timer, in seconds.
const BOUNDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// All series and their values.
#[derive(Debug)]
pub struct Metrics {
    counters: [AtomicU64; Counter::ALL.len()],
    gauges: [AtomicI64; Gauge::ALL.len()],
    timers: [Buckets; Timer::ALL.len()],
    objects: Objects,
}

#[derive(Debug, Default)]
struct Buckets {
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            counters: std::array::from_fn(|_| AtomicU64::default()),
            gauges: std::array::from_fn(|_| AtomicI64::default()),
            timers: std::array::from_fn(|_| Buckets::default()),
            objects: Objects::default(),
        }
    }
}

impl Buckets {
    fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let slot = BOUNDS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BOUNDS.len());
        self.counts[slot].fetch_add(1, Ordering::Relaxed);
        self.sum_micros
            .fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts one event.
    pub fn count(&self, counter: Counter) {
        self.counters[counter as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts so much at once.
    pub fn count_by(&self, counter: Counter, by: usize) {
        self.counters[counter as usize].fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets a level.
    pub fn set(&self, gauge: Gauge, value: usize) {
        self.gauges[gauge as usize].store(i64::try_from(value).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Raises (or lowers) a level.
    pub fn add(&self, gauge: Gauge, by: i64) {
        self.gauges[gauge as usize].fetch_add(by, Ordering::Relaxed);
    }

    /// Records how long something took.
    pub fn observe(&self, timer: Timer, took: Duration) {
        self.timers[timer as usize].observe(took);
    }

    /// Records what was done with an object of a fleet.
    pub fn record(&self, kind: ObjectKind, deed: (Deed, End), took: Duration) {
        self.objects.record(kind, deed, took);
    }

    /// The value of a counter.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// All series in the text exposition format, version 0.0.4.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        for counter in Counter::ALL {
            let (name, labels, help) = counter.series();
            page.head(name, "counter", help);
            page.value(name, labels, &self.counted(counter));
            self.objects.follow_counter(counter, &mut page);
        }
        for gauge in Gauge::ALL {
            let (name, labels, help) = gauge.series();
            page.head(name, "gauge", help);
            page.value(name, labels, &self.gauges[gauge as usize].load(Ordering::Relaxed));
        }
        for timer in Timer::ALL {
            let (name, labels, help) = timer.series();
            page.head(name, "histogram", help);
            page.histogram(name, labels, &self.timers[timer as usize]);
            self.objects.follow_timer(timer, &mut page);
        }
        page.text
    }
}

#[derive(Default)]
struct Page {
    text: String,
    last: &'static str,
}

impl Page {
    /// The two lines above the first series of a name.
    fn head(&mut self, name: &'static str, kind: &str, help: &str) {
        if self.last != name {
            self.last = name;
            // Writing to a String can't fail.
            let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        }
    }

    fn value(&mut self, name: &str, labels: &str, value: &dyn std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            labels => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    fn histogram(&mut self, name: &str, labels: &str, buckets: &Buckets) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut total = 0;
        for (slot, count) in buckets.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = BOUNDS.get(slot).map_or("+Inf".to_owned(), f64::to_string);
            self.value(
                &format!("{name}_bucket"),
                &format!("{labels}{comma}le=\"{bound}\""),
                &total,
            );
        }
        let sum = Duration::from_micros(buckets.sum_micros.load(Ordering::Relaxed)).as_secs_f64();
        self.value(&format!("{name}_sum"), labels, &sum);
        self.value(&format!("{name}_count"), labels, &total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_rendered_with_their_values() {
        let metrics = Metrics::default();
        metrics.count(Counter::NackCluster);
        metrics.count(Counter::NackCluster);
        metrics.set(Gauge::Streams, 3);
        metrics.observe(Timer::Translate, Duration::from_millis(2));
        metrics.observe(Timer::Translate, Duration::from_secs(60));
        let page = metrics.render();
        assert!(page.contains("\nxds_nack_total{type=\"cluster\"} 2\n"), "{page}");
        assert!(page.contains("\nxds_streams 3\n"), "{page}");
        assert!(
            page.contains("\ntranslate_duration_seconds_bucket{le=\"0.001\"} 0\n"),
            "{page}"
        );
        assert!(
            page.contains("\ntranslate_duration_seconds_bucket{le=\"0.0025\"} 1\n"),
            "{page}"
        );
        assert!(
            page.contains("\ntranslate_duration_seconds_bucket{le=\"+Inf\"} 2\n"),
            "{page}"
        );
        assert!(page.contains("\ntranslate_duration_seconds_sum 60.002\n"), "{page}");
        assert_eq!(page.matches("# TYPE xds_nack_total counter").count(), 1);
    }

    #[test]
    fn every_series_is_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        let all = Counter::ALL
            .iter()
            .map(|c| c.series())
            .chain(Gauge::ALL.iter().map(|g| g.series()));
        for (name, labels, _) in all.chain(Timer::ALL.iter().map(|t| t.series())) {
            assert!(seen.insert((name, labels)), "{name}{{{labels}}} stands twice");
        }
    }
}
