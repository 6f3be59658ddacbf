//! One worker: a thread with its own runtime, sockets, connections, pools and clock.
//!
//! Wires alone. It makes the state of the thread ([`Local`]), the backends' side ([`Upstreams`]) and the clients'
//! ([`Clients`]), and follows three signals of the control half: which sockets to accept on, the configuration, and how
//! far to drain.
//! Why single-threaded: no lock and no atomic on the way of a request except the counters of hosts, which balance
//! load over all workers. Deliberately absent: work stealing, and any `Send` bound on what serves requests.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::LocalOptions;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::calls::keys::FetchedAhead;
use crate::calls::reports;
use crate::config::Snapshot;
use crate::config::listener::Listener;
use crate::downstream::Clients;
use crate::downstream::accept::Acceptors;
use crate::due;
use crate::local::Local;
use crate::shared::{Drain, FAREWELL, Shared};
use crate::stats::WorkerIndex;
use crate::upstream::{Upstreams, sweep};

/// The parts of one worker.
#[derive(Debug)]
struct Worker {
    local: Rc<Local>,
    upstreams: Rc<Upstreams>,
    clients: Rc<Clients>,
    acceptors: Acceptors,
    keys: FetchedAhead,
    /// The listeners that were followed last.
    listeners: Arc<BTreeMap<Arc<str>, Arc<Listener>>>,
}

impl Worker {
    fn new(local: Rc<Local>) -> Self {
        let upstreams = Upstreams::new(Rc::clone(&local));
        Self {
            clients: Clients::new(Rc::clone(&upstreams)),
            acceptors: Acceptors::default(),
            keys: FetchedAhead::default(),
            listeners: Arc::default(),
            upstreams,
            local,
        }
    }

    /// What is done beside, as long as the worker serves.
    fn duties(&self) -> JoinSet<()> {
        let mut duties = JoinSet::new();
        duties.spawn_local(Rc::clone(&self.local.clock).drive());
        duties.spawn_local(Rc::clone(&self.local).drive_logs());
        duties.spawn_local(reports::drive(Rc::clone(&self.upstreams)));
        duties.spawn_local(sweep(Rc::clone(&self.upstreams)));
        duties
    }

    /// Serves until [`Drain::Stop`]. No duty ends before, or connections would have no deadlines any more, or logs no
    /// lines.
    async fn serve(mut self, mut duties: JoinSet<()>) -> io::Result<()> {
        let shared = Arc::clone(&self.local.shared);
        let mut drain = shared.drain.clone();
        let mut sockets = shared.sockets.clone();
        let mut snapshot = shared.snapshot.clone();
        snapshot.mark_changed();
        sockets.mark_changed();
        drain.mark_changed();
        let (mut farewell, mut has_parted) = (None, false);
        loop {
            // A sender that is gone means that the control half has ended: so do we. What is followed is taken out
            // first: to look at it again while it is borrowed, and somebody waits to replace it, is to wait for ever.
            tokio::select! {
                Some(ended) = duties.join_next() => {
                    let why = ended.map_or_else(|error| error.to_string(), |()| "it has returned".to_owned());
                    return Err(io::Error::other(format!("a duty of the worker has ended: {why}")));
                }
                changed = drain.changed() => {
                    let now = *drain.borrow_and_update();
                    if now == Drain::Draining {
                        farewell.get_or_insert(Instant::now() + FAREWELL);
                    }
                    if changed.is_err() || self.follow_drain(now).is_break() {
                        break;
                    }
                }
                () = due::at(farewell), if !has_parted => {
                    has_parted = true;
                    self.clients.connections.drain(|_| true);
                }
                changed = snapshot.changed() => {
                    let now = Arc::clone(&snapshot.borrow_and_update());
                    if changed.is_err() {
                        break;
                    }
                    self.follow_snapshot(&now);
                }
                changed = sockets.changed() => {
                    let now = Arc::clone(&sockets.borrow_and_update());
                    if changed.is_err() {
                        break;
                    }
                    if self.local.drain() < Drain::Draining {
                        self.acceptors.follow(&self.clients, &now);
                    }
                }
            }
        }
        self.acceptors.stop();
        reports::finish(&self.local).await;
        Ok(())
    }

    /// Breaks when it is time to return.
    fn follow_drain(&mut self, drain: Drain) -> ControlFlow<()> {
        self.local.follow_drain(drain);
        match drain {
            Drain::Serving => {}
            Drain::Discouraging => self.clients.connections.discourage(|_| true),
            Drain::Draining => {
                self.acceptors.stop_accepting();
                self.clients.connections.discourage(|_| true);
            }
            Drain::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn follow_snapshot(&mut self, snapshot: &Arc<Snapshot>) {
        // Keeps what this configuration drops, before anybody asks for it.
        self.local.snapshot();
        self.upstreams.follow(snapshot);
        if !Arc::ptr_eq(&self.listeners, &snapshot.listeners) {
            self.listeners = Arc::clone(&snapshot.listeners);
            self.clients.follow(snapshot);
            self.keys.follow(&self.upstreams, snapshot);
        }
    }
}

/// Runs a worker on the calling thread until the control half says stop.
pub fn run(shared: Arc<Shared>, index: WorkerIndex) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // A runtime whose own tasks need not be `Send`: a set of local tasks on top would queue each wake-up twice.
    let runtime = builder.enable_all().build_local(LocalOptions::default())?;
    let local = Local::new(shared, index);
    let served = runtime.block_on(async {
        let worker = Worker::new(Rc::clone(&local));
        let duties = worker.duties();
        worker.serve(duties).await
    });
    // What is still open is cut off with the tasks that hold it.
    drop(runtime);
    local.flush_logs();
    served
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::shared::share;

    #[test]
    fn a_worker_whose_duty_has_ended_ends_with_an_error() {
        let (shared, _publishers) = share(1, None);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build_local(LocalOptions::default()).unwrap();
        let ended = runtime.block_on(async {
            let mut duties = JoinSet::new();
            duties.spawn_local(async {});
            Worker::new(Local::new(shared, WorkerIndex(0))).serve(duties).await
        });
        assert!(ended.is_err());
    }

    #[test]
    fn nobody_waits_for_ever_when_configurations_follow_on_each_other() {
        let (shared, publishers) = share(1, None);
        let worker = thread::spawn(move || run(shared, WorkerIndex(0)));
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            for _ in 0..20_000 {
                publishers.snapshot.send_replace(Arc::default());
            }
            publishers.drain.send_replace(Drain::Stop);
            done.send(worker.join())
        });
        let ended = is_done.recv_timeout(Duration::from_secs(60));
        assert!(matches!(ended, Ok(Ok(Ok(())))), "{ended:?}");
    }
}
