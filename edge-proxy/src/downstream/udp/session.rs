//! One client of a datagram listener and the host that was chosen for it.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tracing::debug;

use crate::access_log::record::Session as Passed;
use crate::access_log::stream::About;
use crate::access_log::{Spoken, StreamLog};
use crate::clock::{Kind, Timer};
use crate::config::Snapshot;
use crate::config::cluster::{Cluster, ClusterEntry};
use crate::config::endpoint::{Health, Host, HostAddress, HostId};
use crate::config::stream::UdpProxy;
use crate::downstream::udp::{BATCH, Sessions};
use crate::proxy_protocol::Addresses;
use crate::stats::{ClusterCells, UdpCells, WorkerIndex};
use crate::upstream::Apart;
use crate::upstream::balance::Choice;
use crate::upstream::limits::{ConnectionGuard, may_connect};

/// A session; dropping it ends it.
#[derive(Debug)]
pub(super) struct Session {
    path: Rc<Path>,
    /// The host that it was given, as the configuration has it by now: what is said of its health changes.
    host: Arc<Host>,
    answers: AbortHandle,
    _open: ConnectionGuard,
}

/// What both directions of a session use.
#[derive(Debug)]
struct Path {
    worker: WorkerIndex,
    client: SocketAddr,
    /// Connected, so that the system tells whose errors are whose and drops what strangers send.
    socket: UdpSocket,
    timer: Timer,
    proxy: Arc<UdpProxy>,
    cluster: Arc<Cluster>,
    /// What is written of it, if anything.
    log: Option<StreamLog>,
}

impl Session {
    /// A session for a new client; `None`, counted, when no host can be had.
    pub(super) fn open(
        sessions: &Rc<Sessions>,
        snapshot: &Snapshot,
        proxy: &Arc<UdpProxy>,
        client: SocketAddr,
    ) -> Option<Self> {
        let worker = &sessions.worker;
        let Some(entry) = snapshot.cluster(proxy.route.pick(client.port())) else {
            proxy.stats.cells(worker.index).downstream_sess_no_route.inc();
            return None;
        };
        let cells = entry.cluster.stats.cells(worker.index);
        if !may_connect(&entry.cluster, worker.shared.workers) {
            cells.upstream_cx_overflow.inc();
            return None;
        }
        let Some(host) = choose(sessions, entry, proxy, client) else {
            cells.upstream_cx_none_healthy.inc();
            return None;
        };
        Self::with(sessions, snapshot, entry, proxy, client, host)
    }

    /// A session with another host, where this one's has failed; `None` where it hasn't, or no other is to be had.
    /// Whoever asks again and again would else stay with it, as nothing stands still for long enough to end.
    pub(super) fn elsewhere(
        &self,
        sessions: &Rc<Sessions>,
        snapshot: &Snapshot,
        proxy: &Arc<UdpProxy>,
    ) -> Option<Self> {
        let client = self.path.client;
        if self.host.health() != Health::Unhealthy {
            return None;
        }
        let entry = snapshot.cluster(proxy.route.pick(client.port()))?;
        let host = choose(sessions, entry, proxy, client)?;
        // Where all are ill they are all used, and none is better than this one.
        if host.health() == Health::Unhealthy {
            return None;
        }
        Self::with(sessions, snapshot, entry, proxy, client, host)
    }

    fn with(
        sessions: &Rc<Sessions>,
        snapshot: &Snapshot,
        entry: &ClusterEntry,
        proxy: &Arc<UdpProxy>,
        client: SocketAddr,
        host: &Arc<Host>,
    ) -> Option<Self> {
        let (worker, upstreams) = (&sessions.worker, &sessions.upstreams);
        let (own, cluster) = (proxy.stats.cells(worker.index), &entry.cluster);
        let cells = cluster.stats.cells(worker.index);
        let socket = match connect(&host.address) {
            Ok(socket) => socket,
            Err(error) => {
                debug!(cluster = %cluster.name, host = ?host.address, %error, "no socket for a session");
                cells.upstream_cx_connect_fail.inc();
                host.stats.cx_connect_fail.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        };
        own.downstream_sess_total.inc();
        own.downstream_sess_active.inc();
        let pool = upstreams.pool(entry, host, Apart::default());
        let log = log(sessions, snapshot, proxy, client);
        if let Some(log) = &log {
            log.note(|record| {
                record.upstream.host = Some(Arc::clone(host));
                record.upstream.local = socket.local_addr().ok();
                record.upstream.is_connected = true;
                record.session = Some(Passed {
                    cluster: Some(Arc::clone(cluster)),
                    ..Passed::default()
                });
            });
        }
        let path = Rc::new(Path {
            worker: worker.index,
            client,
            socket,
            timer: worker.clock.timer(),
            proxy: Arc::clone(proxy),
            cluster: Arc::clone(cluster),
            log,
        });
        let answers = tokio::task::spawn_local(answers(Rc::downgrade(sessions), Rc::clone(&path)));
        Some(Self {
            path,
            host: Arc::clone(host),
            answers: answers.abort_handle(),
            _open: ConnectionGuard::new(&pool),
        })
    }

    /// Hands a datagram of the client on.
    pub(super) fn send(&self, datagram: &[u8]) {
        let path = &self.path;
        path.moved();
        path.own_cells().downstream_sess_rx_datagrams.inc();
        path.own_cells().downstream_sess_rx_bytes.add(datagram.len() as u64);
        path.note(|received, _, passed| {
            passed.datagrams_received += 1;
            *received += datagram.len() as u64;
        });
        let cells = path.cells();
        // Past the runtime, which does not know yet that a new socket can be written to.
        match SockRef::from(&path.socket).send(datagram) {
            Ok(sent) => {
                cells.udp_sess_tx_datagrams.inc();
                cells.upstream_cx_tx_bytes_total.add(sent as u64);
            }
            Err(_) => cells.udp_sess_tx_errors.inc(),
        }
    }

    /// The settings of the cluster that it was opened with.
    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.path.cluster
    }

