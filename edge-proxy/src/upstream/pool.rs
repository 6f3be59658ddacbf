//! The connections of one worker to one host.
//!
//! Idle HTTP/1 connections, last in first out (the warmest is used, the others age and go), and the HTTP/2
//! connections that have room. A request that finds neither opens a connection of its own, except that requests for
//! HTTP/2 share the one that is being opened, and that nobody exceeds the cluster's limit: then it waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::ClusterId;
use crate::config::cluster::{Cluster, ClusterEntry};
use crate::config::endpoint::Host;
use crate::fault::Fault;
use crate::proxy_protocol::Addresses;
use crate::stats::{ClusterCells, WorkerIndex};
use crate::upstream::Upstreams;
use crate::upstream::connect::{Fresh, Speak};
use crate::upstream::http1::Http1Connection;
use crate::upstream::http2::Http2Connection;
use crate::upstream::lease::Lease;
use crate::upstream::limits::{PendingGuard, below, host_may_connect};

/// An HTTP/2 connection that is being opened, and who waits for it.
type Opening = Rc<tokio::sync::watch::Receiver<Option<Result<(), Fault>>>>;

/// How a connection began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    /// When it was open.
    pub(crate) at: Instant,
    /// How often its host had failed when it was dialled.
    pub(crate) failures: u32,
}

/// Connections of one worker to one host.
#[derive(Debug)]
pub(crate) struct HostPool {
    /// Which slot of the counters to write.
    pub(crate) worker: WorkerIndex,
    /// The cluster it belongs to.
    pub(crate) cluster_id: ClusterId,
    /// The cluster's settings under which it was made.
    pub(crate) cluster: Arc<Cluster>,
    /// The host.
    pub(crate) host: Arc<Host>,
    /// Whom its connections are for, where they say so.
    pub(crate) behalf: Option<Addresses>,
    /// Rung when a connection or a stream becomes free.
    pub(crate) room: Rc<tokio::sync::Notify>,
    #[allow(
        clippy::vec_box,
        reason = "a connection goes to and fro with every request: as a pointer"
    )]
    http1: RefCell<Vec<Box<Http1Connection>>>,
    http2: RefCell<Vec<Rc<Http2Connection>>>,
    opening: RefCell<Option<Opening>>,
    /// The host chose HTTP/1 when it was asked last: connections to it are opened side by side.
    chose_http1: Cell<bool>,
    closed: Cell<bool>,
    /// How many connections are open or being opened.
    open: Rc<Cell<u32>>,
    waiting: Cell<usize>,
}

impl HostPool {
    /// An empty pool.
    pub(crate) fn new(worker: WorkerIndex, entry: &ClusterEntry, host: Arc<Host>, behalf: Option<Addresses>) -> Self {
        Self {
            worker,
            cluster_id: entry.id,
            cluster: Arc::clone(&entry.cluster),
            host,
            behalf,
            room: Rc::default(),
            http1: RefCell::default(),
            http2: RefCell::default(),
            opening: RefCell::default(),
            chose_http1: Cell::new(false),
            closed: Cell::new(false),
            open: Rc::default(),
            waiting: Cell::new(0),
        }
    }

    /// This worker's counters of the cluster.
    pub(crate) fn cells(&self) -> &ClusterCells {
        self.cluster.stats.cells(self.worker)
    }

    /// The count of connections, for what counts itself in.
    pub(super) fn open_count(&self) -> Rc<Cell<u32>> {
        Rc::clone(&self.open)
    }

    /// A connection that is free now.
    pub(crate) fn checkout(self: &Rc<Self>, speak: Speak, now: Instant) -> Option<Lease> {
        if speak != Speak::Http1 {
            let is_spent = |one: &Rc<Http2Connection>| self.spent(one.birth, one.idle_since(), now).is_some();
            if self.http2.borrow().iter().any(is_spent) {
                self.end_spent_http2(now);
            }
            let found = self.http2.borrow().iter().find(|one| one.has_room()).cloned();
            if let Some(connection) = found {
                return Some(Lease::Http2(connection.stream(self)));
            }
        }
        if speak != Speak::Http2 {
            // Taken out one by one: dropping a dead connection may ring `room`.
            while let Some(mut connection) = self.take_idle() {
                if !self.retires(connection.birth, Some(connection.idle_since), now) && connection.client.is_alive() {
                    return Some(Lease::Http1(connection));
                }
            }
        }
        None
    }

