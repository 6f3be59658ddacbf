//! The content of requests on its way to a backend.
//!
//! Frames pass as they are; what is added is the bookkeeping around them: idle deadlines, and the moment a
//! request is complete. Content that breaks off is an error, never an end.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::clock::{Kind, Timer};
use crate::http1::Failure;
use crate::message::incoming::Incoming;
use crate::message::replay::Reader;

/// Why a body broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other side failed in HTTP/1.
    Http1(Failure),
    /// The backend failed in HTTP/2.
    Http2(h2::Error),
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
    /// Of the attempt that has a connection.
    per_try: Cell<Option<Duration>>,
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
            per_try: Cell::new(None),
        };
        Self {
            awaited: Some(Rc::new(awaited)),
        }
    }

    /// True once the client has sent everything.
    pub(crate) fn is_done(&self) -> bool {
        self.awaited.as_ref().is_none_or(|awaited| awaited.done.get().is_some())
    }

    /// An attempt has a connection: it has so long from now on, or from when the client has sent everything.
    pub(crate) fn begin_try(&self, timer: &Timer, limit: Option<Duration>) {
        match &self.awaited {
            Some(awaited) if awaited.done.get().is_none() => awaited.per_try.set(limit),
            _ => timer.set(Kind::PerTry, timer.clock().now(), limit),
        }
    }

    /// That attempt is over, or has got its response.
    pub(crate) fn end_try(&self, timer: &Timer) {
        if let Some(awaited) = &self.awaited {
            awaited.per_try.set(None);
        }
        timer.clear(Kind::PerTry);
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
            if let limit @ Some(_) = awaited.per_try.get() {
                awaited.timer.set(Kind::PerTry, now, limit);
            }
        }
    }
}

/// Content of the proxy's own making: what a filter makes of a client's, around which it lies, or what the proxy itself
/// says.
pub(crate) trait OwnBody: fmt::Debug {
    /// The next frame.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>>;

    /// True when there is nothing more to read.
    fn is_end_stream(&self) -> bool;

    /// What is left, as far as that is known.
    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// The body of a request to a backend.
#[derive(Debug, Default)]
pub(crate) enum RequestBody {
    /// None.
    #[default]
    Empty,
    /// As it comes in.
    Stream(Incoming, Arrival),
    /// Kept as it comes in, for another attempt or a mirror.
    Shared(Reader),
    /// What the proxy itself says.
    Own(Box<dyn OwnBody>),
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
            Self::Own(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream(incoming, _) => incoming.is_end_stream(),
            Self::Shared(reader) => reader.is_end_stream(),
            Self::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream(incoming, _) => incoming.size_hint(),
            Self::Shared(reader) => reader.size_hint(),
            Self::Own(body) => body.size_hint(),
        }
    }
}
