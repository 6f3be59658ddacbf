//! The byte stream of a client connection as HTTP sees it.
//!
//! What: replays the bytes that were read to find out the protocol, then reads on, and tells the connection when bytes
//! arrive (so that a head that never ends meets its deadline).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::downstream::connection::Connection;
use crate::transport::Transport;

/// A client's byte stream.
#[derive(Debug)]
pub(crate) struct ClientIo {
    transport: Transport,
    replay: Bytes,
    connection: Rc<Connection>,
}

impl ClientIo {
    /// `replay` comes before what the transport still holds.
    pub(crate) fn new(transport: Transport, replay: Bytes, connection: Rc<Connection>) -> Self {
        Self {
            transport,
            replay,
            connection,
        }
    }

    /// The transport; nothing is left to replay once HTTP has read.
    pub(crate) fn into_transport(self) -> Transport {
        self.transport
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.replay.is_empty() {
            let n = this.replay.len().min(buf.remaining());
            buf.put_slice(&this.replay[..n]);
            this.replay.advance(n);
            this.connection.bytes_arrived();
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut this.transport).poll_read(cx, buf);
        if polled.is_ready() && !buf.filled().is_empty() {
            this.connection.bytes_arrived();
        }
        polled
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
