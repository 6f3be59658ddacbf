//! The client's half of a connection: what is read, shared by the loop that serves it and the body of its request.
//!
//! Heads and bodies come off one buffer. A request's body is read by whoever forwards it, which may be another
//! task, while the loop writes the response to the same transport; so both borrow it for the time of a call. A body
//! outlives its request only as a handle that finds out that it is too late.

use std::cell::{RefCell, RefMut};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncReadExt, AsyncWrite};

use crate::http1::body::Decoder;
use crate::http1::buffers::{Buffers, LARGE_READ, READ, room_for};
use crate::http1::chunked::Step;
use crate::http1::encode::Outlet;
use crate::http1::framing::Framing;
use crate::http1::head::{self, Limits, RequestHead, Unfinished};
use crate::http1::{Failure, Malformed, Trailers};
use crate::transport::Transport;

/// RFC 9110 §15.2.1.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// What is left of a body that nobody wants is read up to this size, to keep the connection.
const DISCARDED: usize = 64 * 1024;

/// The reading half.
#[derive(Debug)]
pub(crate) struct Inbound(RefCell<Inner>);

#[derive(Debug)]
struct Inner {
    /// Taken out by [`Inbound::take`] alone.
    transport: Option<Transport>,
    buffers: Rc<Buffers>,
    read: BytesMut,
    /// Of the body of the request in hand.
    decoder: Decoder,
    trailers: Trailers,
    /// Which request that is.
    exchange: u64,
    interim: Interim,
    room: usize,
    malformed: bool,
    /// The loop, when it waits for the end of a body that another task reads.
    waiter: Option<Waker>,
}

/// A 100 that the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interim {
    None,
    /// Sent when somebody asks for the body.
    Wanted,
    /// So much of it is written.
    Writing(usize),
    /// The response came first. Whether the client sends its body now is for the client to know.
    TooLate,
}

impl Inbound {
    /// `replay` comes before what the transport still holds.
    pub(crate) fn new(transport: Transport, replay: Bytes, buffers: Rc<Buffers>) -> Rc<Self> {
        Rc::new(Self(RefCell::new(Inner {
            transport: Some(transport),
            buffers,
            read: replay.into(),
            decoder: Decoder::Length(0),
            trailers: Trailers::Dropped,
            exchange: 0,
            interim: Interim::None,
            room: READ,
            malformed: false,
            waiter: None,
        })))
    }

