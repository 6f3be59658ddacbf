//! The byte stream of a client connection as the codec of HTTP/2 sees it.
//!
//! What: replays the bytes that were read to find out the protocol, then reads on. When HTTP/2 lets go of it, the
//! transport goes back to the connection, which closes it in good order.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::transport::Transport;

/// A client's byte stream.
#[derive(Debug)]
pub(crate) struct ClientIo {
    /// Taken out by `drop` alone.
    transport: Option<Transport>,
    replay: Bytes,
    connection: Rc<Connection>,
}

impl ClientIo {
    /// `replay` comes before what the transport still holds.
    pub(crate) fn new(transport: Transport, replay: Bytes, connection: Rc<Connection>) -> Self {
        Self {
            transport: Some(transport),
            replay,
            connection,
        }
    }

    fn transport(&mut self) -> io::Result<Pin<&mut Transport>> {
        self.transport
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for ClientIo {
    fn drop(&mut self) {
        *self.connection.leftover.borrow_mut() = self.transport.take();
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.replay.is_empty() {
            let n = this.replay.len().min(buf.remaining());
            buf.put_slice(&this.replay[..n]);
            this.replay.advance(n);
            return Poll::Ready(Ok(()));
        }
        this.transport()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.transport()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport()?.poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport
            .as_ref()
            .is_some_and(tokio::io::AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport()?.poll_shutdown(cx)
    }
}
