//! Calls of gRPC with many messages in both directions (gRPC over HTTP/2), made by the proxy itself.
//!
//! Whoever begins a [`Conversation`] says messages and hears messages, from wherever it is polled; a task of its
//! own holds the connection. What is said before the connection stands waits. Dropping it ends it in order: the other
//! side is told that nothing more comes, and has a while to end too before the stream is reset.
//! How much waits in either direction is for the two sides to bound: what was heard and nobody takes isn't read on, and
//! [`Conversation::unsaid`] tells who speaks how much isn't sent yet.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use prost::Message;
use smallvec::SmallVec;

use crate::calls::ask::{RESTED, begin_again, expired, reach};
use crate::clock::{Kind, Timer};
use crate::config::ClusterId;
use crate::config::route::RetryPolicy;
use crate::fault::Fault;
use crate::http1::buffers::LARGE_READ;
use crate::message::Protocol;
use crate::message::body::{Broken, OwnBody, RequestBody};
use crate::message::head::Head;
use crate::message::outgoing::{Extras, Outgoing};
use crate::upstream::{Lease, Upstreams, retry};

/// A message longer than this is none; the usual limit of gRPC.
const MAX_MESSAGE: usize = 4 << 20;
/// So much is read ahead of who listens.
const AHEAD: usize = 64 * 1024;
/// So much of what was said is kept for another attempt.
const KEPT: usize = 64 * 1024;
/// Length of what stands before a message: whether it is compressed, and how long it is.
const PREFIX: usize = 5;

/// How a conversation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The other side has said all that it wanted to.
    Complete,
    /// It has failed, or there was no way to it.
    Failed {
        /// The status of gRPC.
        code: u32,
        /// What is said about it.
        message: Box<str>,
    },
}

impl Ending {
    fn failed(code: u32, message: &str) -> Self {
        Self::Failed {
            code,
            message: message.into(),
        }
    }

    /// By HTTP's means alone.
    fn of_status(status: StatusCode, message: &str) -> Self {
        // gRPC documentation, "HTTP to gRPC Status Code Mapping".
        let code = match status.as_u16() {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => 14,
            _ => 2,
        };
        Self::failed(code, message)
    }

    fn of_fault(fault: Fault) -> Self {
        let verdict = fault.verdict();
        Self::of_status(verdict.status, verdict.body)
    }

    /// By what stands behind the messages; `None` where that says nothing.
    fn of_fields(fields: &HeaderMap) -> Option<Self> {
        let code = fields
            .get("grpc-status")?
            .to_str()
            .ok()
            .and_then(|code| code.parse().ok());
        let text = fields.get("grpc-message").and_then(|text| text.to_str().ok());
        Some(match code {
            Some(0) => Self::Complete,
            code => Self::failed(code.unwrap_or(2), text.unwrap_or_default()),
        })
    }
}

/// What both ends of a conversation share.
#[derive(Debug, Default)]
struct Line {
    /// What is to be said.
    outbox: RefCell<VecDeque<Bytes>>,
    /// What was said of it, while it may have to be said again.
    said: RefCell<Option<Vec<Bytes>>>,
    unsaid: Cell<usize>,
    /// Nothing more will be.
    is_closed: Cell<bool>,
    /// Nobody listens any more, and the other side has so long to end.
    leaves_within: Cell<Option<Duration>>,
    /// What was heard.
    inbox: RefCell<VecDeque<Bytes>>,
    heard: Cell<usize>,
    ended: RefCell<Option<Ending>>,
    /// Who speaks and listens.
    users: RefCell<SmallVec<[Waker; 2]>>,
    /// The connection, where it waits for something to be said.
    sender: RefCell<Option<Waker>>,
    /// The task.
    task: RefCell<Option<Waker>>,
}

impl Line {
    fn wake_users(&self) {
        for waker in self.users.take() {
            waker.wake();
        }
    }

    fn follow(&self, cx: &Context<'_>) {
        let mut users = self.users.borrow_mut();
        if !users.iter().any(|waker| waker.will_wake(cx.waker())) {
            users.push(cx.waker().clone());
        }
    }

    fn wake_sender(&self) {
        if let Some(waker) = self.sender.take() {
            waker.wake();
        }
    }

