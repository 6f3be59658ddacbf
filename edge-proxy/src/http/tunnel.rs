//! Upgraded connections: bytes both ways until one side ends.
//!
//! What: after a 101 (or a successful extended CONNECT, RFC 8441) HTTP is over and the two byte streams are copied into
//! each other. Each side speaks its own version of HTTP: a stream of one may be a connection of the other. A tunnel in
//! which nothing moves ends by the stream's idle timeout.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::clock::{Kind, Timer};
use crate::fault::Fault;
use crate::http::exchange::Exchange;
use crate::message::Protocol;
use crate::transport::Transport;
use crate::upstream::RequestGuard;
use crate::upstream::http2::Http2Tunnel;
use crate::upstream::limits::ConnectionGuard;

/// The backend's end of a tunnel.
#[derive(Debug)]
pub(crate) enum BackendEnd {
    /// A connection.
    Connection {
        /// As bytes.
        io: Transport,
        /// Counts it as open.
        _counted: ConnectionGuard,
    },
    /// A stream of one.
    Stream(Box<Http2Tunnel>),
}

macro_rules! each {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            BackendEnd::Connection { io: $io, .. } => $call,
            BackendEnd::Stream($io) => $call,
        }
    };
}

impl AsyncRead for BackendEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl AsyncWrite for BackendEnd {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}

/// The backend's half of a tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// The backend's byte stream.
    pub(crate) upstream: BackendEnd,
    /// What the backend sent right behind its response.
    pub(crate) early: Bytes,
    /// Deadlines of the stream.
    pub(crate) timer: Timer,
    /// How long nothing may move.
    pub(crate) idle: Option<Duration>,
    /// Counts the request as active as long as the tunnel lives.
    pub(crate) guard: RequestGuard,
}

impl Tunnel {
    /// Copies until both directions have ended, one fails, or nothing moves for too long. `sent` came from the client
    /// behind its request.
    /// The exchange that it began with lasts as long.
    pub(crate) async fn run<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        mut client: C,
        sent: &[u8],
        exchange: &Exchange,
    ) -> io::Result<()> {
        let Self {
            upstream,
            early,
            timer,
            idle,
            guard,
        } = self;
        let watch = timer.share();
        timer.set(Kind::Idle, timer.clock().now(), idle);
        let mut upstream = Moving {
            io: upstream,
            timer,
            idle,
            exchange,
            ended: false,
        };
        let copied = async {
            exchange.took(early.len());
            client.write_all(&early).await?;
            upstream.write_all(sent).await?;
            tokio::io::copy_bidirectional(&mut client, &mut upstream).await
        };
        let mut copied = std::pin::pin!(copied);
        // No response tells the client to leave: what is left of the connection has the drain time.
        let worker = &exchange.connection.worker;
        let mut abandoned = std::pin::pin!(exchange.connection.until_abandoned());
        let mut leaves = false;
        let ended = std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = copied.as_mut().poll(cx) {
                return Poll::Ready(done.map(drop));
            }
            if !leaves && abandoned.as_mut().poll(cx).is_ready() {
                leaves = true;
                let drain_time = worker.shared.flags.drain_time();
                watch.set(Kind::Drain, worker.clock.now(), Some(drain_time));
            }
            watch.poll_expired(cx).map(|kind| {
                exchange.expire(kind, Some(guard.pool()));
                Err(io::ErrorKind::TimedOut.into())
            })
        })
        .await;
        if ended.is_ok() {
            exchange.complete();
        }
        drop(guard);
        ended
    }
}

/// A stream that moves the idle deadline whenever bytes pass.
struct Moving<'a> {
    io: BackendEnd,
    timer: Timer,
    idle: Option<Duration>,
    /// Counts them.
    exchange: &'a Exchange,
    /// One side has ended.
    ended: bool,
}

/// Who has nothing more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Backend,
}

impl Moving<'_> {
    fn moved<T>(&self, polled: &Poll<io::Result<T>>) {
        if matches!(polled, Poll::Ready(Ok(_))) {
            self.timer.set(Kind::Idle, self.timer.clock().now(), self.idle);
        }
    }

    /// For logs, whoever ends first has ended the tunnel. (A client in HTTP/2 only ends its direction.)
    fn end(&mut self, side: Side) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        match side {
            Side::Client if self.exchange.connection.protocol == Protocol::Http2 => {}
            Side::Client => self.exchange.note(|record| record.fault(Fault::DownstreamReset)),
            Side::Backend => self.exchange.note(|record| {
                record.flag("UC");
                record.details = "upstream_reset_after_response_started{connection_termination}".into();
            }),
        }
    }
}

impl AsyncRead for Moving<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        self.moved(&polled);
        let came = buf.filled().len() - before;
        self.exchange.took(came);
        if came == 0 && polled.is_ready() {
            match (&self.io, &polled) {
                // A stream has an end of its own: nothing broke off.
                (BackendEnd::Stream(_), Poll::Ready(Ok(()))) => self.ended = true,
                _ => self.end(Side::Backend),
            }
        }
        polled
    }
}

impl AsyncWrite for Moving<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.moved(&polled);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.exchange.brought(bytes);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end(Side::Client);
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
