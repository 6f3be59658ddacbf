//! One worker: a thread with its own runtime, sockets, connections, pools and clock.
//!
//! What: accepts on its share of the listening sockets and keeps everything of a request on its thread. It follows
//! three signals of the control half: which sockets to accept on, the configuration, and how far to drain.
//! Why single-threaded: no lock and no atomic on the way of a request except the counters of hosts, which balance
//! load over all workers. Deliberately absent: work stealing, and any `Send` bound on what serves requests.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::runtime::LocalOptions;
use tokio::sync::Notify;

use crate::access_log::buffers::LogBuffers;
use crate::clock::Clock;
use crate::config::listener::Listener;
use crate::config::table::RouteTable;
use crate::config::{RouteTableId, Snapshot};
use crate::downstream::accept::Acceptors;
use crate::downstream::registry::Registry;
use crate::http::number::Numbers;
use crate::http1::buffers::Buffers;
use crate::random::Random;
use crate::shared::{Drain, Shared, SnapshotCache};
use crate::stats::{ServerCells, WorkerIndex};
use crate::upstream::Upstreams;

/// The state of one worker thread.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Which slot of the counters is its own.
    pub(crate) index: WorkerIndex,
    /// What it shares with the control half.
    pub(crate) shared: Arc<Shared>,
    /// Deadlines.
    pub(crate) clock: Rc<Clock>,
    /// Random numbers.
    pub(crate) random: Random,
    /// Numbers as fields.
    pub(crate) numbers: Numbers,
    /// Memory of the HTTP/1 codec.
    pub(crate) buffers: Rc<Buffers>,
    /// Open client connections.
    pub(crate) connections: Registry,
    /// Lines of access logs that are to be written.
    pub(crate) logs: LogBuffers,
    /// Rung when listeners have come, gone or changed.
    pub(crate) listeners_changed: Notify,
    /// Backend connections and balancing state.
    pub(crate) upstreams: Upstreams,
    /// Those that were followed last.
    listeners: RefCell<Arc<BTreeMap<Arc<str>, Arc<Listener>>>>,
    /// Route tables that are no part of the configuration any more, for connections that leave with them.
    last_routes: RefCell<FxHashMap<RouteTableId, Arc<RouteTable>>>,
    cache: RefCell<SnapshotCache>,
    pinned: RefCell<Rc<Pinned>>,
    drain: Cell<Drain>,
}

/// A configuration that a request holds on to. Requests share it by a count of this thread alone, so that workers do
/// not contend for one count in memory.
#[derive(Debug)]
pub(crate) struct Pinned(Arc<Snapshot>);

impl std::ops::Deref for Pinned {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.0
    }
}

impl Worker {
    fn new(shared: Arc<Shared>, index: WorkerIndex) -> Rc<Self> {
        let mut cache = SnapshotCache::new(&shared);
        let drain = *shared.drain.borrow();
        let pinned = RefCell::new(Rc::new(Pinned(Arc::clone(cache.current()))));
        Rc::new(Self {
            index,
            clock: Clock::new(),
            random: Random::new(),
            numbers: Numbers::default(),
            buffers: Rc::default(),
            connections: Registry::default(),
            logs: LogBuffers::default(),
            listeners_changed: Notify::new(),
            upstreams: Upstreams::default(),
            listeners: RefCell::default(),
            last_routes: RefCell::default(),
            cache: RefCell::new(cache),
            pinned,
            drain: Cell::new(drain),
            shared,
        })
    }

    /// The configuration of now, for one request. The count that keeps it is this thread's own.
    pub(crate) fn snapshot(&self) -> Rc<Pinned> {
        let mut cache = self.cache.borrow_mut();
        let current = cache.current();
        let mut pinned = self.pinned.borrow_mut();
        if !Arc::ptr_eq(current, &pinned.0) {
            self.keep_routes(&pinned, current);
            *pinned = Rc::new(Pinned(Arc::clone(current)));
        }
        Rc::clone(&pinned)
    }

