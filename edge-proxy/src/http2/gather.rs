//! What HTTP/2 writes in one turn of its task goes to the socket at once.
//!
//! The `h2` crate passes each DATA frame on by itself, so that ten answers would be ten system calls. Here they
//! are gathered until the task that polls the codec has ended its turn ([`Gathered::at_once`]). What is large isn't
//! copied: it goes to the socket together with what was gathered before it.
//! The codec takes gathered bytes for sent; they are bounded, like those in the socket's own buffer.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most that is gathered: a frame of the usual size.
const MOST: usize = 16 * 1024;
/// Pieces that a write of the codec has: a head and the content of a frame.
const PIECES: usize = 4;

/// A byte stream that gathers what is written. Its copies are the same stream: one is the codec's, one the task's.
pub(crate) struct Gathered<T>(Rc<RefCell<Stream<T>>>);

struct Stream<T> {
    io: T,
    /// Gathered and not sent yet. Has no memory while there is nothing.
    waiting: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
}

impl<T> Clone for Gathered<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Gathered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}

impl<T: AsyncWrite + Unpin> Gathered<T> {
    /// Nothing gathered yet.
    pub(crate) fn new(io: T) -> Self {
        Self(Rc::new(RefCell::new(Stream {
            io,
            waiting: Vec::new(),
            sent: 0,
        })))
    }

    /// Looks at the stream.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.borrow().io)
    }

    /// Polls what drives the codec, and then sends what that has written in this turn.
    pub(crate) async fn at_once<R>(&self, mut turn: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
        poll_fn(|cx| {
            let result = turn(cx);
            self.send(cx);
            result
        })
        .await
    }

    /// Sends what was gathered, as far as the socket takes it; the task is woken when it takes more. An error comes up
    /// with the codec's next read or write.
    fn send(&self, cx: &mut Context<'_>) {
        let stream = &mut *self.0.borrow_mut();
        if stream.holds() {
            let _ = stream.poll_send(cx);
        }
    }
}

impl<T: AsyncWrite + Unpin> Stream<T> {
    fn holds(&self) -> bool {
        self.sent < self.waiting.len()
    }

    /// Ready when nothing is left.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.holds() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &self.waiting[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.took(count),
            }
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// So much of what was gathered is sent.
    fn took(&mut self, count: usize) {
        self.sent += count;
        if !self.holds() {
            self.waiting = Vec::new();
            self.sent = 0;
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let more: usize = pieces.iter().map(|piece| piece.len()).sum();
            let held = self.waiting.len() - self.sent;
            if held + more <= MOST {
                self.gather(pieces, more);
                return Poll::Ready(Ok(more));
            }
            let count = ready!(self.poll_write_both(cx, pieces))?;
            if count == 0 || count > held {
                self.took(held);
                return Poll::Ready(Ok(count.saturating_sub(held)));
            }
            self.took(count);
        }
    }

    /// What was gathered, and these.
    fn poll_write_both(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut all: SmallVec<[IoSlice<'_>; PIECES]> = SmallVec::new();
        if self.holds() {
            all.push(IoSlice::new(&self.waiting[self.sent..]));
        }
        all.extend(pieces.iter().copied());
        Pin::new(&mut self.io).poll_write_vectored(cx, &all)
    }

    fn gather(&mut self, pieces: &[IoSlice<'_>], more: usize) {
        self.waiting.drain(..self.sent);
        self.sent = 0;
        let room = self.waiting.capacity() - self.waiting.len();
        if room < more {
            // One answer takes what it needs, several take all that there may be.
            self.waiting.reserve_exact(match self.waiting.len() {
                0 => more,
                held => MOST - held,
            });
        }
        for piece in pieces {
            self.waiting.extend_from_slice(piece);
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gathered<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gathered<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The codec flushes after each frame; its task sends at the end of its turn.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = &mut *self.0.borrow_mut();
        ready!(stream.poll_send(cx))?;
        Pin::new(&mut stream.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
