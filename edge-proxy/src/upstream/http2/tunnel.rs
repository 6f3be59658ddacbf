//! A stream of HTTP/2 to a backend as a byte stream: what follows a CONNECT that it has granted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::SendStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http2::poll_window;
use crate::message::stream::StreamBody;
use crate::upstream::http2::Http2Stream;

/// The most that is copied for one write.
const WRITE: usize = 16 * 1024;

/// Both directions of a stream. Dropped before both have ended, it is reset.
#[derive(Debug)]
pub(crate) struct Http2Tunnel {
    sending: SendStream<Bytes>,
    receiving: StreamBody,
    read: Bytes,
    /// Last, so that the place is free when the stream has ended.
    _place: Http2Stream,
}

impl Http2Tunnel {
    pub(super) fn new(sending: SendStream<Bytes>, receiving: StreamBody, place: Http2Stream) -> Self {
        Self {
            sending,
            receiving,
            read: Bytes::new(),
            _place: place,
        }
    }
}

impl AsyncRead for Http2Tunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.read.is_empty() {
            match ready!(self.receiving.poll_frame(cx)) {
                Some(Ok(frame)) => self.read = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..count]);
        self.read.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Tunnel {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wanted = buf.len().min(WRITE);
        let window = ready!(poll_window(&mut self.sending, wanted, cx));
        let count = window.ok_or(io::ErrorKind::BrokenPipe)?.min(wanted);
        let content = Bytes::copy_from_slice(&buf[..count]);
        let sent = self.sending.send_data(content, false);
        Poll::Ready(sent.map(|()| count).map_err(io::Error::other))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.sending.send_data(Bytes::new(), true);
        Poll::Ready(ended.map_err(io::Error::other))
    }
}
