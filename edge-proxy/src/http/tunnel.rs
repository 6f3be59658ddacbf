//! Upgraded connections: bytes both ways until one side ends.
//!
//! After a 101 (or a successful extended CONNECT, RFC 8441) HTTP is over and the two byte streams are copied into
//! each other. Each side speaks its own version of HTTP: a stream of one may be a connection of the other. A tunnel in
//! which nothing moves ends by the stream's idle timeout. When the backend has ended, or a client in HTTP/1, the other
//! direction ends once the client has been sent nothing for the time of a delayed close: HTTP/1 knows no half of a
//! connection that lives on, and nobody may hold a place at a backend that has gone.

use std::cell::{Cell, RefCell};
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
        client: C,
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
        let course = Course {
            exchange,
            timer,
            idle: Cell::new(idle),
            guard: RefCell::new(Some(guard)),
            ended: Cell::new(false),
            is_ending: Cell::new(false),
        };
        course.moved();
        let mut upstream = Backend {
            io: upstream,
            course: &course,
        };
        let mut client = Client {
            io: client,
            course: &course,
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
                course.timer.set(Kind::Drain, worker.clock.now(), Some(drain_time));
            }
            course.timer.poll_expired(cx).map(|kind| course.expire(kind))
        })
        .await;
        if ended.is_ok() {
            exchange.complete();
        }
        ended
    }
}

/// How far a tunnel has come.
struct Course<'a> {
    /// Counts its bytes.
    exchange: &'a Exchange,
    timer: Timer,
    /// How long nothing may move.
    idle: Cell<Option<Duration>>,
    /// Given back when the backend has ended.
    guard: RefCell<Option<RequestGuard>>,
    /// One side has ended.
    ended: Cell<bool>,
    /// What is left is only there for the client to take.
    is_ending: Cell<bool>,
}

/// Who has nothing more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Backend,
}

impl Course<'_> {
    fn moved(&self) {
        self.timer.set(Kind::Idle, self.timer.clock().now(), self.idle.get());
    }

    /// Bytes have passed the backend's end, in either direction.
    fn passed<T>(&self, polled: &Poll<io::Result<T>>) {
        if matches!(polled, Poll::Ready(Ok(_))) && !self.is_ending.get() {
            self.moved();
        }
    }

    /// From now on only what the client takes counts.
    fn end_soon(&self) {
        if !self.is_ending.replace(true) {
            let delayed_close = self.exchange.connection.manager().timeouts.delayed_close;
            let idle = self.idle.get().map_or(delayed_close, |idle| idle.min(delayed_close));
            self.idle.set(Some(idle));
            self.moved();
        }
    }

    /// A deadline has passed.
    fn expire(&self, kind: Kind) -> io::Result<()> {
        if kind == Kind::Idle && self.is_ending.get() {
            return Ok(());
        }
        let guard = self.guard.borrow();
        self.exchange.expire(kind, guard.as_ref().map(RequestGuard::pool));
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The backend has nothing more to say.
    fn backend_ended(&self) {
        self.guard.take();
        self.end_soon();
    }

    /// The client has nothing more to say. In HTTP/2 that ends its direction alone.
    fn client_ended(&self) {
        self.note_end(Side::Client);
        if self.exchange.connection.protocol != Protocol::Http2 {
            self.end_soon();
        }
    }

    /// For logs, whoever ends first has ended the tunnel.
    fn note_end(&self, side: Side) {
        if self.ended.replace(true) {
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

/// The backend's side, whose bytes count.
struct Backend<'a> {
    io: BackendEnd,
    course: &'a Course<'a>,
}

impl AsyncRead for Backend<'_> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        let course = self.course;
        course.passed(&polled);
        let came = buf.filled().len() - before;
        course.exchange.took(came);
        if came == 0 && polled.is_ready() {
            match (&self.io, &polled) {
                // A stream has an end of its own: nothing broke off.
                (BackendEnd::Stream(_), Poll::Ready(Ok(()))) => course.ended.set(true),
                _ => course.note_end(Side::Backend),
            }
            course.backend_ended();
        }
        polled
    }
}

impl AsyncWrite for Backend<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.course.passed(&polled);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.course.exchange.brought(bytes);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.course.client_ended();
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// The client's side.
struct Client<'a, C> {
    io: C,
    course: &'a Course<'a>,
}

impl<C: AsyncRead + Unpin> AsyncRead for Client<'_, C> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Client<'_, C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        if self.course.is_ending.get() && matches!(polled, Poll::Ready(Ok(_))) {
            self.course.moved();
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
