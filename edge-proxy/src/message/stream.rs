//! What comes behind the head of a message in HTTP/2.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Frame, SizeHint};

/// The body of a message. One that its sender resets is an error, whatever the reason: it must not look complete.
#[derive(Debug)]
pub(crate) struct StreamBody {
    stream: RecvStream,
    /// What is still to come, if the sender said so; the codec holds it to that.
    left: Option<u64>,
    content_read: bool,
    expectation: Option<Rc<Expectation>>,
}

/// Content that its sender holds back until it is told to go on (RFC 9110 §10.1.1).
#[derive(Debug, Default)]
pub(crate) struct Expectation {
    is_wanted: Cell<bool>,
    /// Who tells it.
    waiter: RefCell<Option<Waker>>,
}

impl Expectation {
    /// Ready, once, when somebody waits for the content.
    pub(crate) fn poll_wanted(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_wanted.take() {
            return Poll::Ready(());
        }
        *self.waiter.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    fn want(&self) {
        self.is_wanted.set(true);
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

impl StreamBody {
    /// A body of so many bytes, if that is known.
    pub(crate) fn new(stream: RecvStream, length: Option<u64>) -> Self {
        Self {
            stream,
            left: length,
            content_read: false,
            expectation: None,
        }
    }

    /// The sender holds the content back; who gets this is to tell it.
    pub(crate) fn hold_back(&mut self) -> Rc<Expectation> {
        Rc::clone(self.expectation.get_or_insert_default())
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.content_read {
            let Poll::Ready(data) = self.stream.poll_data(cx) else {
                if let Some(expectation) = self.expectation.take() {
                    expectation.want();
                }
                return Poll::Pending;
            };
            match data {
                Some(Ok(data)) => {
                    // It didn't wait.
                    self.expectation = None;
                    // Whoever reads it has room for it. An error is the stream's, and comes with the next read.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.content_read = true,
            }
        }
        let trailers = self.stream.poll_trailers(cx);
        trailers.map(|trailers| trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
    }

    /// True when nothing more comes.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    /// How much is still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
