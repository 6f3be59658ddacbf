//! Bodies of responses.
//!
//! Frames pass as they are; what is added is the bookkeeping around them: deadlines, and the return of a
//! connection to its pool when a response is complete. A response that can't be completed ends in an error, so that the
//! codec cuts the client off instead of faking an end.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::clock::Kind;
use crate::fault::Fault;
use crate::http::exchange::{Ended, Exchange};
use crate::http1::Failure;
use crate::message::body::Broken;
use crate::upstream::http2::classify;
use crate::upstream::{Lease, RequestGuard, load};

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
            self.exchange.end_attempt(Ended::Answered);
            lease.release(&self.exchange.connection.upstreams, self.guard.pool());
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(lease) = &mut self.lease else {
            return Poll::Ready(None);
        };
        lease.read_at_most(self.exchange.connection.room());
        match lease.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.attempt_brought(&frame);
                if let Some(trailers) = frame.trailers_ref() {
                    self.exchange.note(|record| record.trailers(trailers));
                    let pool = self.guard.pool();
                    load::heard(&pool.cluster, &pool.host, trailers);
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
                let fault = broken_off(&error);
                self.exchange.note(|record| {
                    record.fault(fault);
                    if fault != Fault::DownstreamReset {
                        let reason = fault.reset_reason().replace(' ', "_");
                        record.details = format!("upstream_reset_after_response_started{{{reason}}}").into();
                    }
                });
                self.exchange.attempt_failed(fault);
                let pool = self.guard.pool();
                pool.cells().upstream_rq_rx_reset.inc();
                pool.host.stats.rq_error.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// What it means that a response has broken off behind its head. As for Envoy, one in HTTP/1 that isn't as long as
/// announced is malformed, however its connection has ended.
fn broken_off(error: &Broken) -> Fault {
    match error {
        Broken::Http1(Failure::Request) => Fault::DownstreamReset,
        Broken::Http1(_) => Fault::ProtocolError,
        Broken::Http2(error) => classify(error),
        _ => Fault::ConnectionTermination,
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
