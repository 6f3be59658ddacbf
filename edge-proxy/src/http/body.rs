//! Bodies on their way through the proxy.
//!
//! What: [`RequestBody`] goes to a backend, [`ResponseBody`] to a client. Frames pass as they are; what is added is
//! the bookkeeping around them: idle deadlines, the moment a request is complete, the return of a connection to its
//! pool when a response is complete. A response that can't be completed ends in an error, so that the codec
//! cuts the client off instead of faking an end.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::clock::{Kind, Timer};
use crate::http::conversation::Outbox;
use crate::http::exchange::Exchange;
use crate::http::incoming::Incoming;
use crate::http::replay::Reader;
use crate::http1::Failure;
use crate::upstream::{Lease, RequestGuard};

/// Why a body broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other side failed in HTTP/1.
    Http1(Failure),
    /// The backend failed in HTTP/2.
    Http2(hyper::Error),
    /// The client failed in HTTP/2.
    Client(h2::Error),
    /// The client has sent something else than the base64 that it announced.
    Base64,
    /// More than may be kept for another reader.
    TooLarge,
    /// It can't be compressed.
    Encoder(io::Error),
    /// The service that was to process it has answered in its place, or has failed.
    Processor,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http1(failure) => failure.fmt(f),
            Self::Http2(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
            Self::Base64 => f.write_str("the body is not base64"),
            Self::TooLarge => f.write_str("the body is larger than the buffer limit"),
            Self::Encoder(error) => error.fmt(f),
            Self::Processor => f.write_str("a service has not let it pass"),
        }
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Http1(failure) => Some(failure),
            Self::Http2(error) => Some(error),
            Self::Client(error) => Some(error),
            Self::Encoder(error) => Some(error),
            _ => None,
        }
    }
}

/// What is known about the arrival of a request's body, shared by the body and who waits for the response.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// `None` when there was nothing to wait for: most requests have no body, and need no memory for it.
    awaited: Option<Rc<Awaited>>,
}

#[derive(Debug)]
struct Awaited {
    /// When it was complete.
    done: Cell<Option<Instant>>,
    received: Cell<u64>,
    timer: Timer,
    idle: Option<Duration>,
    route: Option<Duration>,
}

impl Arrival {
    /// There is no body.
    pub(crate) fn complete() -> Self {
        Self { awaited: None }
    }

    /// The body is on its way. When it is complete the route's deadline starts.
    pub(crate) fn new(timer: &Timer, idle: Option<Duration>, route: Option<Duration>) -> Self {
        let awaited = Awaited {
            done: Cell::new(None),
            received: Cell::new(0),
            timer: timer.share(),
            idle,
            route,
        };
        Self {
            awaited: Some(Rc::new(awaited)),
        }
    }

    /// True once the client has sent everything.
    pub(crate) fn is_done(&self) -> bool {
        self.awaited.as_ref().is_none_or(|awaited| awaited.done.get().is_some())
    }

    /// How much has come.
    pub(crate) fn received(&self) -> u64 {
        self.awaited.as_ref().map_or(0, |awaited| awaited.received.get())
    }

    /// When it was complete, of a request that began at `begun`; `None` as long as it is not.
    pub(crate) fn read_at(&self, begun: Instant) -> Option<Instant> {
        self.awaited.as_ref().map_or(Some(begun), |awaited| awaited.done.get())
    }

    /// Content has passed.
    pub(crate) fn took(&self, frame: &Frame<Bytes>) {
        if let (Some(awaited), Some(data)) = (&self.awaited, frame.data_ref()) {
            awaited.received.set(awaited.received.get() + data.len() as u64);
        }
    }

    /// A frame has passed.
    pub(crate) fn moved(&self) {
        if let Some(awaited) = &self.awaited
            && awaited.idle.is_some()
        {
            let now = awaited.timer.clock().now();
            awaited.timer.set(Kind::Idle, now, awaited.idle);
        }
    }

    /// The last frame has passed.
    pub(crate) fn finish(&self) {
        if let Some(awaited) = &self.awaited
            && awaited.done.get().is_none()
        {
            awaited.timer.clear(Kind::Request);
            let now = awaited.timer.clock().now();
            awaited.done.set(Some(now));
            awaited.timer.set(Kind::Route, now, awaited.route);
        }
    }
}

