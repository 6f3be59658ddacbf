//! The byte stream of a client connection as the codec of HTTP/2 sees it.
//!
//! Replays the bytes that were read to find out the protocol, then reads on, as long as the client sends no flood
//! of frames that move nothing ([`Frames`]). However much there is, a turn of the task reads only so much of it, so
//! that others have theirs. When HTTP/2 lets go of it, the transport goes back to the connection, which closes it in
//! good order.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::downstream::frames::{Flow, Frames};
use crate::transport::Transport;

/// What a turn reads, in bytes. The codec reads as long as there is something, and handles all that it has read.
const TURN: usize = 64 * 1024;

/// A client's byte stream.
#[derive(Debug)]
pub(crate) struct ClientIo {
    /// Taken out by `drop` alone.
    transport: Option<Transport>,
    replay: Bytes,
    connection: Rc<Connection>,
    frames: Frames,
    flow: Flow,
    /// What was read since the last turn ended.
    read: usize,
}

impl ClientIo {
    /// `replay` comes before what the transport still holds.
    pub(crate) fn new(transport: Transport, replay: Bytes, connection: Rc<Connection>) -> Self {
        Self {
            transport: Some(transport),
            replay,
            frames: Frames::new(connection.worker.clock.now()),
            flow: Flow::Fair,
            read: 0,
            connection,
        }
    }

    /// Whether the client floods the connection. Nothing more of it is read then, and nobody is woken.
    pub(super) fn flow(&self) -> Flow {
        self.flow
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
        if this.flow == Flow::Flood {
            return Poll::Pending;
        }
        if this.read >= TURN {
            this.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        if this.replay.is_empty() {
            match this.transport()?.poll_read(cx, buf) {
                Poll::Ready(read) => read?,
                Poll::Pending => {
                    this.read = 0;
                    return Poll::Pending;
                }
            }
        } else {
            let n = this.replay.len().min(buf.remaining());
            buf.put_slice(&this.replay[..n]);
            this.replay.advance(n);
        }
        let came = &buf.filled()[before..];
        this.read += came.len();
        let connection = &this.connection;
        let sent = || connection.budget().frames();
        this.flow = this.frames.look(came, || connection.worker.clock.now(), sent);
        if this.flow == Flow::Flood {
            buf.set_filled(before);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
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
