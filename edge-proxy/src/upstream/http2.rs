//! One HTTP/2 connection to a backend, shared by many requests of its worker.
//!
//! A task drives the connection and keeps its stream capacity up to date; a [`Http2Stream`] takes one place, and
//! is driven by the request that has it.
//! Why not hyper's client: it hands each request from task to task twice, and each body to a task of its own.

mod tunnel;
mod upload;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use tokio::task::AbortHandle;

use crate::config::cluster::Cluster;
use crate::fault::Fault;
use crate::http2::gather::Gathered;
use crate::http2::keepalive::Keepalive;
use crate::message::body::RequestBody;
use crate::message::stream::StreamBody;
use crate::transport::Transport;
use crate::upstream::limits::ConnectionGuard;
use crate::upstream::pool::{Birth, HostPool};
pub(crate) use tunnel::Http2Tunnel;
use upload::{End, Upload};

/// Streams that a backend may have before it says how many it wants.
const STREAMS_AT_FIRST: usize = 100;
/// Largest head of a response.
const MAX_HEAD: u32 = 256 * 1024;
/// Streams that a connection has in its life: their numbers are odd and have 31 bits (RFC 9113 §5.1.1).
const MAX_STREAMS: u32 = 1 << 30;

/// An HTTP/2 connection.
pub(crate) struct Http2Connection {
    sender: RefCell<Option<SendRequest<Bytes>>>,
    streams: Cell<usize>,
    capacity: Cell<usize>,
    /// Our end of it.
    local: Option<SocketAddr>,
    /// How many more streams it may have in its life.
    left: Cell<u32>,
    /// When it was opened, and how its host was.
    pub(crate) birth: Birth,
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
        birth: Birth,
    ) -> Result<Rc<Self>, h2::Error> {
        let limit = usize::try_from(cluster.http2.max_concurrent_streams).unwrap_or(usize::MAX);
        let most = cluster.max_requests_per_connection.unwrap_or(MAX_STREAMS);
        let local = transport.local();
        let io = Gathered::new(transport);
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .initial_window_size(cluster.http2.initial_stream_window)
            .initial_connection_window_size(cluster.http2.initial_connection_window)
            .max_header_list_size(MAX_HEAD);
        let mut handshake = pin!(builder.handshake::<_, Bytes>(io.clone()));
        let (sender, mut driver) = io.at_once(|cx| handshake.as_mut().poll(cx)).await?;
        let keepalive = cluster.http2.keepalive;
        let mut keepalive =
            keepalive.and_then(|times| Some(Keepalive::new(driver.ping_pong()?, times.interval, times.timeout)));
        let connection = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            streams: Cell::new(0),
            local,
            capacity: Cell::new(limit.min(driver.max_concurrent_send_streams())),
            left: Cell::new(most.min(MAX_STREAMS)),
            birth,
            idle_since: Cell::new(birth.at),
        });
        let seen = Rc::clone(&connection);
        tokio::task::spawn_local(async move {
            let guard = guard;
            io.at_once(|cx| {
                if keepalive.as_mut().is_some_and(|one| one.poll_dead(cx).is_ready()) {
                    return Poll::Ready(());
                }
                let polled = Pin::new(&mut driver).poll(cx);
                seen.capacity.set(limit.min(driver.max_concurrent_send_streams()));
                seen.heed();
                polled.map(drop)
            })
            .await;
            seen.close();
            // Its streams hear of the end before others may come in their place.
            drop(driver);
            drop(guard);
            if let Some(pool) = pool.upgrade() {
                pool.forget(&seen);
            }
        });
        Ok(connection)
    }

    /// True when one more request may use it.
    pub(crate) fn has_room(&self) -> bool {
        self.is_open() && self.streams.get() < self.capacity.get() && self.left.get() > 0
    }

    /// False when the backend or the pool has ended it.
    pub(crate) fn is_open(&self) -> bool {
        self.sender.borrow().is_some()
    }

    /// When its last stream ended, if none is open.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.streams.get() == 0).then(|| self.idle_since.get())
    }

    /// Takes nothing new; the connection ends after its last stream.
    pub(crate) fn retire(&self) {
        self.left.set(0);
        self.end_if_done();
    }

    /// Ends it when it has had its streams. (A place that has not begun its stream yet still needs the sender.)
    fn end_if_done(&self) {
        if self.left.get() == 0 && self.streams.get() == 0 {
            self.close();
        }
    }

    fn close(&self) {
        self.sender.borrow_mut().take();
    }

    /// Takes nothing new either when the backend has said that it leaves.
    fn heed(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        let leaves = |sender: &mut SendRequest<Bytes>| !matches!(sender.poll_ready(&mut cx), Poll::Ready(Ok(())));
        drop(self.sender.borrow_mut().take_if(leaves));
    }

    /// Takes a place.
    pub(crate) fn stream(self: &Rc<Self>, pool: &Rc<HostPool>) -> Http2Stream {
        self.streams.set(self.streams.get() + 1);
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 {
            pool.cells().upstream_cx_max_requests.inc();
        }
        Http2Stream {
            connection: Rc::clone(self),
            pool: Rc::clone(pool),
            response: None,
            upload: None,
            sending: None,
            rest: None,
            body: None,
        }
    }
}

