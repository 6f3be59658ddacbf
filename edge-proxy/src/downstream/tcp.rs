//! Connections whose bytes are handed on as they are.
//!
//! One cluster by weight, one host of it, and two byte streams that are copied into each other. Either side may
//! end its direction and go on listening (RFC 9293 §3.6); the connection is over when both have, when one fails, by
//! which the other is told that it broke, or when nothing moves for too long. While the process drains, or when their
//! listener has gone or would serve them by other settings, open connections go on until the drain time is over:
//! nothing in a byte stream can ask a peer to leave.
//! Deliberately absent: reading from the client before there is a backend, which would lose bytes to a failed attempt
//! (of TLS that stays closed the client hello has been read, and is kept).

mod backend;

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::access_log::{Record, StreamLog};
use crate::clock::{Kind, Timer};
use crate::config::listener::{FilterChain, Listener, Network};
use crate::config::stream::TcpProxy;
use crate::connection::settings::successor;
use crate::downstream::Clients;
use crate::local::Local;
use crate::proxy_protocol::Addresses;
use crate::stats::{ClusterCells, Counter, TcpCells};
use crate::transport::Transport;
use backend::open;

/// Bytes of a direction that wait to be written, at most; less when the listener allows less.
const BUFFER: usize = 16 * 1024;

/// What came with a connection.
pub(super) struct Arrived {
    /// Was read of it already, to find out its server name.
    pub(super) hello: Bytes,
    /// Client and local address, after the PROXY header.
    pub(super) addresses: Addresses,
    /// The server that its client asks for.
    pub(super) server_name: Option<Arc<str>>,
    /// What is written of it, if anything.
    pub(super) log: Option<Box<StreamLog>>,
}

impl Arrived {
    /// Has something written of it, where anything is.
    fn note(&self, tell: impl FnOnce(&mut Record)) {
        if let Some(log) = &self.log {
            log.note(tell);
        }
    }
}

/// Serves a connection to its last byte.
pub(super) async fn serve(
    clients: &Clients,
    listener: &Listener,
    chain: &FilterChain,
    proxy: &TcpProxy,
    client: Transport,
    arrived: Arrived,
) -> io::Result<()> {
    let (worker, log) = (&clients.worker, arrived.log.as_deref());
    let cells = proxy.stats.cells(worker.index);
    cells.downstream_cx_total.inc();
    let Some(backend) = open(&clients.upstreams, proxy, &arrived).await else {
        return Ok(());
    };
    let now = worker.clock.now();
    let timer = worker.clock.timer();
    timer.set(Kind::Idle, now, proxy.idle_timeout);
    timer.set(Kind::Lifetime, now, proxy.max_duration);
    let upstream_cells = backend.request.pool().cells();
    let mut client = Metered {
        io: client,
        replay: arrived.hello.clone(),
        read: &cells.downstream_cx_rx_bytes_total,
        written: &cells.downstream_cx_tx_bytes_total,
        timer: &timer,
        idle: proxy.idle_timeout,
        log,
        is_broken: false,
    };
    let mut upstream = Metered {
        io: backend.transport,
        replay: Bytes::new(),
        read: &upstream_cells.upstream_cx_rx_bytes_total,
        written: &upstream_cells.upstream_cx_tx_bytes_total,
        timer: &timer,
        idle: proxy.idle_timeout,
        log: None,
        is_broken: false,
    };
    let size = listener.per_connection_buffer_limit.clamp(1, BUFFER);
    let copying = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, size, size);
    let over = Deadlines {
        clients,
        listener,
        chain,
        server_name: arrived.server_name.as_deref(),
        client: arrived.addresses.client.ip(),
        timer: &timer,
        oldest: proxy.max_duration.and_then(|max| now.checked_add(max)),
    };
    match over.wait_for(copying).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            // What broke on one side breaks on the other.
            client.io.break_off();
            upstream.io.break_off();
            if upstream.is_broken {
                arrived.note(|record| record.flag("UR"));
            }
            Err(error)
        }
        Err(over) => {
            over.tell(&arrived, cells, upstream_cells);
            Ok(())
        }
    }
}

/// Why a stream is ended by this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Idle,
    TooOld,
    ChainGone,
}

