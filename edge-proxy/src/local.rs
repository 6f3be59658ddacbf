//! What a worker's thread has for itself: its slot of the counters, clock, random numbers, memory, and the
//! configuration as it is for what begins now.
//!
//! Whoever holds it calls it the worker.
//! Why not shared: no lock and no atomic on the way of a request except the counters of hosts. Everything of the data
//! half may use it; it knows of no connection, and what does belongs above: connections to backends to
//! [`crate::upstream`], those of clients to [`crate::downstream`].

pub(crate) mod numbers;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::clock::Clock;
use crate::config::access_log::LogFile;
use crate::config::collector::Collector;
use crate::config::table::RouteTable;
use crate::config::{RouteTableId, Snapshot};
use crate::http1::buffers::Buffers;
use crate::log_files::buffers::LogBuffers;
use crate::outbox::Outboxes;
use crate::random::Random;
use crate::shared::{Drain, Shared, SnapshotCache};
use crate::stats::{ServerCells, WorkerIndex};
use crate::told::Told;
use numbers::Numbers;

/// The state of one worker's thread.
#[derive(Debug)]
pub(crate) struct Local {
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
    /// Lines of access logs that are to be written.
    logs: LogBuffers,
    /// Troubles of requests that stand in the log.
    pub(crate) told: Told,
    /// Entries that are to be sent to services.
    pub(crate) outboxes: Outboxes,
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

impl Deref for Pinned {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.0
    }
}

impl Local {
    /// That of a worker which begins.
    pub(crate) fn new(shared: Arc<Shared>, index: WorkerIndex) -> Rc<Self> {
        let mut cache = SnapshotCache::new(&shared);
        let drain = *shared.drain.borrow();
        let pinned = RefCell::new(Rc::new(Pinned(Arc::clone(cache.current()))));
        Rc::new(Self {
            index,
            clock: Clock::new(),
            random: Random::new(),
            numbers: Numbers::default(),
            buffers: Rc::default(),
            logs: LogBuffers::default(),
            told: Told::default(),
            outboxes: Outboxes::default(),
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

    /// Forgets route tables that have gone, except those that are needed still.
    pub(crate) fn forget_routes(&self, needed: &FxHashSet<RouteTableId>) {
        self.last_routes.borrow_mut().retain(|id, _| needed.contains(id));
    }

    /// How far the process is on its way out.
    pub(crate) fn drain(&self) -> Drain {
        self.drain.get()
    }

    /// It has come so far.
    pub(crate) fn follow_drain(&self, drain: Drain) {
        self.drain.set(drain);
    }

    /// The process-wide counters of this worker.
    pub(crate) fn server_cells(&self) -> &ServerCells {
        self.shared.stats.cells(self.index)
    }

    /// Adds the line that `write` writes to a log.
    pub(crate) fn log(&self, file: &Arc<LogFile>, write: impl FnOnce(&mut Vec<u8>)) {
        self.logs.append(&self.shared.logs, self.server_cells(), file, write);
    }

    /// Adds the entry that `write` writes to what a service is sent.
    pub(crate) fn report(&self, collector: &Arc<Collector>, write: impl FnOnce(&mut Vec<u8>)) {
        self.outboxes.put(self.server_cells(), collector, write);
    }

    /// Hands over the lines that there are.
    pub(crate) fn flush_logs(&self) {
        self.logs.flush(&self.shared.logs, self.server_cells());
    }

    /// Hands lines over a while after they were written, as long as the worker runs.
    pub(crate) async fn drive_logs(self: Rc<Self>) {
        loop {
            self.logs.gathered().await;
            self.flush_logs();
        }
    }
}

/// Spawns what hyper wants to run beside a connection on the same thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// The host's name, read once.
pub(crate) fn hostname() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "-".to_owned(), |name| name.trim().to_owned())
    });
    &NAME
}
