//! Content on its way past the service.
//!
//! A [`ProcessedBody`] lies around content and shows it to the service piece by piece. A piece that was shown is
//! kept until it is answered, and passes as the answer says; where pieces flow in both directions what passes is what
//! the service sends, in its own time. When the service is done, or has failed and may, the rest passes as it is.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::message;
use super::mutation::{self, Kept, Target, Terms};
use super::talk::{Answer, Heard, Part, Talk, Way};
use crate::clock::Kind;
use crate::config::filter::ext_proc::BodyMode;
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::message::body::{Broken, OwnBody};
use crate::message::incoming::Incoming;
use crate::message::whole::Whole;

/// So much is kept of what isn't answered before no more is read.
const KEPT: usize = 64 * 1024;

/// Content on its way past a service.
#[derive(Debug)]
pub(crate) struct ProcessedBody<B> {
    body: B,
    talk: Rc<Talk>,
    way: Way,
    manner: Manner,
    /// What may pass.
    ready: VecDeque<Bytes>,
    /// What was shown and isn't answered.
    shown: VecDeque<Bytes>,
    kept: usize,
    /// Nothing more is to come from where it comes from.
    is_read: bool,
    /// The service was told so.
    is_end_told: bool,
    trailers: Option<HeaderMap>,
    /// They have been shown, or nobody wants to see them.
    are_trailers_done: bool,
    /// How many headers there may be in trailers.
    limit: usize,
}

/// How content passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// As it is.
    Passing,
    /// The same, and the service sees it.
    Watched,
    /// Each piece as its answer says.
    Pieces,
    /// What the service sends.
    Duplex,
}

impl<B: Body<Data = Bytes, Error = Broken> + Unpin> ProcessedBody<B> {
    /// Around content whose beginning may have been read: that passes as it is, before the rest.
    pub(super) fn new(body: B, talk: &Rc<Talk>, way: Way, limit: usize) -> Self {
        let mode = talk.mode(way);
        let manner = match mode.body {
            BodyMode::Pieces if talk.is_watched() => Manner::Watched,
            BodyMode::Pieces => Manner::Pieces,
            BodyMode::Duplex if !talk.is_watched() => Manner::Duplex,
            _ => Manner::Passing,
        };
        Self {
            body,
            talk: Rc::clone(talk),
            way,
            manner,
            ready: VecDeque::new(),
            shown: VecDeque::new(),
            kept: 0,
            is_read: false,
            is_end_told: false,
            trailers: None,
            are_trailers_done: !mode.trailers,
            limit,
        }
    }

    /// The rest of content of which the service has seen the beginning, and this is what it made of that.
    pub(super) fn behind(self, beginning: Bytes) -> Self {
        let mut ready = VecDeque::new();
        if !beginning.is_empty() {
            ready.push_back(beginning);
        }
        Self {
            ready,
            manner: Manner::Passing,
            ..self
        }
    }