    /// Ready with the next head; `None` when the client has gone. Says when a part of one has come.
    pub(crate) fn poll_head(
        &self,
        cx: &mut Context<'_>,
        unfinished: &mut Unfinished,
        limits: Limits,
        part_came: impl Fn(),
    ) -> Poll<Result<Option<RequestHead>, Malformed>> {
        let mut inner = self.0.borrow_mut();
        loop {
            if !inner.read.is_empty() {
                let mut headers = inner.buffers.headers();
                let parsed = head::request(&mut inner.read, unfinished, limits, &mut headers);
                inner.buffers.recycle_headers(headers);
                if let Some(head) = parsed? {
                    inner.recycle();
                    return Poll::Ready(Ok(Some(head)));
                }
                // RFC 9112 §2.2: an empty line before a request is no part of it.
                if inner.read.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
                    part_came();
                }
            }
            match ready!(inner.poll_read(cx, READ)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// The body of the request whose head was read last.
    pub(crate) fn begin(
        self: &Rc<Self>,
        framing: Framing,
        expects_continue: bool,
        trailers: Trailers,
    ) -> Option<InboundBody> {
        let mut inner = self.0.borrow_mut();
        inner.decoder = Decoder::new(framing);
        inner.trailers = trailers;
        inner.exchange += 1;
        inner.room = READ;
        inner.malformed = false;
        inner.interim = if expects_continue {
            Interim::Wanted
        } else {
            Interim::None
        };
        (framing != Framing::Empty).then(|| InboundBody {
            inbound: Rc::clone(self),
            exchange: inner.exchange,
        })
    }

    /// The response begins: a 100 would come too late. False when nobody knows whether the body follows, so that the
    /// connection can't be used again.
    pub(crate) fn begin_response(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        if inner.interim == Interim::Wanted {
            inner.interim = Interim::TooLate;
        }
        !inner.is_in_doubt()
    }

    /// Ready when the client has gone. Looks once its request is complete; what follows it is kept.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.borrow_mut();
        if !inner.decoder.is_done() {
            if !inner.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(cx.waker())) {
                inner.waiter = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        // A client that sends ahead is there.
        if !inner.read.is_empty() {
            return Poll::Pending;
        }
        match inner.poll_read(cx, READ) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Writes what is in the outlet.
    pub(crate) fn poll_write(&self, outlet: &mut Outlet, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        let inner = &mut *inner;
        if let Interim::Writing(_) = inner.interim {
            // Half a 100 comes first.
            ready!(inner.poll_interim(cx))?;
        }
        let transport = inner.transport.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        ready!(outlet.poll_write(transport, cx))?;
        if transport.holds_back() {
            return Pin::new(transport).poll_flush(cx);
        }
        Poll::Ready(Ok(()))
    }

    /// True when all of the request has been read.
    pub(crate) fn is_read(&self) -> bool {
        let inner = self.0.borrow();
        inner.decoder.is_done() && !inner.malformed
    }

    /// Nobody wants more of the request. True when it is complete, so that another may follow: a short rest that is
    /// there already is read and forgotten.
    pub(crate) fn leave_rest(&self) -> bool {
        let mut inner = self.0.borrow_mut();
        inner.exchange += 1;
        inner.discard()
    }

    /// Ends the exchange: true when the request is complete, as above.
    pub(crate) fn end_exchange(&self) -> bool {
        self.0.borrow_mut().waiter = None;
        self.leave_rest()
    }

    /// Whether the body of the request in hand was malformed.
    pub(crate) fn is_malformed(&self) -> bool {
        self.0.borrow().malformed
    }

    /// Lets go of the transport; with it comes what was read ahead.
    pub(crate) fn take(&self) -> Option<(Transport, Bytes)> {
        let mut inner = self.0.borrow_mut();
        let read = std::mem::take(&mut inner.read).freeze();
        inner.transport.take().map(|transport| (transport, read))
    }
}

impl Inner {
    /// A client that waits for a 100 and gets its answer may send the body or leave it.
    fn is_in_doubt(&self) -> bool {
        self.interim == Interim::TooLate && !self.decoder.is_done()
    }

    fn discard(&mut self) -> bool {
        if self.malformed || self.is_in_doubt() {
            return false;
        }
        let mut discarded = 0;
        let cx = &mut Context::from_waker(Waker::noop());
        while !self.decoder.is_done() && discarded < DISCARDED {
            match self.decoder.decode(&mut self.read) {
                Ok(Step::Data(data)) => discarded += data.len(),
                Ok(Step::Trailers(_) | Step::End) => break,
                Ok(Step::More) => match self.poll_read(cx, READ) {
                    Poll::Ready(Ok(1..)) => {}
                    _ => return false,
                },
                Err(_) => return false,
            }
        }
        self.recycle();
        self.decoder.is_done()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        let transport = self.transport.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        ready!(transport.poll_readable(cx))?;
        self.buffers.make_room(&mut self.read, room);
        let polled = pin!(transport.read_buf(&mut self.read)).poll(cx);
        if polled.is_pending() {
            self.recycle();
        }
        polled
    }

    fn recycle(&mut self) {
        self.buffers.recycle(&mut self.read);
    }

    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let transport = self.transport.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut transport = Pin::new(transport);
        let mut written = match self.interim {
            Interim::None | Interim::TooLate => return Poll::Ready(Ok(())),
            Interim::Wanted => 0,
            Interim::Writing(written) => written,
        };
        while written < CONTINUE.len() {
            match transport.as_mut().poll_write(cx, &CONTINUE[written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
            self.interim = Interim::Writing(written);
        }
        if written < CONTINUE.len() {
            return Poll::Pending;
        }
        ready!(transport.poll_flush(cx))?;
        self.interim = Interim::None;
        Poll::Ready(Ok(()))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        loop {
            let step = self.decoder.decode(&mut self.read);
            let frame = match step {
                Ok(Step::Data(data)) => Some(Ok(Frame::data(data))),
                Ok(Step::Trailers(trailers)) if self.trailers == Trailers::Passed => {
                    Some(Ok(Frame::trailers(trailers)))
                }
                Ok(Step::Trailers(_) | Step::End) => None,
                Err(malformed) => {
                    self.malformed = true;
                    Some(Err(malformed.into()))
                }
                Ok(Step::More) => {
                    if let Err(error) = ready!(self.poll_interim(cx)) {
                        return Poll::Ready(Some(Err(Failure::Connection(error))));
                    }
                    let left = self.decoder.size_hint().exact();
                    let room = room_for(left, self.room);
                    match ready!(self.poll_read(cx, room)) {
                        Ok(0) => return Poll::Ready(Some(Err(Malformed::Incomplete.into()))),
                        Ok(read) if read >= room => self.room = LARGE_READ,
                        Ok(_) => {}
                        Err(error) => return Poll::Ready(Some(Err(Failure::Connection(error)))),
                    }
                    continue;
                }
            };
            self.recycle();
            self.told_end(cx);
            return Poll::Ready(frame);
        }
    }

    /// At the end of the body the loop looks for the client's end, unless it is the loop that reads.
    fn told_end(&mut self, cx: &Context<'_>) {
        if self.decoder.is_done()
            && let Some(waiter) = self.waiter.take()
            && !waiter.will_wake(cx.waker())
        {
            waiter.wake();
        }
    }
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct InboundBody {
    inbound: Rc<Inbound>,
    exchange: u64,
}

impl InboundBody {
    fn inner(&self) -> Option<RefMut<'_, Inner>> {
        let inner = self.inbound.0.borrow_mut();
        (inner.exchange == self.exchange).then_some(inner)
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match self.inner() {
            Some(mut inner) => inner.poll_body(cx),
            None => Poll::Ready(Some(Err(Failure::Request))),
        }
    }

    /// True when the body has been read.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.inner().is_some_and(|inner| inner.decoder.is_done())
    }

    /// How much is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.inner()
            .map_or_else(SizeHint::default, |inner| inner.decoder.size_hint())
    }
}
