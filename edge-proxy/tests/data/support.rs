//! A proxy, backends and clients for tests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use edge_proxy::config::Snapshot;
use edge_proxy::shared::{BoundListener, Drain, ListeningSockets, RuntimeFlags, Shared};
use edge_proxy::stats::{ServerStats, WorkerIndex};
use edge_proxy::worker;
use tokio::sync::watch;

#[path = "support/backend.rs"]
mod backend;
#[path = "support/client.rs"]
mod client;
#[path = "support/config.rs"]
mod config;
#[path = "support/frames.rs"]
pub(crate) mod frames;

pub(crate) use backend::{Backend, Speaks};
pub(crate) use client::{Http1, Reply, get, http2, tunnelled};
pub(crate) use config::{
    Config, catch_all, chain, cluster, entry, forward, listener, manager, manager_of, only, route, says, simple,
    snapshot, snapshot_with, table, with_forward, with_routes,
};

/// How long a test waits for what must happen. Only a failing test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test with the runtime of its clients and backends.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") })
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    pub(crate) sockets: watch::Sender<Arc<[Arc<BoundListener>]>>,
    pub(crate) drain: watch::Sender<Drain>,
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ended: mpsc::Receiver<()>,
}

impl Proxy {
    pub(crate) fn start(config: Config) -> Self {
        let socket = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        // One socket is enough: workers that share it take turns, which is all that tests need.
        let sockets = (0..config.workers).map(|_| socket.try_clone().unwrap()).collect();
        drop(socket);
        let bound = Arc::new(BoundListener {
            listener: Arc::from("in"),
            address,
            sockets: ListeningSockets::Tcp(sockets),
        });
        let (snapshot, snapshot_receiver) = watch::channel(Arc::new(config.snapshot));
        let (sockets, sockets_receiver) = watch::channel(Arc::from([bound]));
        let (drain, drain_receiver) = watch::channel(Drain::Serving);
        let shared = Arc::new(Shared {
            workers: config.workers,
            snapshot: snapshot_receiver,
            sockets: sockets_receiver,
            drain: drain_receiver,
            flags: RuntimeFlags::default(),
            logs: edge_proxy::log_files::writer::LogWriter::default(),
            stats: Arc::new(ServerStats::new("", "", config.workers)),
            secrets: edge_proxy::stats::SecretScopes::default(),
            admin_address: None,
        });
        let (end, ended) = mpsc::channel();
        let threads = (0..config.workers)
            .map(|index| {
                let (shared, end) = (Arc::clone(&shared), end.clone());
                std::thread::spawn(move || {
                    worker::run(shared, WorkerIndex(index)).unwrap();
                    end.send(()).unwrap();
                })
            })
            .collect();
        Self {
            address,
            snapshot,
            sockets,
            drain,
            shared,
            threads,
            ended,
        }
    }

    /// Publishes a changed snapshot.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let now = Arc::clone(&self.snapshot.borrow());
        let mut next = Snapshot {
            version: now.version + 1,
            listeners: Arc::clone(&now.listeners),
            route_tables: Arc::clone(&now.route_tables),
            clusters: Arc::clone(&now.clusters),
            cluster_ids: Arc::clone(&now.cluster_ids),
        };
        change(&mut next);
        self.snapshot.send(Arc::new(next)).unwrap();
    }

    /// Waits until every worker has returned.
    pub(crate) fn wait_for_end(&self) {
        for _ in &self.threads {
            self.ended.recv_timeout(PATIENCE).expect("the worker goes on");
        }
    }

    /// A new HTTP/1 connection.
    pub(crate) async fn http1(&self) -> Http1 {
        Http1::connect(self.address).await
    }

    /// One GET on a connection of its own.
    pub(crate) async fn get(&self, host: &str, path: &str) -> Reply {
        self.http1().await.get(host, path).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.drain.send_replace(Drain::Stop);
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            if !std::thread::panicking() {
                joined.unwrap();
            }
        }
    }
}

/// An address on which nobody listens. It stays taken until this program ends, so that no other test listens there.
pub(crate) fn nobody() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} never happens");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