    /// Shows what comes, until the head is answered.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, Broken>> {
        loop {
            if let Poll::Ready(heard) = self.talk.poll(self.way, cx) {
                return Poll::Ready(Ok(heard));
            }
            match self.read(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if self.is_asking() {
                match self.talk.poll(self.way, cx) {
                    Poll::Ready(Heard::Answer(answer)) => {
                        if let Err(broken) = self.follow(*answer) {
                            return Poll::Ready(Some(Err(broken)));
                        }
                        continue;
                    }
                    Poll::Ready(Heard::Over) => {
                        self.let_pass();
                        continue;
                    }
                    Poll::Ready(Heard::Refused) => return Poll::Ready(Some(Err(Broken::Processor))),
                    Poll::Pending => {}
                }
            }
            if self.is_read {
                if self.has_passed() {
                    return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
                }
                return Poll::Pending;
            }
            match self.read(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(broken)) => return Poll::Ready(Some(Err(broken))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether the service has a say in what is still to come.
    fn is_asking(&self) -> bool {
        matches!(self.manner, Manner::Pieces | Manner::Duplex)
            || (self.manner == Manner::Passing && !self.are_trailers_done && self.trailers.is_some())
    }

    /// Whether all content has.
    fn has_passed(&self) -> bool {
        match self.manner {
            Manner::Passing | Manner::Watched => self.trailers.is_none() || self.are_trailers_done,
            Manner::Pieces => self.shown.is_empty() && (self.trailers.is_none() || self.are_trailers_done),
            Manner::Duplex => false,
        }
    }

    /// Takes the next frame of what comes.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.is_read || self.kept > KEPT || (self.manner != Manner::Passing && self.talk.is_full(cx)) {
            return Poll::Pending;
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(broken))) => return Poll::Ready(Err(broken)),
            Poll::Ready(None) => self.finish(None),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    let is_end = self.body.is_end_stream();
                    self.take(data, is_end);
                    if is_end {
                        self.finish(None);
                    }
                }
                Err(frame) => self.finish(frame.into_trailers().ok()),
            },
        }
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, data: Bytes, is_end: bool) {
        if self.manner != Manner::Passing {
            self.show(&data, is_end);
        }
        match self.manner {
            Manner::Passing | Manner::Watched => self.ready.push_back(data),
            Manner::Pieces => {
                self.kept += data.len();
                self.shown.push_back(data);
            }
            Manner::Duplex => {}
        }
    }

    fn show(&mut self, data: &Bytes, is_end: bool) {
        self.is_end_told |= is_end;
        self.talk
            .show(self.way, message::body(&self.talk, self.way, data, is_end));
    }

    /// All has come, and these trailers.
    fn finish(&mut self, trailers: Option<HeaderMap>) {
        self.is_read = true;
        self.trailers = trailers;
        if self.trailers.is_none() && self.manner != Manner::Passing && !self.is_end_told {
            let nothing = Bytes::new();
            self.take(nothing, true);
        }
        self.show_trailers();
    }

    /// Shows the trailers, once all content before them is answered.
    fn show_trailers(&mut self) {
        let Some(trailers) = self.trailers.as_ref().filter(|_| !self.are_trailers_done) else {
            return;
        };
        if self.shown.is_empty() && !self.is_end_told {
            self.is_end_told = true;
            self.talk
                .show(self.way, message::trailers(&self.talk, self.way, trailers));
            self.are_trailers_done = self.talk.is_watched();
        }
    }

    /// Does what the service has said.
    fn follow(&mut self, answer: Answer) -> Result<(), Broken> {
        match answer.part {
            Part::Body(said) if self.manner == Manner::Duplex => self.flow(&said),
            Part::Body(said) => {
                let Some(piece) = self.shown.pop_front() else {
                    return Ok(());
                };
                self.kept -= piece.len();
                self.ready
                    .extend(Some(message::content(&said).unwrap_or(piece)).filter(|piece| !piece.is_empty()));
                if self.is_read && self.trailers.is_some() {
                    self.show_trailers();
                }
            }
            Part::Trailers(mutation) => {
                if let Some(trailers) = &mut self.trailers {
                    let terms = Terms {
                        rules: &self.talk.processor.rules,
                        kept: Kept::Nothing,
                        is_replaced: false,
                        limit: self.limit,
                    };
                    if let Err(invalid) = mutation::apply(&mutation, &mut Target::Trailers(trailers), terms) {
                        self.talk.reject(&invalid);
                        return Err(Broken::Processor);
                    }
                }
                self.are_trailers_done = true;
                if self.manner == Manner::Duplex {
                    self.let_pass();
                }
            }
            Part::Head(_) => {}
        }
        Ok(())
    }

    /// A piece of the service's own.
    fn flow(&mut self, said: &CommonResponse) {
        let Some(piece) = message::flowing(said) else { return };
        if !piece.body.is_empty() {
            self.ready.push_back(Bytes::copy_from_slice(&piece.body));
        }
        if piece.end_of_stream {
            // Nothing that comes later is wanted any more.
            self.is_read = true;
            self.trailers = None;
            self.let_pass();
        }
    }

    /// The service has no say any more.
    fn let_pass(&mut self) {
        self.manner = Manner::Passing;
        self.are_trailers_done = true;
        self.ready
            .extend(self.shown.drain(..).filter(|piece| !piece.is_empty()));
        self.kept = 0;
        self.talk.finish(self.way);
    }

    /// True when there is nothing more to read.
    pub(crate) fn is_end_stream(&self) -> bool {
        if !self.ready.is_empty() || self.trailers.is_some() || self.manner == Manner::Duplex {
            return false;
        }
        match self.is_read {
            true => self.has_passed(),
            false => self.manner == Manner::Passing && self.body.is_end_stream(),
        }
    }

    /// What is left, as far as that is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.manner {
            Manner::Passing | Manner::Watched if self.ready.is_empty() => self.body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

impl OwnBody for ProcessedBody<Incoming> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.size_hint()
    }
}

/// A response's content on its way past a service. Its head has gone: where the service fails, or wants another answer,
/// the content breaks off, and logs tell why.
#[derive(Debug)]
struct AnsweredBody {
    body: ProcessedBody<ResponseBody>,
    exchange: Rc<Exchange>,
}

/// The content of a response, for the client.
pub(super) fn answered(body: ProcessedBody<ResponseBody>, exchange: &Rc<Exchange>) -> ResponseBody {
    ResponseBody::Filtered(Box::new(AnsweredBody {
        body,
        exchange: Rc::clone(exchange),
    }))
}

impl FilteredBody for AnsweredBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let polled = self.body.poll_frame(cx);
        if let Poll::Ready(Some(Err(Broken::Processor))) = &polled
            && let Some(refusal) = self.body.talk.refusal()
        {
            self.exchange.cut(refusal.details);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.body.expire(exchange, kind);
    }
}

/// Content that was read whole, with its trailers.
#[derive(Debug)]
struct KeptBody(Whole);

/// A response's content that was read whole, with its trailers.
pub(super) fn kept(data: Bytes, trailers: HeaderMap) -> ResponseBody {
    ResponseBody::Filtered(Box::new(KeptBody(Whole::with_trailers(data, Some(trailers)))))
}

impl FilteredBody for KeptBody {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Poll::Ready(self.0.next().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_over()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        exchange.expire(kind, None);
    }
}