    fn wake_task(&self) {
        if let Some(waker) = self.task.take() {
            waker.wake();
        }
    }

    /// Keeps what is said now, as long as that isn't much.
    fn keep(&self, piece: &Bytes) {
        let mut said = self.said.borrow_mut();
        if let Some(pieces) = &mut *said {
            let before: usize = pieces.iter().map(Bytes::len).sum();
            match before + piece.len() <= KEPT {
                true => pieces.push(piece.clone()),
                false => *said = None,
            }
        }
    }

    /// All is to be said again; false when that can't be.
    fn rewind(&self) -> bool {
        let Some(pieces) = self.said.borrow_mut().as_mut().map(std::mem::take) else {
            return false;
        };
        let mut outbox = self.outbox.borrow_mut();
        for piece in pieces.into_iter().rev() {
            self.unsaid.set(self.unsaid.get() + piece.len());
            outbox.push_front(piece);
        }
        true
    }

    fn hear(&self, message: Bytes) {
        // Nobody will take it.
        if self.leaves_within.get().is_some() {
            return;
        }
        self.heard.set(self.heard.get() + message.len());
        self.inbox.borrow_mut().push_back(message);
        self.wake_users();
    }
}

/// What is said, as the body of the request.
#[derive(Debug)]
struct Outbox(Rc<Line>);

impl OwnBody for Outbox {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let line = &self.0;
        let next = line.outbox.borrow_mut().pop_front();
        if let Some(piece) = next {
            line.keep(&piece);
            line.unsaid.set(line.unsaid.get() - piece.len());
            line.wake_users();
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if line.is_closed.get() {
            return Poll::Ready(None);
        }
        *line.sender.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed.get() && self.0.outbox.borrow().is_empty()
    }
}

/// What is called.
pub(crate) struct Call {
    pub(crate) cluster: ClusterId,
    /// Made by [`crate::calls::grpc::head`].
    pub(crate) head: Head,
    /// When it is called again, before it has begun to answer.
    pub(crate) retry: Option<Arc<RetryPolicy>>,
}

/// A call with messages in both directions.
#[derive(Debug)]
pub(crate) struct Conversation {
    line: Rc<Line>,
    /// How long the other side has for its end, once this side is dropped.
    pub(crate) patience: Duration,
}

impl Conversation {
    /// Begins one.
    pub(crate) fn begin(upstreams: &Rc<Upstreams>, call: Call, patience: Duration) -> Self {
        let line = Rc::<Line>::default();
        let (upstreams, shared) = (Rc::clone(upstreams), Rc::clone(&line));
        tokio::task::spawn_local(async move {
            let ending = converse(&upstreams, call, &shared).await;
            *shared.ended.borrow_mut() = Some(ending);
            shared.outbox.borrow_mut().clear();
            shared.unsaid.set(0);
            shared.wake_users();
        });
        Self { line, patience }
    }

    /// Says a message.
    pub(crate) fn say(&self, message: &impl Message) {
        self.say_encoded(&message.encode_to_vec());
    }

    /// Says a message that is encoded already.
    pub(crate) fn say_encoded(&self, message: &[u8]) {
        if self.line.ended.borrow().is_some() {
            return;
        }
        let length = message.len();
        let mut piece = BytesMut::with_capacity(PREFIX + length);
        piece.put_u8(0);
        piece.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        piece.extend_from_slice(message);
        self.line.unsaid.set(self.line.unsaid.get() + piece.len());
        self.line.outbox.borrow_mut().push_back(piece.freeze());
        self.line.wake_sender();
    }

    /// The next message, or how it ended. Everybody who has asked is woken when there may be something.
    pub(crate) fn poll_heard(&self, cx: &Context<'_>) -> Poll<Result<Bytes, Ending>> {
        let next = self.line.inbox.borrow_mut().pop_front();
        if let Some(message) = next {
            self.line.heard.set(self.line.heard.get() - message.len());
            self.line.wake_task();
            return Poll::Ready(Ok(message));
        }
        if let Some(ending) = &*self.line.ended.borrow() {
            return Poll::Ready(Err(ending.clone()));
        }
        self.line.follow(cx);
        Poll::Pending
    }

