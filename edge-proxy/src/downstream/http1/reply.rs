//! Writing a response to a client.
//!
//! Decides how the response is framed (RFC 9112 §6), and sends it: the head and what is there of the body with
//! one write, then pieces as they come. A body that breaks off, or is not as long as announced, ends the connection, so
//! that the client can't take it for complete.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::response::Parts;
use http::{Method, Response, StatusCode, Version};
use http_body::Body;

use crate::clock::Kind;
use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::http1::Trailers;
use crate::http1::buffers::Buffers;
use crate::http1::encode::{self, BodyEncoder, Outlet, ResponseLines, Stay};
use crate::http1::framing::has_content;
use crate::http1::inbound::Inbound;
use crate::message::head::Spelled;

/// How the request came, as far as the response depends on it.
#[derive(Clone, Debug)]
pub(super) struct RequestTraits {
    /// Its method.
    pub(super) method: Method,
    /// Its version.
    pub(super) version: Version,
    /// The connection may stay.
    pub(super) keep_alive: bool,
}

/// The response can't be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut;

/// A response that is being written.
#[derive(Debug)]
pub(super) struct Reply {
    exchange: Rc<Exchange>,
    inbound: Rc<Inbound>,
    buffers: Rc<Buffers>,
    outlet: Outlet,
    encoder: BodyEncoder,
    body: ResponseBody,
    ended: bool,
    /// The client gets trailers.
    trailers: Trailers,
    /// The connection may serve again.
    pub(super) keep_alive: bool,
    /// The connection switches protocols.
    pub(super) switches: bool,
}

impl Reply {
    /// Begins a response.
    pub(super) fn new(
        exchange: &Rc<Exchange>,
        inbound: &Rc<Inbound>,
        traits: &RequestTraits,
        response: Response<ResponseBody>,
    ) -> Self {
        let (parts, body) = response.into_parts();
        let Parts {
            status,
            headers,
            extensions,
            ..
        } = parts;
        let (encoder, ended) = encoder_of(traits, status, &body);
        // What the proxy says in a backend's place is no answer to what it hasn't read of the request, and never reads.
        // Nor does a backend that has said all it has to say. Whether one that goes on reads the rest is not known yet,
        // and RFC 9112 §9.6 wants it said now if the connection is to end: as in Envoy, it ends then.
        let is_over = !exchange.is_answered_by_backend() || body.is_end_stream();
        let is_read = || match is_over {
            true => inbound.leave_rest(),
            false => inbound.is_read(),
        };
        let stays = inbound.begin_response() && is_read();
        let keep_alive =
            traits.keep_alive && stays && encoder != BodyEncoder::UntilClose && !encode::asks_to_close(&headers);
        // RFC 9110 §9.3.6: behind a head that grants CONNECT there is a tunnel.
        let switches =
            status == StatusCode::SWITCHING_PROTOCOLS || (traits.method == Method::CONNECT && status.is_success());
        let stay = match (switches, keep_alive) {
            (true, _) => Stay::Switch,
            (false, false) => Stay::Close,
            (false, true) if traits.version == Version::HTTP_10 => Stay::KeepAlive,
            (false, true) => Stay::Implied,
        };
        let connection = &exchange.connection;
        let worker = &connection.worker;
        let mut outlet = Outlet::default();
        outlet.adopt(worker.buffers.writing());
        let date = worker.buffers.date(worker.clock.recent());
        let head = ResponseLines {
            version: traits.version,
            status,
            headers: &headers,
            spelling: extensions.get::<Spelled>().map(|spelled| &*spelled.0),
            stay,
        };
        encode::response_head(outlet.text(), head, encoder, &date);
        worker.buffers.recycle_headers(headers);
        Self {
            exchange: Rc::clone(exchange),
            inbound: Rc::clone(inbound),
            buffers: Rc::clone(&worker.buffers),
            outlet,
            encoder,
            body,
            ended,
            trailers: Trailers::by(connection.manager().http1.enable_trailers),
            keep_alive,
            switches,
        }
    }

    /// Writes; ready when all is written.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        loop {
            // What came before a cut is written first: the client may want it, broken off or not.
            let gathered = self.gather(cx);
            match self.inbound.poll_write(&mut self.outlet, cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Cut)),
                Poll::Pending => {
                    let progress = self.outlet.take_begun();
                    if matches!(gathered, Ok(More::Never)) {
                        self.exchange.flushing(progress);
                    } else if progress {
                        self.exchange.moved();
                    }
                    return Poll::Pending;
                }
            }
            match gathered {
                Err(cut) => return Poll::Ready(Err(cut)),
                Ok(More::Never) => return Poll::Ready(Ok(())),
                Ok(More::Later) => return Poll::Pending,
                Ok(More::Now) => {}
            }
        }
    }

    /// A deadline has passed: the response breaks off here.
    pub(super) fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.expire(exchange, kind);
    }

    /// Takes pieces of the body while there is room and they are there.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<More, Cut> {
        while !self.ended {
            if !self.outlet.has_room() {
                return Ok(More::Now);
            }
            let done = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Ok(More::Later),
                Poll::Ready(None) => self.outlet.finish(self.encoder, None).map(|()| true),
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(%error, "response breaks off");
                    return Err(Cut);
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        self.exchange.took(data.len());
                        let last = self.body.is_end_stream();
                        self.outlet.push(&mut self.encoder, data, last).map(|()| last)
                    }
                    Err(frame) => {
                        let trailers = self.trailers.of(frame);
                        self.outlet.finish(self.encoder, trailers.as_ref()).map(|()| true)
                    }
                },
            };
            self.ended = done.map_err(|_| Cut)?;
        }
        Ok(More::Never)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.buffers.recycle_writing(self.outlet.release());
    }
}

/// Whether more of a body comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Now,
    Later,
    Never,
}

/// How the body is written, and whether there is nothing to write.
fn encoder_of(traits: &RequestTraits, status: StatusCode, body: &ResponseBody) -> (BodyEncoder, bool) {
    if !has_content(status, &traits.method) {
        return (BodyEncoder::Absent, true);
    }
    if body.is_end_stream() {
        return (BodyEncoder::Length(0), true);
    }
    match body.size_hint().exact() {
        Some(length) => (BodyEncoder::Length(length), false),
        None if traits.version == Version::HTTP_11 => (BodyEncoder::Chunked, false),
        // RFC 9112 §7: HTTP/1.0 does not know chunks.
        None => (BodyEncoder::UntilClose, false),
    }
}