    /// The host that it was given.
    pub(super) fn host(&self) -> HostId {
        self.host.id
    }

    /// Takes over what is said of its host now.
    pub(super) fn hear_of(&mut self, host: &Arc<Host>) {
        self.host = Arc::clone(host);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.answers.abort();
        self.path.own_cells().downstream_sess_active.dec();
    }
}

impl Path {
    fn own_cells(&self) -> &UdpCells {
        self.proxy.stats.cells(self.worker)
    }

    fn cells(&self) -> &ClusterCells {
        self.cluster.stats.cells(self.worker)
    }

    /// Tells the log, if there is one, by what was received and sent so far.
    fn note(&self, tell: impl FnOnce(&mut u64, &mut u64, &mut Passed)) {
        if let Some(log) = &self.log {
            log.note(|record| {
                let passed = record.session.get_or_insert_default();
                tell(&mut record.received, &mut record.sent, passed);
            });
        }
    }

    fn moved(&self) {
        self.timer
            .set(Kind::Idle, self.timer.clock().now(), self.proxy.idle_timeout);
    }

    /// Hands on what the host has sent; breaks when there is nothing more for now.
    fn hand_back(&self, sessions: &Sessions) -> ControlFlow<()> {
        let mut buffer = sessions.buffer.borrow_mut();
        for _ in 0..BATCH {
            let length = match self.socket.try_recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return ControlFlow::Break(()),
                // An earlier datagram was refused; another one may fare better.
                Err(_) => {
                    self.cells().udp_sess_rx_errors.inc();
                    continue;
                }
            };
            self.moved();
            if length > self.proxy.max_upstream_datagram {
                self.cells().udp_sess_rx_datagrams_dropped.inc();
                continue;
            }
            self.cells().udp_sess_rx_datagrams.inc();
            self.cells().upstream_cx_rx_bytes_total.add(length as u64);
            match sessions.answer(self.client, &buffer[..length]) {
                Ok(()) => {
                    self.own_cells().downstream_sess_tx_datagrams.inc();
                    self.own_cells().downstream_sess_tx_bytes.add(length as u64);
                    self.note(|_, sent, passed| {
                        passed.datagrams_sent += 1;
                        *sent += length as u64;
                    });
                }
                Err(_) => {
                    self.own_cells().downstream_sess_tx_errors.inc();
                    self.note(|_, _, passed| passed.errors_sent += 1);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// A host for a client.
fn choose<'a>(
    sessions: &Sessions,
    entry: &'a ClusterEntry,
    proxy: &UdpProxy,
    client: SocketAddr,
) -> Option<&'a Arc<Host>> {
    let choice = Choice {
        hash: proxy.hashed.of(client.ip()),
        ..Choice::default()
    };
    let balancers = &sessions.upstreams.balancers;
    balancers.pick(entry, &sessions.worker.random, choice)
}

/// What is written of a session.
fn log(sessions: &Sessions, snapshot: &Snapshot, proxy: &UdpProxy, client: SocketAddr) -> Option<StreamLog> {
    let (logs, worker) = (proxy.access_logs.as_ref()?, &sessions.worker);
    let local = sessions.socket.local_addr().ok()?;
    let addresses = Addresses { client, local };
    let about = About {
        listener: Arc::clone(snapshot.listeners.get(&sessions.name)?),
        chain: "".into(),
        addresses,
        direct: addresses,
        server_name: None,
        certificate: None,
        agreed: None,
        spoken: Spoken::Datagrams,
    };
    Some(StreamLog::new(worker, logs, about, worker.clock.now()))
}

/// Hands answers back until the session has stood still for too long. It does not keep the sessions: they end it.
async fn answers(sessions: Weak<Sessions>, path: Rc<Path>) {
    loop {
        let arrived = poll_fn(|cx| {
            if let Poll::Ready(ready) = path.socket.poll_recv_ready(cx) {
                return Poll::Ready(ready.is_ok());
            }
            path.timer.poll_expired(cx).map(|_| false)
        })
        .await;
        let Some(sessions) = sessions.upgrade() else { return };
        if !arrived {
            path.own_cells().idle_timeout.inc();
            sessions.end(path.client);
            return;
        }
        let more = path.hand_back(&sessions).is_continue();
        drop(sessions);
        if more {
            tokio::task::yield_now().await;
        }
    }
}

/// A socket that talks to one host alone.
fn connect(host: &HostAddress) -> io::Result<UdpSocket> {
    let HostAddress::Socket(address) = host else {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "not an address for datagrams",
        ));
    };
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