    /// How much was said and isn't sent; who asks is woken when it becomes less.
    pub(crate) fn unsaid(&self, cx: &Context<'_>) -> usize {
        self.line.follow(cx);
        self.line.unsaid.get()
    }

    /// Wakes everybody who has asked: what they ask about has changed elsewhere.
    pub(crate) fn wake_all(&self) {
        self.line.wake_users();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.line.is_closed.set(true);
        self.line.leaves_within.set(Some(self.patience));
        self.line.wake_sender();
        self.line.wake_task();
    }
}

/// Holds a conversation to its end.
async fn converse(upstreams: &Rc<Upstreams>, call: Call, line: &Rc<Line>) -> Ending {
    let leaving = upstreams.worker.clock.timer();
    let mut talk = pin!(persist(upstreams, &call, line));
    poll_fn(|cx| {
        if let Poll::Ready(ending) = talk.as_mut().poll(cx) {
            return Poll::Ready(ending);
        }
        *line.task.borrow_mut() = Some(cx.waker().clone());
        if let Some(patience) = line.leaves_within.get()
            && !leaving.is_set(Kind::Drain)
        {
            leaving.set(Kind::Drain, upstreams.worker.clock.now(), Some(patience));
        }
        leaving.poll_expired(cx).map(|_| Ending::Complete)
    })
    .await
}

/// What came of an attempt.
struct Outcome {
    ending: Ending,
    /// Another may be made.
    again: bool,
}

impl Outcome {
    fn last(ending: Ending) -> Self {
        Self { ending, again: false }
    }

    fn of_fault(fault: Fault, policy: Option<&RetryPolicy>) -> Self {
        Self {
            ending: Ending::of_fault(fault),
            again: policy.is_some_and(|policy| retry::wants_fault(policy, fault)),
        }
    }
}

/// Talks, and begins again where the policy wants it.
async fn persist(upstreams: &Rc<Upstreams>, call: &Call, line: &Rc<Line>) -> Ending {
    let policy = call.retry.as_deref();
    *line.said.borrow_mut() = policy.map(|_| Vec::new());
    let mut attempt = 1;
    let mut retrying = None;
    loop {
        let outcome = talk(upstreams, call, line).await;
        drop(retrying.take());
        let Some(policy) = policy.filter(|policy| outcome.again && attempt <= policy.max_retries) else {
            return outcome.ending;
        };
        let snapshot = upstreams.worker.snapshot();
        let Some(entry) = snapshot.cluster(call.cluster) else {
            return outcome.ending;
        };
        if !line.rewind() {
            return outcome.ending;
        }
        retrying = begin_again(upstreams, entry);
        if retrying.is_none() {
            return outcome.ending;
        }
        tokio::time::sleep(retry::pause(policy, attempt, &upstreams.worker.random)).await;
        attempt += 1;
    }
}

async fn talk(upstreams: &Rc<Upstreams>, call: &Call, line: &Rc<Line>) -> Outcome {
    let policy = call.retry.as_deref();
    let snapshot = upstreams.worker.snapshot();
    let authority = call.head.authority_text();
    // The cluster bounds how long a connection may take, and a policy how long an attempt.
    let timer: Timer = upstreams.worker.clock.timer();
    let limit = policy.and_then(|policy| policy.per_try_timeout);
    timer.set(Kind::PerTry, upstreams.worker.clock.now(), limit);
    let whom = (call.cluster, authority, Protocol::Http2);
    let reached = reach(upstreams, &snapshot, whom, RESTED, &timer).await;
    drop(snapshot);
    let (mut lease, guard) = match reached {
        Ok(reached) => reached,
        Err(fault) => return Outcome::of_fault(fault, policy),
    };
    let outgoing = Outgoing {
        head: Box::new(call.head.clone()),
        body: RequestBody::Own(Box::new(Outbox(Rc::clone(line)))),
        extras: Extras {
            upgrade: None,
            te_trailers: true,
        },
    };
    let sent = lease
        .send(outgoing, &upstreams.worker, || LARGE_READ, |cx| expired(&timer, cx))
        .await;
    let response = match sent {
        Ok(response) => response,
        Err(failure) => return Outcome::of_fault(failure.fault, policy),
    };
    let again = policy.is_some_and(|policy| {
        let (status, fields) = (response.status(), response.headers());
        retry::wants_response(policy, status, fields)
    });
    if let Some(ending) = Ending::of_fields(response.headers()) {
        return Outcome { ending, again };
    }
    if response.status() != StatusCode::OK {
        let ending = Ending::of_status(response.status(), "");
        return Outcome { ending, again };
    }
    line.said.borrow_mut().take();
    let ending = listen(&mut lease, line).await;
    drop((lease, guard));
    Outcome::last(ending)
}

