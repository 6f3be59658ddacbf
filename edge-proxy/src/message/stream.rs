//! What comes behind the head of a message in HTTP/2.

use std::task::{Context, Poll, ready};

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
}

impl StreamBody {
    /// A body of so many bytes, if that is known.
    pub(crate) fn new(stream: RecvStream, length: Option<u64>) -> Self {
        Self {
            stream,
            left: length,
            content_read: false,
        }
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.content_read {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => {
                    // Whoever reads it has room for it. An error is the stream's, and comes with the next read.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.content_read = true,
            }
        }
        let trailers = ready!(self.stream.poll_trailers(cx));
        Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
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
