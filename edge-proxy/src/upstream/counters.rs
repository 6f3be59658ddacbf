//! Counters of what clusters and hosts answer.

use std::sync::atomic::Ordering;

use http::StatusCode;

use crate::stats::ClusterCells;
use crate::upstream::HostPool;

/// Counts what is got of a cluster, also where no host of it answers.
pub(crate) fn count_status(cells: &ClusterCells, status: StatusCode) {
    match status.as_u16() / 100 {
        1 => cells.upstream_rq_1xx.inc(),
        2 => cells.upstream_rq_2xx.inc(),
        3 => cells.upstream_rq_3xx.inc(),
        4 => cells.upstream_rq_4xx.inc(),
        _ => cells.upstream_rq_5xx.inc(),
    }
    cells.upstream_rq_completed.inc();
}

/// Counts a response of a host.
pub(crate) fn count_response(pool: &HostPool, status: StatusCode) {
    count_status(pool.cells(), status);
    let host = &pool.host.stats;
    let outcome = match status.is_server_error() {
        true => &host.rq_error,
        false => &host.rq_success,
    };
    outcome.fetch_add(1, Ordering::Relaxed);
}
