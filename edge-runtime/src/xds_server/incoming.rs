//! Accepting connections: TCP, then TLS with the certificates of the moment.
//!
//! Handshakes and connections are bounded. A handshake takes milliseconds, so of too many at a time the oldest is most
//! likely one that says nothing, and it goes; nobody else waits for it. Of too many connections the oldest goes that
//! hasn't shown whose it is ([`super::introduction`]); if all have, the new one.

use super::introduction::{Introduction, Newcomer, Newcomers, PATIENCE};
use crate::{certs::ServerTls, http::pause_after};
use futures_util::{Stream, stream};
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinSet},
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::{
    CertificateDer, Server,
    server::{Connected, TcpConnectInfo, TlsConnectInfo},
};

/// Handshakes at a time.
const MAX_HANDSHAKES: usize = 128;
/// Connections at a time, those in their handshake included. One proxy has one.
const MAX_CONNECTIONS: usize = 4096;
/// So many places are kept free by closing connections that have shown nothing: one that comes must not wait until
/// another is gone.
const RESERVE: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server with such connections is made of, but for what it serves. Peers that have gone unseen are noticed in
/// less than a minute.
pub(super) fn server(streams_of_connection: u32) -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .max_concurrent_streams(streams_of_connection)
}

struct Incoming {
    listener: TcpListener,
    tls: ServerTls,
    handshakes: JoinSet<io::Result<Connection>>,
    /// The same, the oldest first; some may be done.
    order: VecDeque<AbortHandle>,
    newcomers: Newcomers,
    places: Arc<Semaphore>,
}

/// A connection whose handshake is done, and its place among those that there may be.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    newcomer: Newcomer,
    _place: OwnedSemaphorePermit,
}

/// What the requests of a connection know of it.
#[derive(Clone)]
pub(super) struct ConnectInfo {
    tls: TlsConnectInfo<TcpConnectInfo>,
    introduction: Introduction,
}

impl ConnectInfo {
    /// The certificate that the other end showed, if it did.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.tls.peer_certs().and_then(|chain| chain.first().cloned())
    }

    /// Where to say that the other end has shown whose it is.
    pub(super) fn introduction(&self) -> &Introduction {
        &self.introduction
    }
}

/// Connections whose handshake is done. One that fails concerns nobody else and is logged.
pub(super) fn connections(listener: TcpListener, tls: ServerTls) -> impl Stream<Item = io::Result<Connection>> {
    stream::unfold(
        Incoming {
            listener,
            tls,
            handshakes: JoinSet::new(),
            order: VecDeque::new(),
            newcomers: Newcomers::new(PATIENCE),
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        },
        |mut incoming| async {
            let connection = incoming.next().await;
            Some((Ok(connection), incoming))
        },
    )
}

impl Incoming {
    async fn next(&mut self) -> Connection {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((socket, _)) => self.shake_hands(socket),
                    Err(error) => pause_after(&error).await,
                },
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(error)) => tracing::warn!(%error, "a connection failed in its TLS handshake"),
                    Err(error) if error.is_cancelled() => {
                        tracing::warn!("too many connections are in their TLS handshake; the oldest was closed");
                    }
                    Err(error) => tracing::error!(%error, "a TLS handshake failed"),
                },
            }
        }
    }

    fn shake_hands(&mut self, socket: TcpStream) {
        let Some(place) = self.place() else {
            return;
        };
        self.order.retain(|handshake| !handshake.is_finished());
        if self.order.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.order.pop_front()
        {
            oldest.abort();
        }
        let newcomer = self.newcomers.add();
        let acceptor = TlsAcceptor::from(self.tls.current());
        let handshake = self.handshakes.spawn(async move {
            // Requests are small and each waits for an answer.
            socket.set_nodelay(true)?;
            let stream = time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await??;
            Ok(Connection {
                stream,
                newcomer,
                _place: place,
            })
        });
        self.order.push_back(handshake);
    }

    /// A place for a new connection. When one is made free, its connection still has to see that it is to go: those in
    /// between have none, and nobody waits for it.
    fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        if self.places.available_permits() < RESERVE {
            let gone = self.newcomers.end_oldest();
            match (gone, &place) {
                (true, _) => {
                    tracing::warn!("too many connections are open; the oldest that has shown nothing was closed")
                }
                (false, None) => {
                    tracing::warn!("there are {MAX_CONNECTIONS} connections already; a new one was closed")
                }
                (false, Some(_)) => {}
            }
        }
        place
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        ConnectInfo {
            tls: self.stream.connect_info(),
            introduction: self.newcomer.introduction().clone(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // The server always reads, whatever else it waits for.
        if let Poll::Ready(error) = self.newcomer.poll(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(context, out)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
