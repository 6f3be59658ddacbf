//! What the control half and the workers share.
//!
//! The published snapshot, the sockets to accept on, the drain signal, flags that the admin interface flips, and
//! the process-wide counters. The control half owns the sending sides ([`Publishers`]); workers only read.
//! Why `watch`: a worker asks an atomic version before it touches the value, so a request costs one load while nothing
//! changes, and a waiting worker wakes when something does.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Snapshot;
use crate::config::listener::SocketProtocol;
use crate::log_files::writer::LogWriter;
use crate::stats::{SecretScopes, ServerStats};

/// Everything a worker is given. `Send + Sync`, behind one `Arc`.
#[derive(Debug)]
pub struct Shared {
    /// How many workers there are.
    pub workers: usize,
    /// The configuration.
    pub snapshot: watch::Receiver<Arc<Snapshot>>,
    /// The sockets to accept on; a socket that is no longer in the list must be closed.
    pub sockets: watch::Receiver<Arc<[Arc<BoundListener>]>>,
    /// How far the process is on its way out.
    pub drain: watch::Receiver<Drain>,
    /// What the admin interface flips.
    pub flags: RuntimeFlags,
    /// Process-wide counters.
    pub stats: Arc<ServerStats>,
    /// Counters of secrets that servers beside the proxy have.
    pub secrets: SecretScopes,
    /// Writes access logs.
    pub logs: LogWriter,
    /// Address of the admin interface, once bound.
    pub admin_address: Option<SocketAddr>,
}

/// The sending sides of what workers read.
#[derive(Debug)]
pub struct Publishers {
    /// Of [`Shared::snapshot`].
    pub snapshot: watch::Sender<Arc<Snapshot>>,
    /// Of [`Shared::sockets`].
    pub sockets: watch::Sender<Arc<[Arc<BoundListener>]>>,
    /// Of [`Shared::drain`].
    pub drain: watch::Sender<Drain>,
}

/// Sockets of one address of one listener: one per worker, bound with `SO_REUSEPORT` before any worker sees them.
#[derive(Debug)]
pub struct BoundListener {
    /// The listener in [`Snapshot::listeners`] that serves new connections. Look it up per connection: the listener's
    /// settings may change while its sockets stay.
    pub listener: Arc<str>,
    /// The address really bound (a configured port 0 is resolved).
    pub address: SocketAddr,
    /// One per worker; already non-blocking. Workers `try_clone` theirs.
    pub sockets: ListeningSockets,
}

/// The sockets of all workers, of one kind.
#[derive(Debug)]
pub enum ListeningSockets {
    /// They accept connections.
    Tcp(Box<[TcpListener]>),
    /// They receive datagrams.
    Udp(Box<[UdpSocket]>),
}

impl ListeningSockets {
    /// What they take.
    pub fn protocol(&self) -> SocketProtocol {
        match self {
            Self::Tcp(_) => SocketProtocol::Tcp,
            Self::Udp(_) => SocketProtocol::Udp,
        }
    }
}

/// So long a connection in HTTP/1 that is idle stays open once no new ones are taken: a request may be on its way, and
/// its answer tells the client.
pub const FAREWELL: Duration = Duration::from_secs(3);

/// Steps of the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drain {
    /// Serving.
    Serving,
    /// `/drain_listeners?graceful`: go on accepting, but tell clients to leave (`connection: close`, GOAWAY).
    Discouraging,
    /// No new connections; open ones end after the request in flight (`connection: close`, GOAWAY), or idle, after
    /// [`FAREWELL`].
    Draining,
    /// The drain time is over: close everything and return from `run`.
    Stop,
}

/// Switches of the admin interface.
#[derive(Debug, Default)]
pub struct RuntimeFlags {
    health_failed: AtomicBool,
    max_connections: AtomicU64,
    connections: AtomicU64,
    drain_time: OnceLock<Duration>,
}

/// Envoy's default of `--drain-time-s`.
const DRAIN_TIME: Duration = Duration::from_secs(600);

impl RuntimeFlags {
    /// Most client connections over all workers (the overload manager's limit); `None` is no limit. Listeners with
    /// `bypass_overload` neither count nor refuse.
    pub fn max_connections(&self) -> Option<u64> {
        Some(self.max_connections.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Counts a client connection; `None` when there are too many already. One count for all workers, as the limit is.
    pub(crate) fn admit(&self) -> Option<Admission<'_>> {
        let open = self.connections.fetch_add(1, Ordering::Relaxed);
        // Made first: dropping it takes the count back.
        let admission = Admission(self);
        self.max_connections()
            .is_none_or(|limit| open < limit)
            .then_some(admission)
    }

    /// How long what is open may go on when its listener has gone.
    pub fn drain_time(&self) -> Duration {
        self.drain_time.get().copied().unwrap_or(DRAIN_TIME)
    }

    /// Sets that time; the first value counts.
    pub fn set_drain_time(&self, time: Duration) {
        let _ = self.drain_time.set(time);
    }

    /// Sets the limit.
    pub fn limit_connections(&self, limit: Option<u64>) {
        self.max_connections.store(limit.unwrap_or(0), Ordering::Relaxed);
    }

    /// True between `/healthcheck/fail` and `/healthcheck/ok`: health check filters answer 503 and connections drain.
    pub fn health_failed(&self) -> bool {
        self.health_failed.load(Ordering::Relaxed)
    }

    /// `/healthcheck/fail`.
    pub fn fail_health(&self) {
        self.health_failed.store(true, Ordering::Relaxed);
    }

    /// `/healthcheck/ok`.
    pub fn restore_health(&self) {
        self.health_failed.store(false, Ordering::Relaxed);
    }
}

/// A client connection that counts.
#[derive(Debug)]
pub(crate) struct Admission<'a>(&'a RuntimeFlags);

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A worker's own copy of the snapshot pointer. Not shared: every worker makes one from [`Shared::snapshot`].
#[derive(Debug)]
pub struct SnapshotCache {
    receiver: watch::Receiver<Arc<Snapshot>>,
    current: Arc<Snapshot>,
}

impl SnapshotCache {
    /// A cache that starts with the snapshot of now.
    pub fn new(shared: &Shared) -> Self {
        let mut receiver = shared.snapshot.clone();
        let current = receiver.borrow_and_update().clone();
        Self { receiver, current }
    }

    /// The snapshot of now: one atomic load when nothing changed.
    pub fn current(&mut self) -> &Arc<Snapshot> {
        // An error means that the sender is gone, which happens only on the way out: the last one stays.
        if self.receiver.has_changed().unwrap_or(false) {
            self.current = self.receiver.borrow_and_update().clone();
        }
        &self.current
    }
}

/// What workers read, and the sending sides of it.
pub(crate) fn share(workers: usize, admin_address: Option<SocketAddr>) -> (Arc<Shared>, Publishers) {
    let (snapshot, snapshot_reader) = watch::channel(Arc::new(Snapshot::default()));
    let (sockets, sockets_reader) = watch::channel(Arc::from([]));
    let (drain, drain_reader) = watch::channel(Drain::Serving);
    let stats = Arc::new(ServerStats::new("", "", workers));
    stats
        .control()
        .concurrency
        .set(i64::try_from(workers).unwrap_or(i64::MAX));
    let shared = Arc::new(Shared {
        workers,
        snapshot: snapshot_reader,
        sockets: sockets_reader,
        drain: drain_reader,
        flags: RuntimeFlags::default(),
        stats,
        secrets: SecretScopes::default(),
        logs: LogWriter::default(),
        admin_address,
    });
    (
        shared,
        Publishers {
            snapshot,
            sockets,
            drain,
        },
    )
}
