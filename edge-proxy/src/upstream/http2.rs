//! One HTTP/2 connection to a backend, shared by many requests of its worker.
//!
//! What: a task drives the connection and keeps its stream capacity up to date; a [`Http2Stream`] takes one place.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Instant;

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::config::cluster::Cluster;
use crate::local::LocalExecutor;
use crate::message::body::RequestBody;
use crate::transport::Transport;
use crate::upstream::limits::ConnectionGuard;
use crate::upstream::pool::HostPool;

/// The outcome of sending.
pub(crate) type Sent = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// An HTTP/2 connection.
pub(crate) struct Http2Connection {
    sender: RefCell<Option<SendRequest<RequestBody>>>,
    streams: Cell<usize>,
    capacity: Cell<usize>,
    /// Our end of it.
    local: Option<SocketAddr>,
    served: Cell<u32>,
    /// When it was opened.
    pub(crate) opened: Instant,
    idle_since: Cell<Instant>,
}

impl std::fmt::Debug for Http2Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2Connection")
            .field("streams", &self.streams)
            .field("capacity", &self.capacity)
            .finish()
    }
}

impl Http2Connection {
    /// Speaks HTTP/2 on a transport.
    pub(crate) async fn open(
        transport: Transport,
        cluster: &Cluster,
        guard: ConnectionGuard,
        pool: Weak<HostPool>,
        now: Instant,
    ) -> hyper::Result<Rc<Self>> {
        let mut builder = Builder::new(LocalExecutor);
        let streams = usize::try_from(cluster.http2.max_concurrent_streams).unwrap_or(usize::MAX);
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(cluster.http2.initial_stream_window)
            .initial_connection_window_size(cluster.http2.initial_connection_window)
            .max_header_list_size(256 * 1024);
        if let Some((interval, timeout)) = cluster.http2.keepalive {
            builder
                .keep_alive_interval(interval)
                .keep_alive_timeout(timeout)
                .keep_alive_while_idle(true);
        }
        let local = transport.local();
        let (sender, mut driver) = builder.handshake(TokioIo::new(transport)).await?;
        let connection = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            streams: Cell::new(0),
            local,
            capacity: Cell::new(streams.min(driver.current_max_send_streams())),
            served: Cell::new(0),
            opened: now,
            idle_since: Cell::new(now),
        });
        let seen = Rc::clone(&connection);
        tokio::task::spawn_local(async move {
            let guard = guard;
            let _ended = std::future::poll_fn(|cx| {
                let polled = std::pin::Pin::new(&mut driver).poll(cx);
                seen.capacity.set(streams.min(driver.current_max_send_streams()));
                polled
            })
            .await;
            seen.close();
            drop(guard);
            if let Some(pool) = pool.upgrade() {
                pool.forget(&seen);
            }
        });
        Ok(connection)
    }

    /// True when one more request may use it.
    pub(crate) fn has_room(&self, max_requests: Option<u32>) -> bool {
        self.is_open()
            && self.streams.get() < self.capacity.get()
            && max_requests.is_none_or(|max| self.served.get() < max)
    }

    /// False when the backend or the pool has ended it.
    pub(crate) fn is_open(&self) -> bool {
        self.sender.borrow().as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// When its last stream ended, if none is open.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.streams.get() == 0).then(|| self.idle_since.get())
    }

    /// Takes nothing new; the connection ends after its last stream.
    pub(crate) fn close(&self) {
        self.sender.borrow_mut().take();
    }

    /// Takes a place.
    pub(crate) fn stream(self: &Rc<Self>, pool: &Rc<HostPool>) -> Http2Stream {
        self.streams.set(self.streams.get() + 1);
        self.served.set(self.served.get().saturating_add(1));
        Http2Stream {
            connection: Rc::clone(self),
            pool: Rc::clone(pool),
            body: None,
        }
    }
}

/// A place on an HTTP/2 connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    connection: Rc<Http2Connection>,
    pool: Rc<HostPool>,
    /// The body of the response, once its head has come.
    pub(crate) body: Option<Incoming>,
}

impl Http2Stream {
    /// Our end of the connection.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.connection.local
    }

    /// Sends a request; `None` when the connection has ended in the meantime.
    pub(crate) fn start(
        &self,
        request: Request<RequestBody>,
    ) -> Result<impl Future<Output = Sent> + use<>, Box<Request<RequestBody>>> {
        match self.connection.sender.borrow_mut().as_mut() {
            Some(sender) => Ok(sender.try_send_request(request)),
            None => Err(Box::new(request)),
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        let streams = self.connection.streams.get().saturating_sub(1);
        self.connection.streams.set(streams);
        if streams == 0 {
            // The sweeper needs no more than a second's precision.
            self.connection.idle_since.set(Instant::now());
        }
        self.pool.stream_ended();
    }
}
