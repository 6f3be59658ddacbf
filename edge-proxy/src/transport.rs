//! Byte streams: what HTTP runs on, on both sides.
//!
//! One enum instead of boxed trait objects, so that the compiler builds the HTTP stack once.
//! Deliberately absent: QUIC, and any buffering.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A connected byte stream.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Cleartext TCP.
    Tcp(TcpStream),
    /// A Unix domain socket.
    Unix(UnixStream),
    /// TLS of a client, over TCP.
    ServerTls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
    /// TLS to a backend.
    ClientTls(Box<tokio_rustls::client::TlsStream<Box<Transport>>>),
}

macro_rules! each {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Tcp($io) => $call,
            Transport::Unix($io) => $call,
            Transport::ServerTls($io) => $call,
            Transport::ClientTls($io) => $call,
        }
    };
}

impl Transport {
    /// Ready when a read is worth the attempt. Costs no system call; only sockets know, TLS must be read to see.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::ServerTls(_) | Self::ClientTls(_) => Poll::Ready(Ok(())),
        }
    }

    /// Our end of it, where it has an address.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok(),
            Self::Unix(_) => None,
            Self::ServerTls(stream) => stream.get_ref().0.local_addr().ok(),
            Self::ClientTls(stream) => stream.get_ref().0.local(),
        }
    }

    /// Has the connection end as one that broke when it is dropped (RFC 9293 §3.6): whoever takes the end of a stream
    /// for the end of a message must not take what came for all of it. What waits to be sent is dropped with it.
    pub(crate) fn break_off(&self) {
        match self {
            Self::Tcp(stream) => break_off(stream),
            Self::ServerTls(stream) => break_off(stream.get_ref().0),
            Self::ClientTls(stream) => stream.get_ref().0.break_off(),
            // Has no such end.
            Self::Unix(_) => {}
        }
    }

    /// True when what was written may still wait for a flush.
    pub(crate) fn holds_back(&self) -> bool {
        matches!(self, Self::ServerTls(_) | Self::ClientTls(_))
    }
}

fn break_off(stream: &TcpStream) {
    // A connection that is gone already can't be told, and needn't.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(io) => io.is_write_vectored(),
            Self::Unix(io) => io.is_write_vectored(),
            Self::ServerTls(io) => io.is_write_vectored(),
            Self::ClientTls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}
