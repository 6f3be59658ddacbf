//! A request body that is read more than once: by a retry, or by a mirror.
//!
//! Frames are kept as they arrive, up to the buffer limit. The first reader pulls from the client; the others
//! follow. Past the limit nothing is kept any more: the first reader goes on, and whoever would need the beginning
//! again can't have it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::message::body::{Arrival, Broken};
use crate::message::incoming::Incoming;

/// What a piece costs besides its bytes: tiny ones must not hold far more memory than the limit says.
const PIECE: usize = 64;

#[derive(Debug)]
struct Kept {
    incoming: Incoming,
    arrival: Arrival,
    /// Of the whole body, where the client told it: what has arrived of it says nothing of what a reading will give.
    length: Option<u64>,
    chunks: Vec<Bytes>,
    /// What the pieces cost, which is more than their bytes.
    cost: usize,
    limit: usize,
    trailers: Option<HeaderMap>,
    ended: bool,
    broken: bool,
    overflown: bool,
    followers: Vec<Waker>,
}

/// A body that can be read several times.
#[derive(Clone, Debug)]
pub(crate) struct SharedBody(Rc<RefCell<Kept>>);

/// One reading of a [`SharedBody`].
#[derive(Debug)]
pub(crate) struct Reader {
    body: SharedBody,
    next: usize,
    pulls: Pull,
    trailers_read: bool,
}

/// Whether a reader takes from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pull {
    /// It does.
    Client,
    /// It waits for what another one takes.
    Kept,
}

impl SharedBody {
    /// Keeps up to `limit` bytes.
    pub(crate) fn new(incoming: Incoming, arrival: Arrival, limit: usize) -> Self {
        Self(Rc::new(RefCell::new(Kept {
            length: incoming.size_hint().exact(),
            incoming,
            arrival,
            chunks: Vec::new(),
            cost: 0,
            limit,
            trailers: None,
            ended: false,
            broken: false,
            overflown: false,
            followers: Vec::new(),
        })))
    }

    /// A reading from the beginning.
    pub(crate) fn reader(&self, pulls: Pull) -> Reader {
        Reader {
            body: self.clone(),
            next: 0,
            pulls,
            trailers_read: false,
        }
    }

    /// True while a new reading would see everything.
    pub(crate) fn is_replayable(&self) -> bool {
        let kept = self.0.borrow();
        !kept.overflown && !kept.broken
    }
}

impl Reader {
    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let mut kept = self.body.0.borrow_mut();
        loop {
            if let Some(chunk) = kept.chunks.get(self.next) {
                self.next += 1;
                return Poll::Ready(Some(Ok(Frame::data(chunk.clone()))));
            }
            if kept.overflown && self.pulls == Pull::Kept {
                return Poll::Ready(Some(Err(Broken::TooLarge)));
            }
            if kept.ended {
                let trailers = kept.trailers.clone().filter(|_| !self.trailers_read);
                self.trailers_read = true;
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            }
            if self.pulls == Pull::Kept {
                kept.follow(cx);
                return Poll::Pending;
            }
            let Poll::Ready(frame) = Pin::new(&mut kept.incoming).poll_frame(cx) else {
                // An attempt that was given up may still hold a reader for a moment and take the wake-up with it.
                kept.follow(cx);
                return Poll::Pending;
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Some(chunk) = kept.take(frame) {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                }
                Some(Err(error)) => {
                    kept.broken = true;
                    kept.overflow();
                    return Poll::Ready(Some(Err(error)));
                }
                None => kept.end(),
            }
        }
    }

    /// True when there is nothing more to read.
    pub(crate) fn is_end_stream(&self) -> bool {
        let kept = self.body.0.borrow();
        kept.ended && self.next >= kept.chunks.len() && (self.trailers_read || kept.trailers.is_none())
    }

    /// The length of the whole body, if the client told it.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.body.0.borrow().length {
            Some(length) if self.next == 0 => SizeHint::with_exact(length),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Ok(mut kept) = self.body.0.try_borrow_mut() {
            kept.wake();
        }
    }
}

impl Kept {
    /// Keeps a frame. What can't be kept is returned and passes the first reader only.
    fn take(&mut self, frame: Frame<Bytes>) -> Option<Bytes> {
        self.arrival.took(&frame);
        let passed = match frame.into_data() {
            Ok(chunk) => {
                self.cost += chunk.len() + PIECE;
                if self.cost > self.limit {
                    self.overflow();
                }
                if self.overflown {
                    Some(chunk)
                } else {
                    self.chunks.push(chunk);
                    None
                }
            }
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                None
            }
        };
        if self.incoming.is_end_stream() {
            self.end();
        } else {
            self.arrival.moved();
        }
        self.wake();
        passed
    }

    fn overflow(&mut self) {
        self.overflown = true;
        // The first reader has read them all.
        self.chunks = Vec::new();
        self.wake();
    }

    fn end(&mut self) {
        self.ended = true;
        self.arrival.finish();
        self.wake();
    }

    fn follow(&mut self, cx: &Context<'_>) {
        self.followers.retain(|waker| !waker.will_wake(cx.waker()));
        self.followers.push(cx.waker().clone());
    }

    fn wake(&mut self) {
        for waker in self.followers.drain(..) {
            waker.wake();
        }
    }
}
