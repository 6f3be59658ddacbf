//! Datagrams: sessions by client address.
//!
//! One task per listening socket receives from clients; the first datagram of a client picks a host and opens a
//! session with an upstream socket of its own, so that answers find their way back by the socket they come in on. The
//! kernel keeps a client on one worker's socket (`SO_REUSEPORT` hashes both ends), so sessions need not be shared. A
//! session ends when nothing moves for the idle timeout, when its host leaves the cluster, or with its listener; it is
//! opened again with another host when its own has failed and the client goes on asking. The cluster's limit on
//! connections bounds how many there are. A datagram that can't be sent on at once is dropped and counted, as any queue
//! on its way would do; nothing waits. Deliberately absent: batched system calls, balancing per datagram, and choosing
//! the source address of answers on a host with several (the system picks it by its routes).

mod session;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tracing::debug;

use crate::config::endpoint::{Host, HostId};
use crate::config::stream::UdpProxy;
use crate::config::{ClusterId, Snapshot};
use crate::downstream::Clients;
use crate::downstream::udp::session::Session;
use crate::local::Local;
use crate::upstream::Upstreams;

/// One more than the largest payload, so that a larger one than is allowed can be told from one that fits.
const BUFFER: usize = 1 << 16;

/// How many datagrams are handled before others have their turn.
const BATCH: usize = 64;

/// Receives until it is told to stop; then all sessions end.
pub(super) async fn serve(clients: Rc<Clients>, name: Arc<str>, socket: UdpSocket, stop: Rc<Notify>) {
    let mut snapshot = clients.worker.shared.snapshot.clone();
    let sessions = Rc::new(Sessions {
        worker: Rc::clone(&clients.worker),
        upstreams: Rc::clone(&clients.upstreams),
        name,
        socket,
        open: RefCell::default(),
        buffer: RefCell::new(vec![0; BUFFER].into()),
    });
    loop {
        let more = tokio::select! {
            biased;
            () = stop.notified() => break,
            changed = snapshot.changed() => match changed {
                Ok(()) => {
                    let now = Arc::clone(&snapshot.borrow_and_update());
                    sessions.follow(&now);
                    false
                }
                // The control half has ended.
                Err(_) => break,
            },
            ready = sessions.socket.readable() => ready.is_ok() && sessions.receive(),
        };
        if more {
            tokio::task::yield_now().await;
        }
    }
    sessions.end_all();
}

/// The sessions of one listening socket.
#[derive(Debug)]
struct Sessions {
    worker: Rc<Local>,
    upstreams: Rc<Upstreams>,
    /// Of the listener.
    name: Arc<str>,
    socket: UdpSocket,
    open: RefCell<FxHashMap<SocketAddr, Session>>,
    /// Every datagram passes through here; none is kept.
    buffer: RefCell<Box<[u8]>>,
}

impl Sessions {
    /// Handles what has arrived from clients; true when there may be more.
    fn receive(self: &Rc<Self>) -> bool {
        let snapshot = self.worker.snapshot();
        let listener = snapshot.listeners.get(&self.name);
        let proxy = listener.and_then(|listener| listener.udp.as_ref());
        let mut buffer = self.buffer.borrow_mut();
        for _ in 0..BATCH {
            let (length, client) = match self.socket.try_recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    debug!(listener = %self.name, %error, "receiving fails");
                    if let Some(proxy) = proxy {
                        proxy.stats.cells(self.worker.index).downstream_sess_rx_errors.inc();
                    }
                    continue;
                }
            };
            // Between the removal of a listener and that of its sockets nobody serves what arrives.
            if let Some(proxy) = proxy {
                self.send_on(&snapshot, proxy, client, &buffer[..length]);
            }
        }
        true
    }

    fn send_on(self: &Rc<Self>, snapshot: &Snapshot, proxy: &Arc<UdpProxy>, client: SocketAddr, datagram: &[u8]) {
        let cells = proxy.stats.cells(self.worker.index);
        if datagram.len() > proxy.max_downstream_datagram {
            cells.downstream_sess_rx_errors.inc();
            return;
        }
        let mut open = self.open.borrow_mut();
        if let Some(session) = open.get_mut(&client)
            && let Some(other) = session.elsewhere(self, snapshot, proxy)
        {
            *session = other;
        }
        let session = match open.get(&client) {
            Some(session) => session,
            None => match Session::open(self, snapshot, proxy, client) {
                Some(session) => open.entry(client).or_insert(session),
                None => return,
            },
        };
        session.send(datagram);
    }

    /// An answer to a client.
    fn answer(&self, client: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        // Past the runtime: nobody waits for the socket to become writable.
        SockRef::from(&self.socket).send_to(datagram, &client.into()).map(drop)
    }

    /// Ends sessions that the configuration would not open any more.
    fn follow(&self, snapshot: &Snapshot) {
        let mut open = self.open.borrow_mut();
        if open.is_empty() {
            return;
        }
        let listener = snapshot.listeners.get(&self.name);
        let Some(proxy) = listener.and_then(|listener| listener.udp.as_ref()) else {
            open.clear();
            return;
        };
        let mut hosts: FxHashMap<ClusterId, FxHashMap<HostId, &Arc<Host>>> = FxHashMap::default();
        open.retain(|client, session| {
            let id = proxy.route.pick(client.port());
            snapshot.cluster(id).is_some_and(|entry| {
                let hosts = hosts
                    .entry(id)
                    .or_insert_with(|| entry.endpoints.hosts.iter().map(|host| (host.id, host)).collect());
                let Some(host) = hosts.get(&session.host()) else {
                    return false;
                };
                session.hear_of(host);
                Arc::ptr_eq(session.cluster(), &entry.cluster)
            })
        });
    }

    fn end(&self, client: SocketAddr) {
        let ended = self.open.borrow_mut().remove(&client);
        drop(ended);
    }

    fn end_all(&self) {
        self.open.borrow_mut().clear();
    }
}
