//! One request and its response: who owns its deadlines, its counts, and what became of it.
//!
//! Whoever drives a client connection begins an [`Exchange`] with the head of a request and keeps it until the
//! client has taken the last byte of the response. Its deadlines are asked for on every wake of the connection, whether
//! or not the client takes bytes: a client that stops reading must not keep a backend's connection beyond them.
//! Once nothing more comes from the backend the only question is whether the client takes the rest.

mod attempt;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use http_body::Body;

use crate::access_log::{self, Course, Record};
use crate::clock::{Kind, Timer};
use crate::config::tracing::RouteTracing;
use crate::connection::Connection;
use crate::fault::Fault;
pub(crate) use crate::http::exchange::attempt::Ended;
use crate::http::tunnel::Tunnel;
use crate::message::Protocol;
use crate::message::body::Arrival;
use crate::message::head::Head;
use crate::message::incoming::Incoming;
use crate::traces::{Reason, Trace};
use crate::upstream::HostPool;

/// A request that is being served. Dropped when its response is complete or broken off.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The connection it came on.
    pub(crate) connection: Rc<Connection>,
    /// Its deadlines.
    pub(crate) timer: Timer,
    /// When its head had arrived.
    pub(crate) started: Instant,
    /// When its head began to arrive: from then on it counts how long the client may take for it all, and how long it
    /// may last.
    pub(crate) asked_since: Instant,
    /// Set when another protocol is to be spoken behind the response.
    pub(crate) tunnel: RefCell<Option<Tunnel>>,
    /// How long nothing may move.
    idle: Cell<Option<Duration>>,
    /// Nothing more is to come from the backend.
    flushing: Cell<bool>,
    /// How far the content of the request has come.
    arrival: RefCell<Arrival>,
    /// A filter keeps it waiting, and its content hasn't come.
    is_held_unread: Cell<bool>,
    /// Content of the response that was taken over for the client.
    sent: Cell<u64>,
    /// What came from the client through a tunnel.
    tunnelled: Cell<u64>,
    outcome: Cell<Outcome>,
    /// A backend has made the response.
    is_answered: Cell<bool>,
    /// What logs and spans are told; not there where there are none.
    record: OnceCell<Box<RefCell<Record>>>,
    /// What logs of attempts are told of the one that goes on.
    attempt: RefCell<Option<Box<Record>>>,
    /// Its part in a trace, where requests are traced.
    trace: OnceCell<Box<Trace>>,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It has not, or the client left.
    Unfinished,
    /// The response was handed over to its end.
    Complete,
    /// A deadline passed.
    Expired(Kind),
    /// A filter has broken the response off.
    Cut,
}

impl Exchange {
    /// A request whose head has arrived.
    pub(crate) fn begin(connection: &Rc<Connection>) -> Rc<Self> {
        let started = connection.worker.clock.now();
        let timer = connection.worker.clock.timer();
        connection.begin_request();
        let cells = connection.cells();
        let manager = connection.manager();
        cells.downstream_rq_total.inc();
        cells.downstream_rq_active.inc();
        match connection.protocol {
            Protocol::Http1 => cells.downstream_rq_http1_total.inc(),
            Protocol::Http2 => cells.downstream_rq_http2_total.inc(),
        }
        Rc::new(Self {
            connection: Rc::clone(connection),
            timer,
            started,
            asked_since: connection.take_head_since().unwrap_or(started),
            tunnel: RefCell::new(None),
            idle: Cell::new(manager.timeouts.stream_idle),
            flushing: Cell::new(false),
            arrival: RefCell::new(Arrival::complete()),
            is_held_unread: Cell::new(false),
            sent: Cell::new(0),
            tunnelled: Cell::new(0),
            outcome: Cell::new(Outcome::Unfinished),
            is_answered: Cell::new(false),
            record: manager.access_logs.as_ref().map_or_else(OnceCell::new, |logs| {
                let random = connection.worker.random.next();
                let record = Record::new(Some(Arc::clone(logs)), started, random);
                OnceCell::from(Box::new(RefCell::new(record)))
            }),
            attempt: RefCell::new(None),
            trace: OnceCell::new(),
        })
    }

    /// Tells logs and spans something, if there are any.
    pub(crate) fn note(&self, tell: impl FnOnce(&mut Record)) {
        if let Some(record) = self.record.get() {
            tell(&mut record.borrow_mut());
        }
    }

    /// From now on it is written down what becomes of it, also where there are no logs. Whoever comes late says where
    /// it goes.
    pub(crate) fn write_down(&self, route: Option<&Arc<str>>) {
        if self.record.get().is_some() {
            return;
        }
        let mut record = Record::late(self.started, self.connection.worker.clock.now());
        record.route = route.map(Arc::clone);
        let _ = self.record.set(Box::new(RefCell::new(record)));
    }