/// Takes in what the other side says.
async fn listen(lease: &mut Lease, line: &Line) -> Ending {
    let mut read = BytesMut::new();
    loop {
        let frame = poll_fn(|cx| {
            // Whoever takes something wakes the task.
            if line.heard.get() >= AHEAD && line.leaves_within.get().is_none() {
                return Poll::Pending;
            }
            lease.poll_frame(cx)
        });
        let frame = match frame.await {
            // gRPC's "unknown": nothing is said of how it went.
            None => return Ending::failed(2, ""),
            // gRPC's "internal".
            Some(Err(_)) => return Ending::failed(13, ""),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(data) => read.extend_from_slice(&data),
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return Ending::of_fields(&trailers).unwrap_or(Ending::failed(2, ""));
            }
        }
        loop {
            match message(&mut read) {
                Ok(Some(message)) => line.hear(message),
                Ok(None) => break,
                Err(Malformed) => return Ending::failed(13, ""),
            }
        }
    }
}

/// What is no message: it is compressed without our leave, or too long.
#[derive(Debug, PartialEq, Eq)]
struct Malformed;

/// Takes a message out of what was read, once it is there.
fn message(read: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let Some((prefix, rest)) = read.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let [flag, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    if flag != 0 || length > MAX_MESSAGE {
        return Err(Malformed);
    }
    if rest.len() < length {
        return Ok(None);
    }
    read.advance(PREFIX);
    Ok(Some(read.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn messages_come_out_as_they_are_complete() {
        let mut read = BytesMut::new();
        assert_eq!(message(&mut read), Ok(None));
        read.extend_from_slice(b"\0\0\0\0\x03ab");
        assert_eq!(message(&mut read), Ok(None));
        read.extend_from_slice(b"c\0\0\0\0\0\0");
        assert_eq!(message(&mut read), Ok(Some(Bytes::from_static(b"abc"))));
        assert_eq!(message(&mut read), Ok(Some(Bytes::new())));
        assert_eq!(message(&mut read), Ok(None));
        for bad in [b"\x01\0\0\0\0", b"\0\xff\0\0\0"] {
            assert_eq!(message(&mut BytesMut::from(&bad[..])), Err(Malformed));
        }
    }

    #[test]
    fn what_was_said_is_said_again_unless_it_is_too_much() {
        let line = Line::default();
        *line.said.borrow_mut() = Some(Vec::new());
        line.outbox.borrow_mut().push_back(Bytes::from_static(b"c"));
        line.unsaid.set(1);
        for piece in ["a", "b"] {
            line.keep(&Bytes::from_static(piece.as_bytes()));
        }
        assert!(line.rewind());
        let waiting: Vec<Bytes> = line.outbox.borrow().iter().cloned().collect();
        assert_eq!((line.unsaid.get(), waiting.concat()), (3, b"abc".to_vec()));
        line.keep(&Bytes::from(vec![0; KEPT]));
        assert!(line.said.borrow().is_some());
        line.keep(&Bytes::from_static(b"d"));
        assert!(!line.rewind() && line.said.borrow().is_none());
    }

    #[test]
    fn trailers_say_how_it_went() {
        let ending = |code: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert("grpc-status", HeaderValue::from_static(code));
            fields.insert("grpc-message", HeaderValue::from_static("why"));
            Ending::of_fields(&fields)
        };
        assert_eq!(Ending::of_fields(&HeaderMap::new()), None);
        assert_eq!(ending("0"), Some(Ending::Complete));
        assert_eq!(ending("14"), Some(Ending::failed(14, "why")));
        assert_eq!(ending("x"), Some(Ending::failed(2, "why")));
        assert_eq!(
            Ending::of_fault(Fault::NoHealthyUpstream),
            Ending::failed(14, "no healthy upstream")
        );
    }
}