    /// Remembers the route tables that a new configuration does not have any more.
    fn keep_routes(&self, before: &Snapshot, now: &Snapshot) {
        if Arc::ptr_eq(&before.route_tables, &now.route_tables) {
            return;
        }
        let mut last = self.last_routes.borrow_mut();
        for (index, table) in before.route_tables.iter().enumerate() {
            let is_there = now.route_tables.get(index).is_some_and(Option::is_some);
            if let Some(table) = table.as_ref().filter(|_| !is_there)
                && let Ok(index) = u32::try_from(index)
            {
                last.insert(RouteTableId(index), Arc::clone(table));
            }
        }
        last.retain(|id, _| now.route_tables.get(id.0 as usize).is_none_or(Option::is_none));
    }

    /// The last version of a route table that has gone.
    pub(crate) fn last_routes(&self, id: RouteTableId) -> Option<Arc<RouteTable>> {
        self.last_routes.borrow().get(&id).cloned()
    }

    /// How far the process is on its way out.
    pub(crate) fn drain(&self) -> Drain {
        self.drain.get()
    }

    /// The process-wide counters of this worker.
    pub(crate) fn server_cells(&self) -> &ServerCells {
        self.shared.stats.cells(self.index)
    }

    /// Serves until [`Drain::Stop`].
    async fn serve(self: Rc<Self>) {
        let mut drain = self.shared.drain.clone();
        let mut sockets = self.shared.sockets.clone();
        let mut snapshot = self.shared.snapshot.clone();
        let mut acceptors = Acceptors::default();
        let clock = tokio::task::spawn_local(Rc::clone(&self.clock).drive());
        let logger = tokio::task::spawn_local(LogBuffers::drive(Rc::clone(&self)));
        let sweeper = tokio::task::spawn_local(crate::upstream::sweep(Rc::clone(&self)));
        snapshot.mark_changed();
        sockets.mark_changed();
        drain.mark_changed();
        loop {
            // A sender that is gone means that the control half has ended: so do we.
            let alive = tokio::select! {
                changed = drain.changed() => changed.is_ok() && self.follow_drain(*drain.borrow_and_update(), &mut acceptors),
                changed = snapshot.changed() => changed.is_ok() && self.follow_snapshot(&snapshot.borrow_and_update()),
                changed = sockets.changed() => {
                    if changed.is_ok() && self.drain() < Drain::Draining {
                        acceptors.follow(&self, &sockets.borrow_and_update());
                    }
                    changed.is_ok()
                }
            };
            if !alive {
                break;
            }
        }
        acceptors.stop();
        clock.abort();
        sweeper.abort();
        logger.abort();
    }

    /// False when it is time to return.
    fn follow_drain(&self, drain: Drain, acceptors: &mut Acceptors) -> bool {
        self.drain.set(drain);
        match drain {
            Drain::Serving => {}
            Drain::Discouraging => self.connections.discourage(|_| true),
            Drain::Draining => {
                acceptors.stop_accepting();
                self.connections.drain(|_| true);
            }
            Drain::Stop => return false,
        }
        true
    }

    fn follow_snapshot(&self, snapshot: &Arc<Snapshot>) -> bool {
        // Keeps what this configuration drops, before anybody asks for it.
        self.snapshot();
        self.upstreams.follow(snapshot);
        let before = self.listeners.replace(Arc::clone(&snapshot.listeners));
        if !Arc::ptr_eq(&before, &snapshot.listeners) {
            self.connections.follow(snapshot);
            let needed = self.connections.last_routes();
            self.last_routes.borrow_mut().retain(|id, _| needed.contains(id));
            self.listeners_changed.notify_waiters();
        }
        true
    }
}

/// Runs a worker on the calling thread until the control half says stop.
pub fn run(shared: Arc<Shared>, index: WorkerIndex) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // A runtime whose own tasks need not be `Send`: a set of local tasks on top would queue each wake-up twice.
    let runtime = builder.enable_all().build_local(LocalOptions::default())?;
    let worker = Worker::new(shared, index);
    runtime.block_on(Rc::clone(&worker).serve());
    // What is still open is cut off with the tasks that hold it.
    drop(runtime);
    worker.logs.flush(&worker);
    Ok(())
}
