//! One connection to a backend, driven by the request that uses it.
//!
//! [`Client::begin`] writes a head, [`Client::poll_response`] sends the body and waits for the head of the
//! response, [`Client::poll_frame`] reads its body while it goes on sending. There is no task and no channel: whoever
//! holds the connection polls it. A connection serves again when both sides of an exchange are complete and nothing is
//! left over; bytes that nobody asked for, a response that came before the request was sent, and `connection: close`
//! end it. Responses 1xx are skipped (RFC 9110 §15.2), except 101, after which the bytes belong to another protocol, as
//! they do after a CONNECT that was granted.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::http1::body::Decoder;
use crate::http1::buffers::{Buffers, LARGE_READ, READ, room_for};
use crate::http1::chunked::Step;
use crate::http1::encode::{self, BodyEncoder, OutgoingHead, Outlet};
use crate::http1::head::{self, Limits, Names, ResponseHead, Unfinished};
use crate::http1::{Failure, Malformed, Trailers};
use crate::transport::Transport;

#[cfg(test)]
mod tests;

/// Heads of responses are not limited by configuration. As many fields as are read without heap memory.
const LIMITS: Limits = Limits {
    names: Names::Lowered,
    bytes: 256 * 1024,
    fields: 100,
};

/// What passes the connection of what its two ends say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passing {
    /// Trailers, in both directions.
    pub(crate) trailers: Trailers,
    /// How names of fields in responses were written.
    pub(crate) names: Names,
}

/// Interim responses to one request. A backend that sends them without end would keep a core busy and answer nobody.
const MOST_INTERIM: u8 = 64;

/// What a reader of a body is told.
type Polled = Option<Result<Frame<Bytes>, Failure>>;

#[derive(Debug)]
struct Upload<B> {
    body: B,
    encoder: BodyEncoder,
}

#[derive(Debug)]
enum State {
    /// Between exchanges.
    Idle,
    /// The head of a response is awaited.
    Awaiting(Method, Unfinished),
    /// Its body is.
    Receiving(Decoder),
    /// Another protocol is spoken now.
    Switched,
    /// Of no use any more.
    Ended,
}

/// A connection to a backend; the content of requests is a `B`, and its default is none.
#[derive(Debug)]
pub(crate) struct Client<B> {
    transport: Transport,
    buffers: Rc<Buffers>,
    read: BytesMut,
    outlet: Outlet,
    upload: Option<Upload<B>>,
    passing: Passing,
    state: State,
    keep_alive: bool,
    /// Bytes of the request in hand have been written.
    wrote: bool,
    /// A part of its body has been taken.
    pulled: bool,
    flushing: bool,
    /// Interim responses to the request in hand.
    interim: u8,
    /// Room for the next read: as the last response on this connection needed it.
    room: usize,
    /// A read of this exchange was a large one.
    large: bool,
    /// Whoever the response is for has no room for more at a time.
    most: usize,
}

impl<B: Body<Data = Bytes> + Default + Unpin> Client<B> {
    /// Speaks HTTP/1.1 on a transport.
    pub(crate) fn new(transport: Transport, buffers: Rc<Buffers>, passing: Passing) -> Self {
        Self {
            transport,
            passing,
            buffers,
            read: BytesMut::new(),
            outlet: Outlet::default(),
            upload: None,
            state: State::Idle,
            keep_alive: true,
            wrote: false,
            pulled: false,
            flushing: false,
            interim: 0,
            room: READ,
            large: false,
            most: LARGE_READ,
        }
    }

    /// Begins an exchange; [`Self::poll_response`] carries it out.
    pub(crate) fn begin(&mut self, head: OutgoingHead<'_>, body: B) {
        let encoder = encoder_of(head, &body);
        self.outlet.adopt(self.buffers.writing());
        encode::request_head(self.outlet.text(), head, encoder);
        self.upload = (!body.is_end_stream()).then_some(Upload { body, encoder });
        self.state = State::Awaiting(head.method.clone(), Unfinished::default());
        self.wrote = false;
        self.pulled = false;
        self.interim = 0;
        self.flushing = self.transport.holds_back();
        self.room = if self.large { LARGE_READ } else { READ };
        self.large = false;
        self.most = LARGE_READ;
    }

    /// Bounds what is read at a time.
    pub(crate) fn read_at_most(&mut self, room: usize) {
        self.most = room;
    }

