//! What the proxy and the service say to each other about one exchange.
//!
//! A [`Talk`] holds the stream, of which there is one for the request and its response, begun by the first
//! message. Both directions may be at work at a time: each asks for its own answers, and what comes for the other is
//! put aside for it. It knows which answers are due: another one is a fault of the service, as is one that is late.
//! When all is over, in whatever way, nobody is asked any more.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Shown;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Said;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HeaderMutation, ImmediateResponse, ProcessingRequest, ProcessingResponse,
};
use envoy_types::pb::google::protobuf::Struct;
use http::StatusCode;
use prost::Message as _;

use super::message;
use super::mutation::Invalid;
use crate::calls::conversation::{Call, Conversation, Ending};
use crate::calls::grpc;
use crate::clock::{Kind, Timer};
use crate::config::access::Metadata;
use crate::config::filter::ext_proc::{BodyMode, Mode, Modes, Override, Processor, Role};
use crate::local::Local;
use crate::upstream::Upstreams;

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// So much waits for the service before no more is read.
const BACKLOG: usize = 64 * 1024;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Response,
}

/// An answer of the service.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) part: Part,
    /// What later filters are to know.
    pub(super) metadata: Option<Struct>,
}

/// What an answer is about.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Head(CommonResponse),
    Body(CommonResponse),
    Trailers(HeaderMutation),
}

/// What is heard of the service.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Answer(Box<Answer>),
    /// It has nothing more to say.
    Over,
    /// The client gets another answer, which is kept in the talk.
    Refused,
}

/// An answer in place of what was to come.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    pub(super) headers: HeaderMutation,
    pub(super) grpc: Option<u32>,
    pub(super) details: String,
}

impl Refusal {
    fn failing(status: StatusCode, details: &str) -> Self {
        Self {
            status,
            body: Bytes::new(),
            headers: HeaderMutation::default(),
            grpc: None,
            details: details.split_whitespace().collect::<Vec<_>>().join("_"),
        }
    }
}

/// One direction.
#[derive(Debug)]
struct Side {
    /// The head has been shown, and isn't answered.
    head: Cell<bool>,
    /// So many pieces have been shown and aren't answered.
    pieces: Cell<usize>,
    /// The trailers have been shown, and aren't answered.
    trailers: Cell<bool>,
    /// Pieces come back as the service likes.
    flows: Cell<bool>,
    answers: RefCell<VecDeque<Box<Answer>>>,
    timer: Timer,
    /// The service has asked for more time.
    is_extended: Cell<bool>,
    /// Attributes have been told.
    is_told: Cell<bool>,
}

impl Side {
    fn new(worker: &Local) -> Self {
        Self {
            head: Cell::new(false),
            pieces: Cell::new(0),
            trailers: Cell::new(false),
            flows: Cell::new(false),
            answers: RefCell::default(),
            timer: worker.clock.timer(),
            is_extended: Cell::new(false),
            is_told: Cell::new(false),
        }
    }

    fn awaits(&self) -> bool {
        self.head.get() || self.pieces.get() > 0 || self.trailers.get()
    }

    /// Whether such an answer is due; it isn't any more then.
    fn takes(&self, part: &Part) -> bool {
        match part {
            Part::Head(_) => self.head.replace(false),
            // As documented of FULL_DUPLEX_STREAMED: head, content, trailers.
            Part::Body(body) if self.flows.get() => !self.head.get() && message::flowing(body).is_some(),
            Part::Body(body) => {
                let pieces = self.pieces.get();
                self.pieces.set(pieces.saturating_sub(1));
                pieces > 0 && message::flowing(body).is_none()
            }
            Part::Trailers(_) => self.trailers.replace(false),
        }
    }
}

/// A talk about one exchange.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) processor: Arc<Processor>,
    upstreams: Rc<Upstreams>,
    stream: RefCell<Option<Conversation>>,
    modes: Cell<Modes>,
    is_over: Cell<bool>,
    refusal: RefCell<Option<Box<Refusal>>>,
    sides: [Side; 2],
    /// What of the metadata of the request the service may see.
    pub(super) metadata: RefCell<Metadata>,
}

impl Talk {
    /// One that hasn't begun.
    pub(super) fn new(processor: &Arc<Processor>, upstreams: &Rc<Upstreams>) -> Rc<Self> {
        Rc::new(Self {
            modes: Cell::new(processor.modes),
            processor: Arc::clone(processor),
            stream: RefCell::default(),
            is_over: Cell::new(false),
            refusal: RefCell::default(),
            sides: [Side::new(&upstreams.worker), Side::new(&upstreams.worker)],
            metadata: RefCell::default(),
            upstreams: Rc::clone(upstreams),
        })
    }

    fn side(&self, way: Way) -> &Side {
        &self.sides[way as usize]
    }

    /// What is shown of a message.
    pub(super) fn mode(&self, way: Way) -> Mode {
        let modes = self.modes.get();
        match way {
            Way::Request => modes.request,
            Way::Response => modes.response,
        }
    }

