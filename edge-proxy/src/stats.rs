//! Counters, gauges and histograms, under Envoy's names.
//!
//! One slot of cells per worker in every scope (server, listener, connection manager, cluster), merged when
//! somebody reads them. A worker only ever writes its own slot, so counting is a load and a store without lock or
//! contention. The names are a closed set, known at compile time; what varies is the scope (a cluster's name …), which
//! is registered when configuration is compiled. Nothing is registered while a request is served.
//! Deliberately absent: labels beyond what Envoy's names carry, and any clock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

mod groups;
mod histogram;
mod secrets;
#[cfg(test)]
mod tests;

pub use groups::{
    ClusterCells, ClusterStats, ConnectionManagerCells, HttpStats, ListenerCells, ListenerStats, SecretCells,
    SecretStats, ServerCells, ServerStats, TcpCells, TcpStats, UdpCells, UdpStats,
};
pub use histogram::{BUCKETS, Histogram, HistogramValue};
pub use secrets::SecretScopes;

/// The index of a worker thread, 0 and up; the slot it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerIndex(pub usize);

/// A number that only grows. One writer: the worker whose slot it is in.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds.
    pub fn add(&self, n: u64) {
        // Not fetch_add: the slot has one writer, and a plain store costs no bus lock.
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value of this slot.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down. One writer: the worker whose slot it is in; increments and decrements of one thing
/// happen on the same worker.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Takes one off.
    pub fn dec(&self) {
        self.add(-1);
    }

    /// Adds.
    pub fn add(&self, n: i64) {
        self.0
            .store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets.
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value of this slot.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one host, shared by all workers (they decide about load, so every worker must see the sum).
#[derive(Debug, Default)]
pub struct HostStats {
    /// Requests in flight.
    pub rq_active: AtomicI64,
    /// Requests sent.
    pub rq_total: AtomicU64,
    /// Requests that failed (5xx, reset, timeout).
    pub rq_error: AtomicU64,
    /// Requests that succeeded.
    pub rq_success: AtomicU64,
    /// Requests that met their deadline.
    pub rq_timeout: AtomicU64,
    /// Open connections.
    pub cx_active: AtomicI64,
    /// Connections opened.
    pub cx_total: AtomicU64,
    /// Connections that could not be opened.
    pub cx_connect_fail: AtomicU64,
}

/// One merged value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter.
    Counter(u64),
    /// Of a gauge.
    Gauge(i64),
    /// Of a histogram.
    Histogram(Box<HistogramValue>),
}

/// A scope: the same cells for every worker.
#[derive(Debug)]
pub struct Scope<C> {
    /// What stands before the names: `cluster.<name>.` and so on.
    pub prefix: Arc<str>,
    /// What varies in the prefix (a cluster's name, a listener's address), a label for Prometheus.
    pub label: Arc<str>,
    /// Made when their worker counts for the first time: most clusters of a large fleet are never used by a worker.
    slots: Box<[OnceLock<Box<Slot<C>>>]>,
    /// Which of its names are told: a bit for each, in their order.
    told: OnceLock<u128>,
}

/// Cells of one worker, alone on their cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot<C>(C);

impl<C: Default> Scope<C> {
    /// A scope with a slot for every worker and one (the last) for the control half.
    pub fn new(prefix: impl Into<Arc<str>>, label: impl Into<Arc<str>>, workers: usize) -> Self {
        let slots = (0..=workers).map(|_| OnceLock::new()).collect();
        Self {
            prefix: prefix.into(),
            label: label.into(),
            slots,
            told: OnceLock::new(),
        }
    }

    /// The cells that this worker writes.
    pub fn cells(&self, worker: WorkerIndex) -> &C {
        &self.slots[worker.0.min(self.slots.len() - 1)]
            .get_or_init(Box::default)
            .0
    }

    /// The cells that the control half writes.
    pub fn control(&self) -> &C {
        &self.slots[self.slots.len() - 1].get_or_init(Box::default).0
    }

    fn all(&self) -> impl Iterator<Item = &C> {
        self.slots.iter().filter_map(OnceLock::get).map(|slot| &slot.0)
    }
}

impl<C> Scope<C>
where
    Self: Merge,
{
    /// Visits those of its merged values whose whole names are to be told. The first who asks decides that for all.
    pub fn tell(&self, is_told: impl Fn(&str) -> bool, visit: &mut dyn FnMut(&'static str, Value)) {
        let told = self.told.get_or_init(|| {
            let names = Self::NAMES.iter().enumerate();
            let told = names.filter(|(_, name)| is_told(&format!("{}{name}", self.prefix)));
            told.fold(0, |told, (place, _)| told | 1 << place)
        });
        let mut place = 0;
        self.merge(&mut |name, value| {
            if told & 1 << place != 0 {
                visit(name, value);
            }
            place += 1;
        });
    }
}

/// Visits the merged values of a scope under their names without prefix, in the order of declaration.
pub trait Merge {
    /// The names, of which there are at most 128.
    const NAMES: &'static [&'static str];

    /// Calls `visit` once per name.
    fn merge(&self, visit: &mut dyn FnMut(&'static str, Value));
}