impl Over {
    /// Counts it, and has it written down.
    fn tell(self, arrived: &Arrived, cells: &TcpCells, upstream: &ClusterCells) {
        match self {
            Self::ChainGone => {}
            Self::TooOld => {
                cells.max_downstream_connection_duration.inc();
                arrived.note(|record| record.flag("DT"));
            }
            Self::Idle => {
                cells.idle_timeout.inc();
                upstream.upstream_cx_idle_timeout.inc();
            }
        }
    }
}

/// What bounds a stream.
struct Deadlines<'a> {
    clients: &'a Clients,
    listener: &'a Listener,
    chain: &'a FilterChain,
    server_name: Option<&'a str>,
    client: IpAddr,
    timer: &'a Timer,
    oldest: Option<Instant>,
}

impl Deadlines<'_> {
    /// Waits for the copying, or for what ends it.
    async fn wait_for<T>(&self, copying: impl Future<Output = T>) -> Result<T, Over> {
        let mut copying = std::pin::pin!(copying);
        let mut leaving = false;
        loop {
            // Looked at first, as the listener may have gone while the backend was connected to.
            if !leaving && !self.is_served() {
                leaving = true;
                self.leave();
            }
            tokio::select! {
                biased;
                done = &mut copying => return Ok(done),
                kind = std::future::poll_fn(|cx| self.timer.poll_expired(cx)) => return Err(match kind {
                    Kind::Lifetime if leaving => Over::ChainGone,
                    Kind::Lifetime => Over::TooOld,
                    _ => Over::Idle,
                }),
                () = self.clients.listeners_changed.notified(), if !leaving => {}
            }
        }
    }

    /// Whether a chain with the same settings would take it now: who is let in and where it leads is told by these.
    fn is_served(&self) -> bool {
        let snapshot = self.clients.worker.snapshot();
        let listener = successor(self.listener, &snapshot);
        let hello = self.chain.hello(self.server_name);
        let chain = listener.and_then(|listener| listener.chain_for(hello, self.client));
        chain.is_some_and(|chain| chain.settings == self.chain.settings)
    }

    /// Shortens the life to the drain time.
    fn leave(&self) {
        let now = self.clients.worker.clock.now();
        let left = self
            .oldest
            .map_or(Duration::MAX, |oldest| oldest.saturating_duration_since(now));
        let drain_time = self.clients.worker.shared.flags.drain_time();
        self.timer.set(Kind::Lifetime, now, Some(left.min(drain_time)));
    }
}

/// Writes down why a connection isn't let in, and for which cluster it was.
pub(super) fn note_refused(worker: &Local, chain: &FilterChain, log: &StreamLog, why: String) {
    let cluster = match &chain.network {
        Network::Http(_) => None,
        Network::Tcp(proxy) | Network::Passthrough(proxy) => proxy.shares.pick(worker.random.next()),
    };
    let snapshot = worker.snapshot();
    let entry = cluster.and_then(|id| snapshot.cluster(id));
    log.note(|record| {
        record.upstream.cluster = entry.map(|entry| Arc::clone(&entry.cluster));
        record.details = why.into();
    });
}

/// A byte stream that counts what passes and moves the idle deadline.
struct Metered<'a> {
    io: Transport,
    /// Read before the rest.
    replay: Bytes,
    read: &'a Counter,
    written: &'a Counter,
    timer: &'a Timer,
    idle: Option<Duration>,
    /// Of the client's side.
    log: Option<&'a StreamLog>,
    /// Whether it failed.
    is_broken: bool,
}

impl Metered<'_> {
    fn moved(&self) {
        self.timer.set(Kind::Idle, self.timer.clock().now(), self.idle);
    }
}

impl AsyncRead for Metered<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = if self.replay.is_empty() {
            Pin::new(&mut self.io).poll_read(cx, buf)
        } else {
            let count = self.replay.len().min(buf.remaining());
            buf.put_slice(&self.replay.split_to(count));
            Poll::Ready(Ok(()))
        };
        self.is_broken |= matches!(polled, Poll::Ready(Err(_)));
        if polled.is_ready() {
            let count = (buf.filled().len() - before) as u64;
            self.read.add(count);
            if let Some(log) = self.log {
                log.note(|record| record.received += count);
            }
            self.moved();
        }
        polled
    }
}

impl AsyncWrite for Metered<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.is_broken |= matches!(polled, Poll::Ready(Err(_)));
        if let Poll::Ready(Ok(count)) = &polled {
            self.written.add(*count as u64);
            if let Some(log) = self.log {
                log.note(|record| record.sent += *count as u64);
            }
            self.moved();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
