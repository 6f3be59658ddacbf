//! Histograms with Envoy's default buckets, in milliseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds; a last bucket without bound follows.
pub const BUCKETS: [u64; 19] = [
    500,
    1_000,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
];

/// A histogram of durations. One writer: the worker whose slot it is in.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Records a duration.
    pub fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let at = BUCKETS.iter().position(|bound| us <= *bound).unwrap_or(BUCKETS.len());
        let bucket = &self.buckets[at];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.sum_us
            .store(self.sum_us.load(Ordering::Relaxed).wrapping_add(us), Ordering::Relaxed);
    }
}

/// The sum of the histograms of all slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramValue {
    /// How many fell into each bucket (not cumulated); the last has no upper bound.
    pub buckets: [u64; BUCKETS.len() + 1],
    /// Sum of all durations in microseconds.
    pub sum_us: u64,
}

impl HistogramValue {
    /// Adds one slot.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum = sum.wrapping_add(bucket.load(Ordering::Relaxed));
        }
        self.sum_us = self.sum_us.wrapping_add(histogram.sum_us.load(Ordering::Relaxed));
    }

    /// What came since it was like another; `None` where it has less than that.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let mut since = self.clone();
        for (now, before) in since.buckets.iter_mut().zip(&before.buckets) {
            *now = now.checked_sub(*before)?;
        }
        since.sum_us = since.sum_us.checked_sub(before.sum_us)?;
        Some(since)
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}