/// A place on an HTTP/2 connection, given back when dropped; what isn't over by then is reset.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    connection: Rc<Http2Connection>,
    pool: Rc<HostPool>,
    response: Option<ResponseFuture>,
    upload: Option<Box<Upload>>,
    /// Our direction of what becomes a tunnel, if the backend grants it.
    sending: Option<SendStream<Bytes>>,
    /// Sends what was left of the content when the response came.
    rest: Option<AbortHandle>,
    /// The body of the response, once its head has come.
    pub(crate) body: Option<StreamBody>,
}

/// Why a request was not begun.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// The connection has ended in the meantime.
    Unsent(Box<Request<RequestBody>>),
    /// It can't be said in HTTP/2.
    Refused(h2::Error),
}

impl Http2Stream {
    /// Our end of the connection.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.connection.local
    }

    /// Begins to send a request; the rest is done by waiting for its response.
    pub(crate) fn start(&mut self, request: Request<RequestBody>) -> Result<(), NotBegun> {
        self.connection.heed();
        // A copy for each: the original would wait for the stream that it began last.
        let Some(mut sender) = self.connection.sender.borrow().clone() else {
            return Err(NotBegun::Unsent(Box::new(request)));
        };
        let (parts, body) = request.into_parts();
        let is_tunnel = parts.method == Method::CONNECT;
        let ends = body.is_end_stream() && !is_tunnel;
        let (response, stream) = sender
            .send_request(Request::from_parts(parts, ()), ends)
            .map_err(NotBegun::Refused)?;
        self.response = Some(response);
        match is_tunnel {
            true => self.sending = Some(stream),
            false => self.upload = (!ends).then(|| Box::new(Upload::new(stream, body))),
        }
        Ok(())
    }

    /// Both directions, where the backend has granted a tunnel.
    pub(crate) fn into_tunnel(mut self) -> Option<Http2Tunnel> {
        let (sending, body) = (self.sending.take()?, self.body.take()?);
        Some(Http2Tunnel::new(sending, body, self))
    }

    /// Ready with the head of the response; the body is here then.
    pub(crate) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Fault>> {
        if let Some(upload) = &mut self.upload
            && let Poll::Ready(end) = upload.poll(cx)
        {
            self.upload = None;
            // The only content that breaks off here is that of the client.
            if end == End::Broken {
                return Poll::Ready(Err(Fault::DownstreamReset));
            }
        }
        let Some(response) = &mut self.response else {
            return Poll::Ready(Err(Fault::ConnectionTermination));
        };
        while let Poll::Ready(Some(Ok(interim))) = response.poll_informational(cx) {
            // RFC 9113 §8.6: no protocol is switched so, and who believes that it was says no more.
            if interim.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Poll::Ready(Err(Fault::ProtocolError));
            }
        }
        let response = ready!(Pin::new(response).poll(cx)).map_err(|error| classify(&error))?;
        self.response = None;
        let (parts, stream) = response.into_parts();
        let length = match stream.is_end_stream() {
            true => Some(0),
            false => parts
                .headers
                .get(header::CONTENT_LENGTH)
                .and_then(|length| length.to_str().ok()?.parse().ok()),
        };
        self.body = Some(StreamBody::new(stream, length));
        if !parts.status.is_success()
            && let Some(mut sending) = self.sending.take()
        {
            // Nothing follows a request that was not granted. What can't be said any more needn't.
            let _ = sending.send_data(Bytes::new(), true);
        }
        if let Some(mut upload) = self.upload.take() {
            let rest = tokio::task::spawn_local(async move {
                poll_fn(|cx| upload.poll(cx)).await;
            });
            self.rest = Some(rest.abort_handle());
        }
        Poll::Ready(Ok(Response::from_parts(parts, ())))
    }
}

/// What an error of a stream means.
pub(crate) fn classify(error: &h2::Error) -> Fault {
    match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => Fault::RefusedStream,
        // Streams above the last one that a backend looks at end so (RFC 9113 §6.8); those below it go on.
        Some(_) if error.is_go_away() && error.is_remote() => Fault::RefusedStream,
        Some(_) if error.is_reset() && error.is_remote() => Fault::RemoteReset,
        Some(_) if error.is_remote() => Fault::ConnectionTermination,
        Some(_) => Fault::ProtocolError,
        None => Fault::ConnectionTermination,
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        if let Some(rest) = &self.rest {
            rest.abort();
        }
        let streams = self.connection.streams.get().saturating_sub(1);
        self.connection.streams.set(streams);
        if streams == 0 {
            // The sweeper needs no more than a second's precision.
            self.connection.idle_since.set(Instant::now());
        }
        self.connection.end_if_done();
        self.pool.stream_ended();
    }
}
