//! A stream of HTTP/2 as a byte stream, for what is spoken behind an extended CONNECT (RFC 8441).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::budget::{Counted, Share};
use crate::http2::poll_window;

/// The most that is copied for one write.
const WRITE: usize = 16 * 1024;

/// Both directions of a stream.
#[derive(Debug)]
pub(super) struct Bidirectional {
    receive: RecvStream,
    send: SendStream<Counted>,
    share: Rc<Share>,
    read: Bytes,
}

impl Bidirectional {
    /// A stream whose response has said that it is a tunnel.
    pub(super) fn new(receive: RecvStream, send: SendStream<Counted>, share: Rc<Share>) -> Self {
        Self {
            receive,
            send,
            share,
            read: Bytes::new(),
        }
    }

    /// Breaks the stream off behind what is on its way, for which the client has so much time. (Nothing happens to a
    /// stream that the client has closed.)
    pub(super) async fn break_off(&mut self, reason: Reason, patience: Duration) {
        let sent = poll_fn(|cx| {
            if self.share.queued() == 0 || self.send.poll_reset(cx).is_ready() {
                return Poll::Ready(());
            }
            self.share.wait_until_written(cx);
            Poll::Pending
        });
        let _ = tokio::time::timeout(patience, sent).await;
        self.send.send_reset(reason);
    }
}

impl Drop for Bidirectional {
    fn drop(&mut self) {
        self.share.leave();
    }
}

impl AsyncRead for Bidirectional {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.read.is_empty() {
            match ready!(self.receive.poll_data(cx)) {
                Some(data) => self.read = data.map_err(io::Error::other)?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read[..count]);
        self.read.advance(count);
        let released = self.receive.flow_control().release_capacity(count);
        Poll::Ready(released.map_err(io::Error::other))
    }
}

impl AsyncWrite for Bidirectional {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let wanted = buf.len().min(WRITE);
        let window = ready!(poll_window(&mut self.send, wanted, cx));
        let count = window.ok_or(io::ErrorKind::BrokenPipe)?.min(wanted);
        ready!(self.share.poll_room(cx));
        self.share.hold(count);
        let content = self.share.queue(Bytes::copy_from_slice(&buf[..count]));
        self.send.send_data(content, false).map_err(io::Error::other)?;
        self.share.pass_on();
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.send.send_data(Counted::nothing(), true);
        Poll::Ready(ended.map_err(io::Error::other))
    }
}