    fn take_idle(&self) -> Option<Box<Http1Connection>> {
        self.http1.borrow_mut().pop()
    }

    /// A connection, opened if need be.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        upstreams: &Rc<Upstreams>,
        speak: Speak,
        name: Option<&str>,
    ) -> Result<Lease, Fault> {
        let workers = upstreams.worker.shared.workers;
        let _pending = PendingGuard::new(self, workers).ok_or(Fault::Overflow)?;
        loop {
            if let Some(lease) = self.checkout(speak, upstreams.worker.clock.recent()) {
                return Ok(lease);
            }
            let opening = self.opening.borrow().clone();
            if let Some(opening) = opening.filter(|_| self.is_shared(speak)) {
                let mut opening = (*opening).clone();
                match opening.wait_for(Option::is_some).await.map(|done| *done) {
                    Ok(Some(Err(fault))) => return Err(fault),
                    // An aborted opening or a success: look again.
                    _ => continue,
                }
            }
            if !self.may_open(workers) {
                self.cells().upstream_cx_overflow.inc();
                self.waiting.set(self.waiting.get() + 1);
                let _waiting = Waiting(self);
                self.room.notified().await;
                continue;
            }
            return self.open(upstreams, speak, name).await;
        }
    }

    /// Whether a connection that is being opened is worth waiting for: several requests may use it.
    fn is_shared(&self, speak: Speak) -> bool {
        match speak {
            Speak::Http1 => false,
            Speak::Http2 => true,
            Speak::Negotiate => !self.chose_http1.get(),
        }
    }

    /// A pool may always have one connection, whatever the limit says (as in Envoy): who has none would wait for others
    /// that don't know of it.
    fn may_open(&self, workers: usize) -> bool {
        let limit = self.cluster.limits.max_connections;
        self.open.get() < 1
            || (host_may_connect(&self.cluster, &self.host)
                && below(&self.cluster, self.worker, workers, limit, |cells| {
                    &cells.upstream_cx_active
                }))
    }

    async fn open(
        self: &Rc<Self>,
        upstreams: &Rc<Upstreams>,
        speak: Speak,
        name: Option<&str>,
    ) -> Result<Lease, Fault> {
        if !self.is_shared(speak) {
            let fresh = super::connect::connect(&upstreams.worker, self, speak, name).await?;
            return Ok(self.take_in(upstreams, speak, fresh));
        }
        // Opened by a task, so that those who share it do not depend on whoever asked first.
        let (done, opening) = tokio::sync::watch::channel(None);
        *self.opening.borrow_mut() = Some(Rc::new(opening));
        let (give, take) = tokio::sync::oneshot::channel();
        let (pool, upstreams, name) = (Rc::clone(self), Rc::clone(upstreams), name.map(str::to_owned));
        tokio::task::spawn_local(async move {
            let opened = super::connect::connect(&upstreams.worker, &pool, speak, name.as_deref()).await;
            pool.opening.borrow_mut().take();
            let result = opened.as_ref().map(|_| ()).map_err(|fault| *fault);
            let lease = opened.map(|fresh| pool.take_in(&upstreams, speak, fresh));
            if let Err(Ok(lease)) = give.send(lease) {
                // Whoever asked has gone; the connection stays for others.
                lease.release(&upstreams, &pool);
            }
            let _ = done.send(Some(result));
        });
        take.await.unwrap_or(Err(Fault::ConnectFailure))
    }

    /// Notes what was chosen, and gives a place on the connection.
    fn take_in(self: &Rc<Self>, upstreams: &Upstreams, speak: Speak, fresh: Fresh) -> Lease {
        if speak == Speak::Negotiate {
            self.chose_http1.set(matches!(fresh, Fresh::Http1(_)));
        }
        match fresh {
            Fresh::Http1(connection) => Lease::Http1(connection),
            Fresh::Http2(connection) => self.adopt(upstreams, connection),
        }
    }

    fn adopt(self: &Rc<Self>, upstreams: &Upstreams, connection: Rc<Http2Connection>) -> Lease {
        let stream = connection.stream(self);
        if self.closed.get() {
            connection.retire();
        } else {
            self.http2.borrow_mut().push(connection);
            upstreams.look_after();
        }
        Lease::Http2(stream)
    }

    /// Takes an HTTP/1 connection back.
    pub(crate) fn put_back(&self, upstreams: &Upstreams, mut connection: Box<Http1Connection>) {
        if connection.is_used_up() {
            return;
        }
        let now = upstreams.worker.clock.recent();
        if self.retires(connection.birth, None, now) {
            return;
        }
        if self.closed.get() || !connection.client.is_reusable() {
            return;
        }
        connection.idle_since = now;
        let first = {
            let mut idle = self.http1.borrow_mut();
            idle.push(connection);
            idle.len() == 1
        };
        if self.waiting.get() > 0 {
            self.room.notify_one();
        }
        if first {
            upstreams.look_after();
        }
    }

    /// Closes idle HTTP/1 connections: one of them turned out to be dead, and its likes will be.
    pub(crate) fn drop_idle(&self) {
        let idle = std::mem::take(&mut *self.http1.borrow_mut());
        drop(idle);
    }

    /// A stream has ended: there is room.
    pub(crate) fn stream_ended(&self) {
        if self.waiting.get() > 0 {
            self.room.notify_one();
        }
    }

    /// Drops an ended HTTP/2 connection.
    pub(crate) fn forget(&self, connection: &Rc<Http2Connection>) {
        self.http2.borrow_mut().retain(|one| !Rc::ptr_eq(one, connection));
    }

    /// Closes what is idle, and later what is busy when it comes back.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let idle = std::mem::take(&mut *self.http1.borrow_mut());
        drop(idle);
        for connection in self.http2.borrow_mut().drain(..) {
            connection.retire();
        }
    }

    /// Whether a connection is used for nothing new: its host has failed since it was opened, or it has had its time
    /// since then, or since it was used last if nobody uses it.
    fn spent(&self, birth: Birth, idle_since: Option<Instant>, now: Instant) -> Option<Spent> {
        if self.host.vitals.failures() != birth.failures {
            return Some(Spent::Ill);
        }
        let is_over = |limit: Option<Duration>, since: Instant| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
        };
        if is_over(self.cluster.max_connection_duration, birth.at) {
            return Some(Spent::Age);
        }
        idle_since
            .filter(|since| is_over(self.cluster.idle_timeout, *since))
            .map(|_| Spent::Idle)
    }

    /// Whether a connection is spent, which is counted.
    fn retires(&self, birth: Birth, idle_since: Option<Instant>, now: Instant) -> bool {
        let cells = self.cells();
        match self.spent(birth, idle_since, now) {
            Some(Spent::Age) => cells.upstream_cx_max_duration_reached.inc(),
            Some(Spent::Idle) => cells.upstream_cx_idle_timeout.inc(),
            Some(Spent::Ill) => {}
            None => return false,
        }
        true
    }

    /// Takes no more streams on connections in HTTP/2 that have had their time, and forgets those that have ended.
    fn end_spent_http2(&self, now: Instant) {
        self.http2.borrow_mut().retain(|connection| {
            let is_spent = self.retires(connection.birth, connection.idle_since(), now);
            if is_spent {
                connection.retire();
            }
            !is_spent && connection.is_open()
        });
    }

    /// Closes idle connections that are dead or too old; true while one remains.
    pub(crate) fn sweep(&self, now: Instant) -> bool {
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for mut connection in std::mem::take(&mut *self.http1.borrow_mut()) {
            let is_spent = self.retires(connection.birth, Some(connection.idle_since), now);
            if is_spent || !connection.client.is_alive() {
                dropped.push(connection)
            } else {
                kept.push(connection)
            }
        }
        drop(dropped);
        let mut http1 = self.http1.borrow_mut();
        // Whatever came in meanwhile is younger.
        kept.append(&mut http1);
        *http1 = kept;
        self.end_spent_http2(now);
        !http1.is_empty() || !self.http2.borrow().is_empty()
    }
}

/// Why no more requests are sent on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spent {
    /// It is as old as it may get.
    Age,
    /// Nobody has used it for too long.
    Idle,
    /// Its host has failed since: the connection may be what has.
    Ill,
}

struct Waiting<'a>(&'a HostPool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
    }
}
