//! The use of a connection for one request.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};

use crate::fault::Fault;
use crate::http1::Failure;
use crate::http1::head::ResponseHead;
use crate::local::Local;
use crate::message::body::{Broken, RequestBody};
use crate::message::head::{Head, Spelled};
use crate::message::outgoing::{Outgoing, from_http2, into_http2};
use crate::message::stream::StreamBody;
use crate::upstream::Upstreams;
use crate::upstream::http1::Http1Connection;
use crate::upstream::http2::{Http2Stream, NotBegun, classify};
use crate::upstream::pool::HostPool;

/// A connection that was used a shorter while ago is not expected to be closed: servers wait for a second and more.
const RESTED: Duration = Duration::from_millis(100);

/// A connection, or a place on one.
#[derive(Debug)]
pub(crate) enum Lease {
    /// A whole HTTP/1 connection.
    Http1(Box<Http1Connection>),
    /// A stream of an HTTP/2 connection.
    Http2(Http2Stream),
}

/// Why a request got no response.
pub(crate) struct SendFailure {
    /// What happened.
    pub(crate) fault: Fault,
    /// The request, when nothing of it was sent.
    pub(crate) unsent: Option<Box<(Box<Head>, RequestBody)>>,
    /// A part of a response has come.
    pub(crate) heard: bool,
}

impl From<Fault> for SendFailure {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            unsent: None,
            heard: false,
        }
    }
}

impl Lease {
    /// Sends a request and waits for the head of the response; the lease then holds its body. `room` says how much may
    /// be read at a time, `poll_limit` is asked whenever nothing moves, and may end the wait with a fault.
    pub(crate) async fn send(
        &mut self,
        outgoing: Outgoing<'_>,
        worker: &Local,
        room: impl Fn() -> usize,
        poll_limit: impl FnMut(&mut Context<'_>) -> Poll<Fault>,
    ) -> Result<Response<()>, SendFailure> {
        match self {
            Self::Http1(connection) => send_http1(connection, outgoing, worker, room, poll_limit).await,
            // Boxed: HTTP/1 need not have room for it.
            Self::Http2(stream) => Box::pin(send_http2(stream, outgoing, poll_limit)).await,
        }
    }

    /// True for an HTTP/1 connection that the backend may have closed without our knowing yet: it was used before and
    /// has rested for a while.
    pub(crate) fn may_be_stale(&self, now: Instant) -> bool {
        self.rested(now) > RESTED
    }

    /// How long a connection that was used before has rested.
    pub(crate) fn rested(&self, now: Instant) -> Duration {
        match self {
            Self::Http1(connection) if connection.served > 0 => now.saturating_duration_since(connection.idle_since),
            // An HTTP/2 connection says which streams it has not looked at.
            Self::Http1(_) | Self::Http2(_) => Duration::ZERO,
        }
    }

    /// Our end of the connection.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Http1(connection) => connection.local,
            Self::Http2(stream) => stream.local(),
        }
    }

    /// What is spoken, as logs call it.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::Http1(_) => "HTTP/1.1",
            Self::Http2(_) => "HTTP/2",
        }
    }

    /// Bounds what is read of the backend at a time. (In HTTP/2 that is for the windows to say.)
    pub(crate) fn read_at_most(&mut self, room: usize) {
        if let Self::Http1(connection) = self {
            connection.client.read_at_most(room);
        }
    }

    /// The next frame of the response.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self {
            Self::Http1(connection) => connection.client.poll_frame(cx).map_err(Broken::Http1),
            Self::Http2(stream) => match &mut stream.body {
                Some(body) => body.poll_frame(cx).map_err(Broken::Http2),
                None => Poll::Ready(None),
            },
        }
    }

    /// True when the response is complete.
    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.client.is_end_stream(),
            Self::Http2(stream) => stream.body.as_ref().is_none_or(StreamBody::is_end_stream),
        }
    }

    /// How much of the response is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(connection) => connection.client.size_hint(),
            Self::Http2(stream) => stream
                .body
                .as_ref()
                .map_or_else(|| SizeHint::with_exact(0), StreamBody::size_hint),
        }
    }

    /// Gives the connection back after a complete exchange. (Dropping a lease gives up an incomplete one: HTTP/1
    /// closes the connection, HTTP/2 resets the stream.)
    pub(crate) fn release(self, upstreams: &Upstreams, pool: &Rc<HostPool>) {
        if let Self::Http1(connection) = self {
            pool.put_back(upstreams, connection);
        }
    }
}

async fn send_http1(
    connection: &mut Http1Connection,
    outgoing: Outgoing<'_>,
    worker: &Local,
    room: impl Fn() -> usize,
    mut poll_limit: impl FnMut(&mut Context<'_>) -> Poll<Fault>,
) -> Result<Response<()>, SendFailure> {
    let Outgoing { head, body, extras } = outgoing;
    connection.count_request();
    let client = &mut connection.client;
    client.begin(head.in_http1(extras), body);
    // Kept until it is certain that no other connection must take the request.
    let mut head = Some(head);
    let answered = std::future::poll_fn(|cx| {
        client.read_at_most(room());
        match client.poll_response(cx) {
            Poll::Ready(answered) => Poll::Ready(Ok(answered)),
            Poll::Pending => {
                if client.has_written()
                    && let Some(head) = head.take()
                {
                    worker.buffers.recycle_headers(head.headers);
                }
                poll_limit(cx).map(Err)
            }
        }
    })
    .await?;
    match answered {
        Ok(ResponseHead {
            status,
            headers,
            spelling,
            ..
        }) => {
            let mut response = Response::new(());
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            if let Some(spelling) = spelling {
                response.extensions_mut().insert(Spelled(spelling));
            }
            Ok(response)
        }
        Err(failure) => {
            let unsent = head.and_then(|head| Some(Box::new((head, client.take_request_body()?))));
            Err(SendFailure {
                fault: match failure {
                    Failure::Request => Fault::DownstreamReset,
                    Failure::Malformed(_) => Fault::ProtocolError,
                    Failure::Connection(_) => Fault::ConnectionTermination,
                },
                unsent,
                heard: client.has_heard(),
            })
        }
    }
}

async fn send_http2(
    stream: &mut Http2Stream,
    outgoing: Outgoing<'_>,
    mut poll_limit: impl FnMut(&mut Context<'_>) -> Poll<Fault>,
) -> Result<Response<()>, SendFailure> {
    let request = into_http2(outgoing)?;
    let unsent = |request| Some(Box::new(from_http2(request)));
    match stream.start(request) {
        Ok(()) => {}
        Err(NotBegun::Unsent(request)) => {
            return Err(SendFailure {
                fault: Fault::ConnectionTermination,
                unsent: unsent(*request),
                heard: false,
            });
        }
        Err(NotBegun::Refused(error)) => return Err(classify(&error).into()),
    }
    let answered = std::future::poll_fn(|cx| match stream.poll_response(cx) {
        Poll::Ready(answered) => Poll::Ready(answered),
        Poll::Pending => poll_limit(cx).map(Err),
    });
    Ok(answered.await?)
}