    /// What has become of it so far, as far as it was written down.
    pub(crate) fn course(&self) -> Course {
        let now = self.connection.worker.clock.now();
        let mut course = match self.record.get() {
            Some(record) => record.borrow().course(),
            None => Record::late(self.started, now).course(),
        };
        let arrival = self.arrival.borrow();
        course.received = arrival.received() + self.tunnelled.get();
        course.times.read = arrival.read_at(self.started);
        course.times.over = now;
        course
    }

    /// Its part in a trace.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.get().map(|trace| &**trace)
    }

    /// Begins its part in a trace, where requests are traced.
    pub(crate) fn begin_trace(&self, head: &mut Head, route: Option<&Arc<RouteTracing>>) {
        let (manager, worker) = (self.connection.manager(), &self.connection.worker);
        let Some((reason, trace)) = Trace::begin(&manager, worker, head, route) else {
            return;
        };
        let cells = self.connection.cells();
        match reason {
            Reason::NotTraceable => cells.tracing_not_traceable.inc(),
            Reason::Sampled => cells.tracing_random_sampling.inc(),
            Reason::Forced => cells.tracing_service_forced.inc(),
            Reason::Client => cells.tracing_client_enabled.inc(),
        }
        let Some(trace) = trace else { return };
        if trace.is_sampled() {
            let record = self.record.get_or_init(|| {
                let record = Record::late(self.started, worker.clock.now());
                Box::new(RefCell::new(record))
            });
            record.borrow_mut().keep(head);
        }
        self.note(|record| record.trace = Some(trace.ids()));
        let _ = self.trace.set(Box::new(trace));
    }

    /// An attempt to get a response has failed.
    pub(crate) fn attempt_failed(&self, fault: Fault) {
        self.end_attempt(Ended::by(fault));
        if let Some(trace) = self.trace.get() {
            trace.failed(fault, self.timer.clock().now());
        }
    }

    /// The client is given a response with this head.
    pub(crate) fn responds(&self, status: StatusCode, fields: &HeaderMap) {
        let cells = self.connection.cells();
        match status.as_u16() / 100 {
            1 => cells.downstream_rq_1xx.inc(),
            2 => cells.downstream_rq_2xx.inc(),
            3 => cells.downstream_rq_3xx.inc(),
            4 => cells.downstream_rq_4xx.inc(),
            _ => cells.downstream_rq_5xx.inc(),
        }
        self.note(|record| record.response(status, fields));
    }

    /// The content of the request comes this way.
    pub(crate) fn receives(&self, arrival: &Arrival) {
        self.is_held_unread.set(false);
        self.arrival.replace(arrival.clone());
    }

    /// How long nothing may move.
    pub(crate) fn idle(&self) -> Option<Duration> {
        self.idle.get()
    }

    /// Sets how long nothing may move, counted from `from`.
    pub(crate) fn set_idle(&self, from: Instant, idle: Option<Duration>) {
        self.idle.set(idle);
        self.timer.set(Kind::Idle, from, idle);
    }

    /// A filter keeps the request waiting: the deadlines that no route has a say in begin to count.
    pub(crate) fn hold(&self, content: &Incoming) {
        self.is_held_unread.set(!content.is_end_stream());
        let timeouts = &self.connection.manager().timeouts;
        self.set_idle(self.timer.clock().now(), timeouts.stream_idle);
        self.timer
            .set(Kind::Lifetime, self.asked_since, timeouts.max_stream_duration);
        self.timer.set(Kind::Request, self.asked_since, timeouts.request);
    }

    /// When the backend's time begins: what a filter has taken is not its.
    pub(crate) fn begin_routing(&self, delayed: bool) -> Instant {
        if delayed {
            self.timer.clock().now()
        } else {
            self.started
        }
    }

    /// Content has been taken over for the client.
    pub(crate) fn took(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
    }

    /// The client has sent something through a tunnel.
    pub(crate) fn brought(&self, bytes: usize) {
        self.tunnelled.set(self.tunnelled.get() + bytes as u64);
    }

    /// Something has moved, and more is to come.
    pub(crate) fn moved(&self) {
        if let idle @ Some(_) = self.idle.get() {
            self.timer.set(Kind::Idle, self.timer.clock().now(), idle);
        }
    }

    /// All of the response is on its way, and the client has not taken it yet. What was to bound the backend is over;
    /// from now on the client must take something in time. `progress`: it has, since this was said last.
    pub(crate) fn flushing(&self, progress: bool) {
        let first = !self.flushing.replace(true);
        if first {
            self.answered();
        }
        if first || progress {
            let limit = self.connection.manager().timeouts.flush.unwrap_or(self.idle.get());
            self.timer.set(Kind::Idle, self.timer.clock().now(), limit);
        }
    }

    /// Whether a backend asks in its response to be left out.
    pub(crate) fn asks_to_leave(&self, response: &HeaderMap) -> bool {
        let name = &self.connection.manager().prefixed.immediate_health_check_fail;
        response.contains_key(name)
    }

    /// A backend has made the response.
    pub(crate) fn answered_by_backend(&self) {
        self.is_answered.set(true);
    }

    /// Whether a backend has made the response.
    pub(crate) fn is_answered_by_backend(&self) -> bool {
        self.is_answered.get()
    }

    /// All of the response has come: what was to bound the backend is over, though a filter may hold some back.
    pub(crate) fn answered(&self) {
        for kind in [Kind::Route, Kind::PerTry, Kind::Request] {
            self.timer.clear(kind);
        }
    }

    /// The client has all of the response.
    pub(crate) fn complete(&self) {
        self.outcome.set(Outcome::Complete);
    }

    /// Ready when a deadline has passed while the response goes to the client.
    pub(crate) fn poll_deadline(&self, cx: &mut Context<'_>) -> Poll<Kind> {
        self.timer.poll_expired(cx)
    }

    /// A filter breaks the response off, and says why.
    pub(crate) fn cut(&self, details: String) {
        self.outcome.set(Outcome::Cut);
        self.note(|record| record.details = details.into());
    }

    /// A deadline has passed while the response goes to the client: that is the end of it.
    pub(crate) fn expire(&self, kind: Kind, pool: Option<&Rc<HostPool>>) {
        self.outcome.set(Outcome::Expired(kind));
        let fault = self.overdue(kind, pool);
        self.note(|record| record.fault(fault));
        self.end_attempt(Ended::by(fault));
    }

    /// A deadline has passed: it is counted, and doesn't count any more. What it means for whoever waits is said in
    /// return.
    pub(crate) fn overdue(&self, kind: Kind, pool: Option<&Rc<HostPool>>) -> Fault {
        self.timer.clear(kind);
        self.count_overdue(kind, pool);
        let is_read = !self.is_held_unread.get() && self.arrival.borrow().is_done();
        Self::fault_of(kind, is_read)
    }

    fn count_overdue(&self, kind: Kind, pool: Option<&Rc<HostPool>>) {
        let cells = self.connection.cells();
        match kind {
            Kind::Idle => cells.downstream_rq_idle_timeout.inc(),
            Kind::Lifetime => cells.downstream_rq_max_duration_reached.inc(),
            Kind::Request => cells.downstream_rq_timeout.inc(),
            Kind::Route | Kind::PerTry | Kind::Drain => {}
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

    fn fault_of(kind: Kind, is_read: bool) -> Fault {
        match kind {
            Kind::Route => Fault::RouteTimeout,
            Kind::PerTry => Fault::PerTryTimeout,
            Kind::Idle if is_read => Fault::IdleResponse,
            Kind::Idle => Fault::IdleRequest,
            Kind::Lifetime | Kind::Drain => Fault::MaxDuration,
            Kind::Request => Fault::RequestTimeout,
        }
    }

    fn tell(&self, record: &mut Record, outcome: Outcome) {
        // Whatever breaks off without another reason does so because the client has gone.
        if outcome == Outcome::Unfinished && record.flags.is_empty() {
            record.fault(Fault::DownstreamReset);
        }
        let arrival = self.arrival.borrow();
        record.received = arrival.received() + self.tunnelled.get();
        record.sent = self.sent.get();
        record.times.read = arrival.read_at(self.started);
        record.times.over = self.connection.worker.clock.now();
        let (connection, manager) = (&self.connection, self.connection.manager());
        let client = access_log::Client::of(connection, &manager);
        access_log::write(&connection.worker, client, record);
        if let Some(trace) = self.trace().filter(|trace| trace.is_sampled()) {
            trace.report(&connection.worker, client, record);
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

impl Drop for Exchange {
    fn drop(&mut self) {
        let outcome = self.outcome.get();
        if outcome != Outcome::Complete {
            tracing::debug!(client = %self.connection.client, sent = self.sent.get(), ?outcome, "exchange ended early");
        }
        self.end_attempt(match outcome {
            Outcome::Unfinished | Outcome::Cut => Ended::GivenUp,
            Outcome::Complete | Outcome::Expired(_) => Ended::Answered,
        });
        if let Some(record) = self.record.take() {
            self.tell(&mut record.borrow_mut(), outcome);
        }
        let cells = self.connection.cells();
        cells.downstream_rq_active.dec();
        cells.downstream_rq_completed.inc();
        cells.downstream_rq_time.record(self.elapsed());
        self.connection.end_request();
    }
}