    /// Nothing more is shown of a message.
    pub(super) fn hide(&self, way: Way) {
        let mut modes = self.modes.get();
        match way {
            Way::Request => modes.request = Mode::NOTHING,
            Way::Response => modes.response = Mode::NOTHING,
        }
        self.modes.set(modes);
    }

    /// Content of a message has gone its way: nothing of it can be lost any more.
    pub(super) fn finish(&self, way: Way) {
        self.side(way).flows.set(false);
    }

    /// Whether nobody is asked any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Whether nobody waits for the service.
    pub(super) fn is_watched(&self) -> bool {
        self.processor.role == Role::Watches
    }

    /// Whether attributes are still to be told; they are then.
    pub(super) fn begins(&self, way: Way) -> bool {
        !self.side(way).is_told.replace(true)
    }

    /// Shows something to the service.
    pub(super) fn show(&self, way: Way, mut message: ProcessingRequest) {
        if self.is_over() {
            return;
        }
        message.observability_mode = self.is_watched();
        let mut stream = self.stream.borrow_mut();
        let stream = stream.get_or_insert_with(|| {
            message.protocol_config = Some(message::protocol(self.modes.get()));
            let service = &self.processor.service;
            let mut head = grpc::head(PROCESS, &service.authority);
            head.headers.extend(service.headers.iter().cloned());
            let call = Call {
                cluster: service.cluster,
                head,
                retry: service.retry.clone(),
            };
            Conversation::begin(&self.upstreams, call, self.processor.patience)
        });
        if !self.is_watched() {
            self.expect(way, message.request.as_ref());
        }
        stream.say(&message);
    }

    /// An answer to this is due.
    fn expect(&self, way: Way, shown: Option<&Shown>) {
        let side = self.side(way);
        let flows = self.mode(way).body == BodyMode::Duplex;
        side.flows.set(flows);
        match shown {
            Some(Shown::RequestHeaders(_) | Shown::ResponseHeaders(_)) => side.head.set(true),
            Some(Shown::RequestTrailers(_) | Shown::ResponseTrailers(_)) => side.trailers.set(true),
            _ if flows => {}
            _ => side.pieces.set(side.pieces.get() + 1),
        }
        side.is_extended.set(false);
        // As documented: no time is set to what flows in both directions.
        if !flows {
            self.wait(side, self.processor.timeout);
        }
    }

    fn wait(&self, side: &Side, time: Duration) {
        side.timer
            .set(Kind::Route, self.upstreams.worker.clock.now(), Some(time));
    }

    /// Whether as much waits for the service as may. Who asks is woken when less does.
    pub(super) fn is_full(&self, cx: &Context<'_>) -> bool {
        let stream = self.stream.borrow();
        stream.as_ref().is_some_and(|stream| stream.unsaid(cx) > BACKLOG)
    }