/// The body of a request to a backend.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// None.
    Empty,
    /// As it comes in.
    Stream(Incoming, Arrival),
    /// Kept as it comes in, for another attempt or a mirror.
    Shared(Reader),
    /// What the proxy itself says in a call.
    Messages(Outbox),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Stream(incoming, arrival) => {
                let polled = Pin::new(&mut *incoming).poll_frame(cx);
                if let Poll::Ready(Some(Ok(frame))) = &polled {
                    arrival.took(frame);
                }
                match &polled {
                    Poll::Ready(Some(Ok(_))) if incoming.is_end_stream() => arrival.finish(),
                    Poll::Ready(Some(Ok(_))) => arrival.moved(),
                    Poll::Ready(None) => arrival.finish(),
                    _ => {}
                }
                polled
            }
            Self::Shared(reader) => reader.poll_frame(cx),
            Self::Messages(outbox) => outbox.poll_frame(cx).map(|frame| frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream(incoming, _) => incoming.is_end_stream(),
            Self::Shared(reader) => reader.is_end_stream(),
            Self::Messages(outbox) => outbox.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream(incoming, _) => incoming.size_hint(),
            Self::Shared(reader) => reader.size_hint(),
            Self::Messages(_) => SizeHint::default(),
        }
    }
}

/// The body of a response to a client.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// None.
    Empty,
    /// Made here.
    Full(Bytes),
    /// As it comes from the backend.
    Upstream(UpstreamBody),
    /// What a filter makes of one of these.
    Filtered(Box<dyn FilteredBody>),
}

/// What a filter makes of the body of a response, around which it lies.
pub(crate) trait FilteredBody: fmt::Debug {
    /// The next frame.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>>;

    /// True when there is nothing more to read.
    fn is_end_stream(&self) -> bool;

    /// What is left, as far as that is known.
    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }

    /// A deadline of the exchange has passed.
    fn expire(&mut self, exchange: &Exchange, kind: Kind);
}

/// A response body from a backend, with what must live as long.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    /// Until the response is complete or broken off.
    lease: Option<Lease>,
    guard: RequestGuard,
    exchange: Rc<Exchange>,
}

impl UpstreamBody {
    /// The body of a response whose head has arrived.
    pub(crate) fn new(lease: Lease, guard: RequestGuard, exchange: Rc<Exchange>) -> Self {
        let mut body = Self {
            lease: Some(lease),
            guard,
            exchange,
        };
        if body.is_end_stream() {
            body.finish();
        }
        body
    }

    fn is_end_stream(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.lease {
            Some(lease) => lease.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }

    /// The exchange is complete: the connection may serve again.
    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release(&self.exchange.connection.worker, self.guard.pool());
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(lease) = &mut self.lease else {
            return Poll::Ready(None);
        };
        lease.read_at_most(self.exchange.connection.room());
        match lease.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.exchange.note(|record| record.trailers(trailers));
                }
                if lease.is_end_stream() {
                    self.finish();
                } else {
                    self.exchange.moved();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.lease = None;
                self.exchange.note(|record| {
                    record.flag("UC");
                    record.details = "upstream_reset_after_response_started{connection_termination}".into();
                });
                let pool = self.guard.pool();
                pool.cells().upstream_rq_rx_reset.inc();
                pool.host.stats.rq_error.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // A codec drops a body that says it has ended without asking for the end.
        if self.is_end_stream() {
            self.finish();
        } else {
            self.guard.pool().cells().upstream_rq_tx_reset.inc();
        }
    }
}

impl ResponseBody {
    /// A deadline of the exchange has passed: nothing more comes, and the backend's connection is given up.
    pub(crate) fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        match self {
            Self::Upstream(body) => {
                body.lease = None;
                exchange.expire(kind, Some(body.guard.pool()));
            }
            Self::Filtered(body) => body.expire(exchange, kind),
            Self::Empty | Self::Full(_) => exchange.expire(kind, None),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Upstream(body) => body.poll_frame(cx),
            Self::Filtered(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Upstream(body) => body.is_end_stream(),
            Self::Filtered(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upstream(body) => body.size_hint(),
            Self::Filtered(body) => body.size_hint(),
        }
    }
}
