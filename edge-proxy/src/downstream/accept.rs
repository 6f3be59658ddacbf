//! Accepting: sockets, and errors of `accept`.
//!
//! One task per listening socket. An error that belongs to one connection is skipped; when the process or the
//! system is out of resources the task pauses with growing, jittered back-off instead of spinning; anything else that
//! repeats is treated likewise. A socket that is taken away is emptied first, because connections in its queue would
//! be reset. Whom a connection is for is found out in `choose`, whether it is let in and what serves it in `admit`.

mod admit;
mod choose;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use crate::downstream::{Clients, udp};
use crate::local::Local;
use crate::shared::{BoundListener, ListeningSockets};
use admit::begin;

/// The accepting tasks of a worker.
#[derive(Debug, Default)]
pub(crate) struct Acceptors {
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    bound: Arc<BoundListener>,
    stop: Rc<tokio::sync::Notify>,
    _task: JoinHandle<()>,
}

impl Acceptors {
    /// Starts and stops tasks so that exactly these sockets are accepted on.
    pub(crate) fn follow(&mut self, clients: &Rc<Clients>, sockets: &[Arc<BoundListener>]) {
        self.running.retain(|running| {
            let stays = sockets.iter().any(|bound| Arc::ptr_eq(bound, &running.bound));
            if !stays {
                running.stop.notify_one();
            }
            stays
        });
        for bound in sockets {
            if self.running.iter().any(|running| Arc::ptr_eq(&running.bound, bound)) {
                continue;
            }
            match listen(bound, &clients.worker) {
                Ok(socket) => {
                    let stop = Rc::new(tokio::sync::Notify::new());
                    let (clients, name, stopped) = (Rc::clone(clients), Arc::clone(&bound.listener), Rc::clone(&stop));
                    let _task = match socket {
                        Listening::Tcp(socket) => tokio::task::spawn_local(accept(clients, name, socket, stopped)),
                        Listening::Udp(socket) => tokio::task::spawn_local(udp::serve(clients, name, socket, stopped)),
                    };
                    self.running.push(Running {
                        bound: Arc::clone(bound),
                        stop,
                        _task,
                    });
                }
                Err(error) => warn!(listener = %bound.listener, %error, "listening socket can't be used"),
            }
        }
    }

    /// Stops accepting connections. Datagrams are served on: nothing tells their senders to go elsewhere, so whoever
    /// still comes is better answered.
    pub(crate) fn stop_accepting(&mut self) {
        self.running.retain(|running| {
            let stays = matches!(running.bound.sockets, ListeningSockets::Udp(_));
            if !stays {
                running.stop.notify_one();
            }
            stays
        });
    }

    /// Stops everything.
    pub(crate) fn stop(&mut self) {
        for running in self.running.drain(..) {
            running.stop.notify_one();
        }
    }
}

/// This worker's socket, registered with its runtime.
enum Listening {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

fn listen(bound: &BoundListener, worker: &Local) -> io::Result<Listening> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no socket for this worker");
    match &bound.sockets {
        ListeningSockets::Tcp(sockets) => {
            let socket = sockets.get(worker.index.0).ok_or_else(missing)?.try_clone()?;
            TcpListener::from_std(socket).map(Listening::Tcp)
        }
        ListeningSockets::Udp(sockets) => {
            let socket = sockets.get(worker.index.0).ok_or_else(missing)?.try_clone()?;
            UdpSocket::from_std(socket).map(Listening::Udp)
        }
    }
}

async fn accept(clients: Rc<Clients>, name: Arc<str>, socket: TcpListener, stop: Rc<tokio::sync::Notify>) {
    let mut pause = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.notified() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = Duration::ZERO;
                begin(&clients, &name, stream, peer);
            }
            Err(error) if is_of_one_connection(&error) => debug!(listener = %name, %error, "connection lost in accept"),
            Err(error) => {
                pause = (pause * 2).clamp(Duration::from_millis(10), Duration::from_secs(1));
                warn!(listener = %name, %error, "accept fails, pausing");
                let jitter = clients.worker.random.below(pause.as_millis() as usize / 2 + 1) as u64;
                tokio::time::sleep(pause + Duration::from_millis(jitter)).await;
            }
        }
    }
    let mut cx = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok((stream, peer))) = socket.poll_accept(&mut cx) {
        begin(&clients, &name, stream, peer);
    }
}

/// accept(2) passes on errors that were already pending on the new connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, PermissionDenied};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | PermissionDenied
    )
}