    /// What the service says about a message.
    pub(super) fn poll(&self, way: Way, cx: &mut Context<'_>) -> Poll<Heard> {
        let side = self.side(way);
        loop {
            if let Some(answer) = side.answers.borrow_mut().pop_front() {
                return Poll::Ready(Heard::Answer(answer));
            }
            if self.refusal.borrow().is_some() {
                return Poll::Ready(Heard::Refused);
            }
            if self.is_over() {
                return Poll::Ready(Heard::Over);
            }
            let heard = match &*self.stream.borrow() {
                Some(stream) => stream.poll_heard(cx),
                None => return Poll::Pending,
            };
            match heard {
                Poll::Ready(Ok(message)) => self.take(&message),
                Poll::Ready(Err(ending)) => self.ended(&ending),
                Poll::Pending if side.timer.poll_expired(cx).is_ready() => {
                    self.fail(
                        StatusCode::GATEWAY_TIMEOUT,
                        "ext_proc_error_per-message_timeout_exceeded",
                    );
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes a message of the service.
    fn take(&self, message: &[u8]) {
        if self.is_watched() {
            return;
        }
        let Ok(response) = ProcessingResponse::decode(message) else {
            return self.ended(&Ending::Failed {
                code: 13,
                message: "".into(),
            });
        };
        if let Some(time) = response.override_message_timeout {
            let millis = i128::from(time.seconds) * 1000 + i128::from(time.nanos / 1_000_000);
            let time = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
            return self.extend(time);
        }
        let metadata = response.dynamic_metadata;
        let (way, part) = match response.response {
            Some(Said::RequestHeaders(said)) => (Way::Request, Part::Head(said.response.unwrap_or_default())),
            Some(Said::ResponseHeaders(said)) => (Way::Response, Part::Head(said.response.unwrap_or_default())),
            Some(Said::RequestBody(said)) => (Way::Request, Part::Body(said.response.unwrap_or_default())),
            Some(Said::ResponseBody(said)) => (Way::Response, Part::Body(said.response.unwrap_or_default())),
            Some(Said::RequestTrailers(said)) => {
                (Way::Request, Part::Trailers(said.header_mutation.unwrap_or_default()))
            }
            Some(Said::ResponseTrailers(said)) => {
                (Way::Response, Part::Trailers(said.header_mutation.unwrap_or_default()))
            }
            Some(Said::ImmediateResponse(said)) if self.processor.may_answer => return self.refuse(refusal(said)),
            _ => return self.spurious(),
        };
        let side = self.side(way);
        if !side.takes(&part) {
            return self.spurious();
        }
        if let (Part::Head(_), Some(said)) = (&part, &response.mode_override) {
            self.choose(Override::of(said));
        }
        if side.awaits() && !side.flows.get() {
            self.wait(side, self.processor.timeout);
        } else {
            side.timer.clear(Kind::Route);
        }
        side.answers.borrow_mut().push_back(Box::new(Answer { part, metadata }));
        self.wake_all();
    }

    /// The service wants more time for what it was asked last.
    fn extend(&self, time: Duration) {
        if time.is_zero() || time > self.processor.max_timeout {
            return;
        }
        for side in &self.sides {
            if side.timer.is_set(Kind::Route) && !side.is_extended.replace(true) {
                self.wait(side, time);
            }
        }
        self.wake_all();
    }

    /// The service chooses what it sees.
    fn choose(&self, said: Option<Override>) {
        let (Some(said), Some(allowed)) = (said, &self.processor.overrides) else {
            return;
        };
        let flow = self.processor.modes.flow();
        if !flow && (allowed.is_empty() || allowed.contains(&said)) {
            self.modes.set(said.over(self.modes.get()));
        }
    }

    fn wake_all(&self) {
        if let Some(stream) = &*self.stream.borrow() {
            stream.wake_all();
        }
    }

    /// The stream has ended.
    fn ended(&self, ending: &Ending) {
        match ending {
            // What was shown and didn't come back is lost, and must not be left out without a word.
            Ending::Complete if self.sides.iter().any(|side| side.flows.get()) => {
                self.fail_by_stream(0, "");
            }
            Ending::Complete => self.end(),
            Ending::Failed { code, message } => self.fail_by_stream(*code, message),
        }
    }

    /// The status of what fails.
    fn status(&self) -> StatusCode {
        self.processor.on_error
    }

    /// An answer can't be followed: that ends the exchange, whatever else may fail.
    pub(super) fn reject(&self, Invalid(details): &Invalid) {
        self.refuse(Refusal::failing(self.status(), details));
    }

    fn fail_by_stream(&self, code: u32, message: &str) {
        self.fail(self.status(), &format!("ext_proc_error_gRPC_error_{code}{{{message}}}"));
    }

    /// The service has said what nobody has asked for.
    fn spurious(&self) {
        self.fail(self.status(), "spurious_message");
    }

    /// The service has failed: the exchange goes on without it, or doesn't.
    fn fail(&self, status: StatusCode, details: &str) {
        tracing::debug!(details, "a processor has failed");
        let flows = self.sides.iter().any(|side| side.flows.get());
        if self.processor.may_fail && !flows {
            return self.end();
        }
        self.refuse(Refusal::failing(status, details));
    }

    /// The client gets another answer: the service's, or one about its answers.
    pub(super) fn refuse(&self, refusal: Refusal) {
        if self.refusal.borrow().is_none() {
            *self.refusal.borrow_mut() = Some(Box::new(refusal));
        }
        self.end();
    }

    /// Takes that answer, if there is one.
    pub(super) fn refusal(&self) -> Option<Box<Refusal>> {
        self.refusal.take()
    }

    /// Nobody is asked any more.
    fn end(&self) {
        self.is_over.set(true);
        self.wake_all();
        // Taken out first: what drops it must find the talk as it is then.
        let stream = self.stream.take();
        drop(stream);
    }

    /// Looks whether the service has failed by now, without waiting.
    pub(super) fn look(&self, cx: &mut Context<'_>) {
        while !self.is_over() {
            let heard = match &*self.stream.borrow() {
                Some(stream) => stream.poll_heard(cx),
                None => return,
            };
            match heard {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(ending)) => self.ended(&ending),
                Poll::Pending => return,
            }
        }
    }
}

/// The answer that the service wants to be given.
fn refusal(said: ImmediateResponse) -> Refusal {
    let code = said.status.map_or(0, |status| status.code);
    let status = u16::try_from(code).ok().filter(|code| (200..600).contains(code));
    Refusal {
        status: status
            .and_then(|code| StatusCode::from_u16(code).ok())
            .unwrap_or(StatusCode::OK),
        body: said.body.into(),
        headers: said.headers.unwrap_or_default(),
        grpc: said.grpc_status.map(|status| status.status),
        details: said.details.split_whitespace().collect::<Vec<_>>().join("_"),
    }
}
