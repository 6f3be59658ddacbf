//! Circuit breakers and the counts they look at.
//!
//! Guards that count connections, waiting requests and requests in flight while they live, and the questions
//! whether one more is allowed. Limits hold over all workers (as Envoy's do); a worker that is far from the limit
//! even if every other worker were as busy as itself does not look at the others' counters.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::cluster::Cluster;
use crate::config::endpoint::Host;
use crate::stats::{ClusterCells, Gauge, WorkerIndex};
use crate::upstream::pool::HostPool;

/// Whether a gauge of a cluster is below its limit.
pub(crate) fn below(
    cluster: &Cluster,
    worker: WorkerIndex,
    workers: usize,
    limit: u32,
    gauge: impl Fn(&ClusterCells) -> &Gauge,
) -> bool {
    let own = gauge(cluster.stats.cells(worker)).get();
    let limit = i64::from(limit);
    if own.saturating_mul(2 * workers as i64) < limit {
        return true;
    }
    total(cluster, workers, gauge) < limit
}

/// Whether one more request may be in flight; counted where it may not.
pub(crate) fn may_begin(cluster: &Cluster, worker: WorkerIndex, workers: usize) -> bool {
    let is_below = below(cluster, worker, workers, cluster.limits.max_requests, |cells| {
        &cells.upstream_rq_active
    });
    if !is_below {
        cluster.stats.cells(worker).upstream_rq_pending_overflow.inc();
    }
    is_below
}

/// Whether another connection to a host is within the limit of connections to one.
pub(crate) fn host_may_connect(cluster: &Cluster, host: &Host) -> bool {
    host.stats.cx_active.load(Ordering::Relaxed) < i64::from(cluster.limits.max_connections_per_host)
}

/// How many retries may be in flight over all workers.
pub(crate) fn most_retries(cluster: &Cluster, workers: usize) -> usize {
    let Some(budget) = cluster.limits.retry_budget else {
        return cluster.limits.max_retries as usize;
    };
    let requests = total(cluster, workers, |cells| &cells.upstream_rq_active)
        + total(cluster, workers, |cells| &cells.upstream_rq_pending_active);
    // A cast saturates.
    let share = (requests.max(0) as f64 * budget.percent / 100.0) as usize;
    share.max(budget.least as usize)
}

/// Whether a stream or a session may open a connection. It is rare and lasts, so that every worker is asked each time.
pub(crate) fn may_connect(cluster: &Cluster, workers: usize) -> bool {
    total(cluster, workers, |cells| &cells.upstream_cx_active) < i64::from(cluster.limits.max_connections)
}

fn total(cluster: &Cluster, workers: usize, gauge: impl Fn(&ClusterCells) -> &Gauge) -> i64 {
    (0..workers)
        .map(|index| gauge(cluster.stats.cells(WorkerIndex(index))).get())
        .sum()
}

/// A request in flight on a host.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    pool: Rc<HostPool>,
}

impl RequestGuard {
    /// Counts a request until the guard is dropped.
    pub(crate) fn new(pool: &Rc<HostPool>) -> Self {
        let cells = pool.cells();
        cells.upstream_rq_total.inc();
        cells.upstream_rq_active.inc();
        pool.host.stats.rq_total.fetch_add(1, Ordering::Relaxed);
        pool.host.stats.rq_active.fetch_add(1, Ordering::Relaxed);
        Self { pool: Rc::clone(pool) }
    }

    /// The same for a request that has waited for its connection, in which time others may have taken its place:
    /// `None`, counted, when too many are in flight by now.
    pub(crate) fn after_waiting(pool: &Rc<HostPool>, workers: usize) -> Option<Self> {
        if !may_begin(&pool.cluster, pool.worker, workers) {
            return None;
        }
        Some(Self::new(pool))
    }

    /// The pool of its host.
    pub(crate) fn pool(&self) -> &Rc<HostPool> {
        &self.pool
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.pool.cells().upstream_rq_active.dec();
        self.pool.host.stats.rq_active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that waits for a connection.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    pool: Rc<HostPool>,
}

impl PendingGuard {
    /// Counts a waiting request; `None` when too many wait already.
    pub(crate) fn new(pool: &Rc<HostPool>, workers: usize) -> Option<Self> {
        let limit = pool.cluster.limits.max_pending_requests;
        if !below(&pool.cluster, pool.worker, workers, limit, |cells| {
            &cells.upstream_rq_pending_active
        }) {
            pool.cells().upstream_rq_pending_overflow.inc();
            return None;
        }
        pool.cells().upstream_rq_pending_active.inc();
        Some(Self { pool: Rc::clone(pool) })
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.pool.cells().upstream_rq_pending_active.dec();
    }
}

/// An open connection. It does not hold the pool, which may hold the connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    cluster: Arc<Cluster>,
    host: Arc<Host>,
    worker: WorkerIndex,
    /// Of its pool.
    open: Rc<Cell<u32>>,
    room: Rc<tokio::sync::Notify>,
}

impl ConnectionGuard {
    /// Counts a connection until the guard is dropped.
    pub(crate) fn new(pool: &HostPool) -> Self {
        let cells = pool.cells();
        cells.upstream_cx_total.inc();
        cells.upstream_cx_active.inc();
        pool.host.stats.cx_total.fetch_add(1, Ordering::Relaxed);
        pool.host.stats.cx_active.fetch_add(1, Ordering::Relaxed);
        let open = pool.open_count();
        open.set(open.get() + 1);
        Self {
            open,
            cluster: Arc::clone(&pool.cluster),
            host: Arc::clone(&pool.host),
            worker: pool.worker,
            room: Rc::clone(&pool.room),
        }
    }

    /// The cluster that it is a connection of.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// This worker's counters of the cluster.
    pub(crate) fn cells(&self) -> &ClusterCells {
        self.cluster.stats.cells(self.worker)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let cells = self.cells();
        cells.upstream_cx_active.dec();
        cells.upstream_cx_destroy.inc();
        self.open.set(self.open.get().saturating_sub(1));
        self.host.stats.cx_active.fetch_sub(1, Ordering::Relaxed);
        // Somebody may be waiting for the limit on connections.
        self.room.notify_one();
    }
}
