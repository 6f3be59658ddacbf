//! Accepting connections: TCP, then TLS with the certificates of the moment.

use crate::{certs::ServerTls, http::pause_after};
use futures_util::{Stream, stream};
use std::{io, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Handshakes at a time; more connections wait in the socket's queue.
const MAX_HANDSHAKES: usize = 128;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

struct Incoming {
    listener: TcpListener,
    tls: ServerTls,
    handshakes: JoinSet<io::Result<TlsStream<TcpStream>>>,
}

/// Connections whose handshake is done. One that fails concerns nobody else and is logged.
pub(super) fn connections(
    listener: TcpListener,
    tls: ServerTls,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    stream::unfold(
        Incoming {
            listener,
            tls,
            handshakes: JoinSet::new(),
        },
        |mut incoming| async {
            let connection = incoming.next().await;
            Some((Ok(connection), incoming))
        },
    )
}

impl Incoming {
    async fn next(&mut self) -> TlsStream<TcpStream> {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.handshakes.len() < MAX_HANDSHAKES => match accepted {
                    Ok((socket, _)) => self.shake_hands(socket),
                    Err(error) => pause_after(&error).await,
                },
                Some(done) = self.handshakes.join_next() => match done {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(error)) => tracing::warn!(%error, "a connection failed in its TLS handshake"),
                    Err(error) => tracing::error!(%error, "a TLS handshake failed"),
                },
            }
        }
    }

    fn shake_hands(&mut self, socket: TcpStream) {
        let acceptor = TlsAcceptor::from(self.tls.current());
        self.handshakes.spawn(async move {
            // Requests are small and each waits for an answer.
            socket.set_nodelay(true)?;
            time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await?
        });
    }
}
