//! The use of a connection for one request.

use std::error::Error;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::fault::Fault;
use crate::http::body::RequestBody;
use crate::upstream::http1::Http1Connection;
use crate::upstream::http2::Http2Stream;
use crate::upstream::pool::HostPool;
use crate::worker::Worker;

/// A connection that was used a shorter while ago is not expected to be closed: servers wait for a second and more.
const RESTED: Duration = Duration::from_millis(100);

/// A connection, or a place on one.
#[derive(Debug)]
pub(crate) enum Lease {
    /// A whole HTTP/1 connection.
    Http1(Http1Connection),
    /// A stream of an HTTP/2 connection.
    Http2(Http2Stream),
}

/// Why a request got no response.
pub(crate) struct SendFailure {
    /// What happened.
    pub(crate) fault: Fault,
    /// The request, when nothing of it was sent.
    pub(crate) unsent: Option<Box<Request<RequestBody>>>,
}

impl Lease {
    /// Sends a request and waits for the head of the response. `poll_limit` is asked whenever nothing moves, and may
    /// end the wait with a fault.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
        mut poll_limit: impl FnMut(&mut Context<'_>) -> Poll<Fault>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let sent = match self {
            Self::Http1(connection) => {
                let mut response = std::pin::pin!(connection.start(request));
                std::future::poll_fn(|cx| {
                    connection.drive(cx);
                    match response.as_mut().poll(cx) {
                        Poll::Ready(done) => Poll::Ready(Ok(done)),
                        Poll::Pending => poll_limit(cx).map(Err),
                    }
                })
                .await
            }
            Self::Http2(stream) => {
                let response = match stream.start(request) {
                    Ok(response) => response,
                    Err(request) => {
                        return Err(SendFailure {
                            fault: Fault::ConnectionTermination,
                            unsent: Some(request),
                        });
                    }
                };
                let mut response = std::pin::pin!(response);
                std::future::poll_fn(|cx| match response.as_mut().poll(cx) {
                    Poll::Ready(done) => Poll::Ready(Ok(done)),
                    Poll::Pending => poll_limit(cx).map(Err),
                })
                .await
            }
        };
        match sent {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(mut failure)) => {
                let unsent = failure.take_message().map(Box::new);
                Err(SendFailure {
                    fault: classify(failure.error()),
                    unsent,
                })
            }
            Err(fault) => Err(SendFailure { fault, unsent: None }),
        }
    }

    /// True for an HTTP/1 connection that the backend may have closed without our knowing yet: it was used before and
    /// has rested for a while.
    pub(crate) fn may_be_stale(&self, now: Instant) -> bool {
        match self {
            Self::Http1(connection) => {
                connection.served > 0 && now.saturating_duration_since(connection.idle_since) > RESTED
            }
            // An HTTP/2 connection says which streams it has not looked at.
            Self::Http2(_) => false,
        }
    }

    /// Lets an HTTP/1 connection read and write; an HTTP/2 connection has a task for that.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Self::Http1(connection) = self {
            connection.drive(cx);
        }
    }

    /// Gives the connection back after a complete exchange. (Dropping a lease gives up an incomplete one: HTTP/1
    /// closes the connection, HTTP/2 resets the stream.)
    pub(crate) fn release(self, worker: &Worker, pool: &Rc<HostPool>) {
        if let Self::Http1(connection) = self {
            pool.put_back(worker, connection);
        }
    }
}

/// What an error of the client side of hyper means.
pub(crate) fn classify(error: &hyper::Error) -> Fault {
    if error.is_user() {
        // The only code of ours inside is the body, which fails when the client's does.
        return Fault::DownstreamReset;
    }
    if error.is_parse() {
        return Fault::ProtocolError;
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(h2) = inner.downcast_ref::<h2::Error>() {
            return match h2.reason() {
                Some(h2::Reason::REFUSED_STREAM) => Fault::RefusedStream,
                Some(_) if h2.is_reset() && h2.is_remote() => Fault::RemoteReset,
                Some(_) if h2.is_remote() => Fault::ConnectionTermination,
                Some(_) => Fault::ProtocolError,
                None => Fault::ConnectionTermination,
            };
        }
        cause = inner.source();
    }
    Fault::ConnectionTermination
}
