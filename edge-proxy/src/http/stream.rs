//! One request and its response, as the connection manager counts them.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::clock::{Kind, Timer};
use crate::downstream::connection::{Connection, Protocol};
use crate::fault::Fault;
use crate::upstream::HostPool;

/// A request that is being served. Dropped when its response is complete or broken off.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The connection it came on.
    pub(crate) connection: Rc<Connection>,
    /// Its deadlines.
    pub(crate) timer: Timer,
    /// When its head had arrived.
    pub(crate) started: Instant,
}

impl Stream {
    /// A request whose head has arrived.
    pub(crate) fn begin(connection: Rc<Connection>) -> Self {
        let started = connection.worker.clock.now();
        let timer = connection.worker.clock.timer();
        connection.begin_request();
        let cells = connection.cells();
        cells.downstream_rq_total.inc();
        cells.downstream_rq_active.inc();
        match connection.protocol {
            Protocol::Http1 => cells.downstream_rq_http1_total.inc(),
            Protocol::Http2 => cells.downstream_rq_http2_total.inc(),
        }
        Self {
            connection,
            timer,
            started,
        }
    }

    /// Counts a deadline that has passed.
    pub(crate) fn count_expired(&self, kind: Kind, pool: Option<&Rc<HostPool>>) {
        let cells = self.connection.cells();
        match kind {
            Kind::Idle => cells.downstream_rq_idle_timeout.inc(),
            Kind::Lifetime => cells.downstream_rq_max_duration_reached.inc(),
            Kind::Request => cells.downstream_rq_timeout.inc(),
            Kind::Route | Kind::PerTry => {}
        }
        let Some(pool) = pool else { return };
        match kind {
            Kind::Route => pool.cells().upstream_rq_timeout.inc(),
            Kind::PerTry => pool.cells().upstream_rq_per_try_timeout.inc(),
            _ => return,
        }
        pool.host
            .stats
            .rq_timeout
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// The fault that a passed deadline means while the head of the response is awaited.
    pub(crate) fn fault_of(kind: Kind, request_complete: bool) -> Fault {
        match kind {
            Kind::Route => Fault::RouteTimeout,
            Kind::PerTry => Fault::PerTryTimeout,
            Kind::Idle if request_complete => Fault::IdleResponse,
            Kind::Idle => Fault::IdleRequest,
            Kind::Lifetime => Fault::MaxDuration,
            Kind::Request => Fault::RequestTimeout,
        }
    }

    /// How long the request has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.connection
            .worker
            .clock
            .recent()
            .saturating_duration_since(self.started)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let cells = self.connection.cells();
        cells.downstream_rq_active.dec();
        cells.downstream_rq_completed.inc();
        cells.downstream_rq_time.record(self.elapsed());
        self.connection.end_request();
    }
}
