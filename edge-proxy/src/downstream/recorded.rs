//! A client's connection while its client hello is read.
//!
//! Remembers the bytes that were read, because a connection whose TLS stays closed must reach its backend whole.
//! Deliberately absent: peeking (`MSG_PEEK`), which would have to spin while only part of the hello has arrived.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection and what was read of it.
#[derive(Debug)]
pub(super) struct Recorded {
    stream: TcpStream,
    seen: BytesMut,
}

impl Recorded {
    /// Nothing was read yet.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            seen: BytesMut::new(),
        }
    }

    /// The connection alone, for whoever has read the hello.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The connection, and what comes before the bytes that it still holds.
    pub(super) fn into_parts(self) -> (TcpStream, Bytes) {
        (self.stream, self.seen.freeze())
    }
}

impl AsyncRead for Recorded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.seen.extend_from_slice(&buf.filled()[before..]);
        polled
    }
}

/// A hello that can't be understood is answered with an alert.
impl AsyncWrite for Recorded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