    /// True once bytes of the request have been written.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote
    }

    /// True once bytes of the response have come, if only of an interim one: the backend is at work on the request.
    pub(crate) fn has_heard(&self) -> bool {
        !self.read.is_empty() || self.interim > 0
    }

    /// Takes the body of a request back of which nothing was written, if it is still whole.
    pub(crate) fn take_request_body(&mut self) -> Option<B> {
        if self.wrote || self.pulled {
            return None;
        }
        Some(self.upload.take().map_or_else(B::default, |upload| upload.body))
    }

    /// Sends the request, and is ready with the head of the response, which may come before all is sent.
    pub(crate) fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, Failure>> {
        if let Poll::Ready(Err(failure)) = self.poll_send(cx) {
            self.end();
            return Poll::Ready(Err(failure));
        }
        loop {
            match self.take_head() {
                Ok(Some(head)) => return Poll::Ready(Ok(head)),
                Ok(None) => {}
                Err(malformed) => {
                    self.end();
                    return Poll::Ready(Err(malformed.into()));
                }
            }
            match self.poll_read(cx, self.room) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) => {
                    self.end();
                    return Poll::Ready(Err(Malformed::Incomplete.into()));
                }
                Poll::Ready(Err(error)) => {
                    self.end();
                    return Poll::Ready(Err(Failure::Connection(error)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn take_head(&mut self) -> Result<Option<ResponseHead>, Malformed> {
        let limits = Limits {
            names: self.passing.names,
            ..LIMITS
        };
        loop {
            let State::Awaiting(method, unfinished) = &mut self.state else {
                return Err(Malformed::Head);
            };
            if self.read.is_empty() {
                return Ok(None);
            }
            let mut headers = self.buffers.headers();
            let asks_for_tunnel = *method == Method::CONNECT;
            let parsed = head::response(&mut self.read, unfinished, limits, method, &mut headers);
            self.buffers.recycle_headers(headers);
            let Some(head) = parsed? else { return Ok(None) };
            // RFC 9110 §9.3.6: what follows is the tunnel's.
            let is_tunnel = asks_for_tunnel && head.status.is_success();
            if is_tunnel || head.status == StatusCode::SWITCHING_PROTOCOLS {
                self.state = State::Switched;
                return Ok(Some(head));
            }
            if head.status.is_informational() {
                self.buffers.recycle_headers(head.headers);
                self.interim += 1;
                if self.interim > MOST_INTERIM {
                    return Err(Malformed::HeadTooLarge);
                }
                continue;
            }
            self.keep_alive &= head.keep_alive;
            self.state = State::Receiving(Decoder::new(head.framing));
            self.settle();
            return Ok(Some(head));
        }
    }

    /// Ends the exchange if the response is complete.
    fn settle(&mut self) {
        if let State::Receiving(decoder) = &self.state
            && decoder.is_done()
        {
            let complete = self.upload.is_none() && self.outlet.is_empty() && !self.flushing;
            self.keep_alive &= complete && self.read.is_empty();
            self.state = if self.keep_alive { State::Idle } else { State::Ended };
            self.upload = None;
            self.buffers.recycle(&mut self.read);
        }
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.keep_alive = false;
    }

    /// Sends what there is. A connection that takes no more bytes may still hold a response: only a request of which
    /// nothing was taken fails for that.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.upload.is_none() && self.outlet.is_empty() && !self.flushing {
            return Poll::Ready(Ok(()));
        }
        match self.poll_upload(cx) {
            Poll::Ready(Err(Failure::Connection(_))) if self.wrote => {
                self.keep_alive = false;
                self.flushing = false;
                self.upload = None;
                self.outlet.clear();
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            let more = self.gather(cx)?;
            if !self.outlet.is_empty() {
                let polled = self.outlet.poll_write(&mut self.transport, cx);
                // Whatever was taken, if only a part, is lost to another connection.
                self.wrote |= self.outlet.take_begun();
                match polled {
                    Poll::Ready(Ok(())) => self.flushing = self.transport.holds_back(),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Connection(error))),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if self.flushing {
                match Pin::new(&mut self.transport).poll_flush(cx) {
                    Poll::Ready(Ok(())) => self.flushing = false,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Connection(error))),
                    Poll::Pending => return Poll::Pending,
                }
            }
            if self.upload.is_none() {
                self.buffers.recycle_writing(self.outlet.release());
                return Poll::Ready(Ok(()));
            }
            if more == More::Later {
                return Poll::Pending;
            }
        }
    }

    /// Takes pieces of the body while there is room and they are there.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<More, Failure> {
        while let Some(upload) = &mut self.upload
            && self.outlet.has_room()
        {
            let ended = match Pin::new(&mut upload.body).poll_frame(cx) {
                Poll::Pending => return Ok(More::Later),
                Poll::Ready(None) => self.outlet.finish(upload.encoder, None).map(|()| true),
                Poll::Ready(Some(Err(_))) => return Err(Failure::Request),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        self.pulled = true;
                        let last = upload.body.is_end_stream();
                        self.outlet.push(&mut upload.encoder, data, last).map(|()| last)
                    }
                    // Whether trailers are passed on is for the sender to say (RFC 9110 §6.5.1).
                    Err(frame) => {
                        let trailers = self.passing.trailers.of(frame);
                        self.outlet.finish(upload.encoder, trailers.as_ref()).map(|()| true)
                    }
                },
            };
            if ended.map_err(|_| Failure::Request)? {
                self.upload = None;
            }
        }
        Ok(More::Now)
    }

    /// Reads into the buffer; 0 at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        match self.transport.poll_readable(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let room = room.min(self.most);
        self.buffers.make_room(&mut self.read, room);
        let polled = match room {
            READ.. => pin!(self.transport.read_buf(&mut self.read)).poll(cx),
            _ => pin!(self.transport.read_buf(&mut (&mut self.read).limit(room))).poll(cx),
        };
        match polled {
            Poll::Pending => self.buffers.recycle(&mut self.read),
            Poll::Ready(Ok(READ..)) => self.large = true,
            Poll::Ready(_) => {}
        }
        polled
    }

    /// The next frame of the response. Sends what is left of the request meanwhile.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Polled> {
        loop {
            let State::Receiving(decoder) = &mut self.state else {
                return Poll::Ready(None);
            };
            let step = decoder.decode(&mut self.read);
            let left = decoder.size_hint().exact();
            match step {
                Ok(Step::Data(data)) => {
                    self.settle();
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Step::Trailers(trailers)) if self.passing.trailers == Trailers::Passed => {
                    self.settle();
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Step::Trailers(_) | Step::End) => {
                    self.settle();
                    return Poll::Ready(None);
                }
                Ok(Step::More) => {}
                Err(malformed) => {
                    self.end();
                    return Poll::Ready(Some(Err(malformed.into())));
                }
            }
            if let Poll::Ready(Err(failure)) = self.poll_send(cx) {
                self.end();
                return Poll::Ready(Some(Err(failure)));
            }
            if let Some(end) = std::task::ready!(self.poll_more(cx, left)) {
                return Poll::Ready(end);
            }
        }
    }

    /// Reads more of a body; ready with what to tell when there is no more.
    fn poll_more(&mut self, cx: &mut Context<'_>, left: Option<u64>) -> Poll<Option<Polled>> {
        let room = room_for(left, if self.large { LARGE_READ } else { self.room });
        let read = match std::task::ready!(self.poll_read(cx, room)) {
            Ok(read) => read,
            Err(error) => {
                self.end();
                return Poll::Ready(Some(Some(Err(Failure::Connection(error)))));
            }
        };
        if read > 0 {
            return Poll::Ready(None);
        }
        let State::Receiving(decoder) = &mut self.state else {
            return Poll::Ready(Some(None));
        };
        let ended = decoder.end();
        self.end();
        Poll::Ready(Some(ended.err().map(|malformed| Err(malformed.into()))))
    }

    /// True when the response is complete.
    pub(crate) fn is_end_stream(&self) -> bool {
        !matches!(self.state, State::Awaiting(..) | State::Receiving(_))
    }

    /// How much of the response is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Receiving(decoder) => decoder.size_hint(),
            _ => SizeHint::with_exact(0),
        }
    }

    /// True when another exchange may follow.
    pub(crate) fn is_reusable(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// True when the backend has not ended an idle connection, as far as the runtime knows. Costs no system call while
    /// nothing has happened.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.is_reusable() && self.poll_read(&mut Context::from_waker(Waker::noop()), 1).is_pending()
    }

    /// After a 101, or a CONNECT that was granted: the transport, and what was read behind the head.
    pub(crate) fn into_transport(self) -> Option<(Transport, Bytes)> {
        matches!(self.state, State::Switched).then(|| (self.transport, self.read.freeze()))
    }
}

/// Whether more of a body is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Now,
    Later,
}

/// RFC 9110 §8.6: a request whose method expects content says that there is none, and so does one that came so.
fn encoder_of(head: OutgoingHead<'_>, body: &impl Body) -> BodyEncoder {
    if body.is_end_stream() {
        return match *head.method {
            Method::GET | Method::HEAD | Method::DELETE | Method::TRACE | Method::CONNECT | Method::OPTIONS
                if !head.headers.contains_key(CONTENT_LENGTH) =>
            {
                BodyEncoder::Absent
            }
            _ => BodyEncoder::Length(0),
        };
    }
    match body.size_hint().exact() {
        Some(length) => BodyEncoder::Length(length),
        None => BodyEncoder::Chunked,
    }
}
