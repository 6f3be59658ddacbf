//! One HTTP/1 connection to a backend.
//!
//! What: hyper's connection, driven by the request that uses it instead of a task of its own: no wake-up between two
//! tasks on the way of a request, and nothing runs for a connection that is idle. This is the codec seam on the
//! backend's side: the pool and the router see `start`, `poll` and `is_reusable` only.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::http::body::RequestBody;
use crate::transport::Transport;
use crate::upstream::limits::ConnectionGuard;

/// The outcome of sending.
pub(crate) type Sent = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// An HTTP/1 connection.
pub(crate) struct Http1Connection {
    sender: SendRequest<RequestBody>,
    driver: Box<Connection<TokioIo<Transport>, RequestBody>>,
    ended: bool,
    /// When it was opened.
    pub(crate) opened: Instant,
    /// When it was last used.
    pub(crate) idle_since: Instant,
    /// How many requests it has served.
    pub(crate) served: u32,
    guard: ConnectionGuard,
}

impl std::fmt::Debug for Http1Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http1Connection")
            .field("served", &self.served)
            .field("ended", &self.ended)
            .finish()
    }
}

impl Http1Connection {
    /// Speaks HTTP/1 on a transport.
    pub(crate) async fn open(transport: Transport, guard: ConnectionGuard, now: Instant) -> hyper::Result<Self> {
        let (sender, driver) = Builder::new().writev(false).handshake(TokioIo::new(transport)).await?;
        let driver = Box::new(driver);
        Ok(Self {
            sender,
            driver,
            ended: false,
            opened: now,
            idle_since: now,
            served: 0,
            guard,
        })
    }

    /// Sends a request. The connection must be polled for the future to get on.
    pub(crate) fn start(&mut self, request: Request<RequestBody>) -> impl Future<Output = Sent> + use<> {
        self.served = self.served.saturating_add(1);
        self.sender.try_send_request(request)
    }

    /// Lets the connection read and write.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.ended
            && let Poll::Ready(_) = Pin::new(&mut *self.driver).poll(cx)
        {
            // Errors reach the request through its future or its body.
            self.ended = true;
        }
    }

    /// True when the response is complete and another request may follow.
    pub(crate) fn is_reusable(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if self.sender.is_ready() {
            return true;
        }
        // The last bytes of the message may have arrived without the driver having looked.
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// True when the backend has not closed an idle connection, as far as the runtime knows. Costs no system call.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.ended && self.sender.is_ready()
    }

    /// After a 101: HTTP is over; the byte stream and what was read behind the response.
    pub(crate) async fn into_transport(mut self) -> Option<(Transport, Bytes, ConnectionGuard)> {
        if !self.ended {
            std::future::poll_fn(|cx| self.driver.poll_without_shutdown(cx))
                .await
                .ok()?;
        }
        let parts = self.driver.into_parts();
        Some((parts.io.into_inner(), parts.read_buf, self.guard))
    }
}
