//! Running HTTP on a client connection.
//!
//! Finds out the protocol in cleartext and runs its driver: [`http1`] or [`http2`]. What serves requests
//! ([`crate::http`]) sees `http` types and knows of neither.

use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connection::{Accepted, Connection};
use crate::downstream::http1::{Ended, Switch};
use crate::downstream::{Clients, http1, http2};
use crate::message::Protocol;
use crate::transport::Transport;

/// The client connection preface of HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it is clear what is spoken. `None` when the client has gone.
pub(super) async fn sniff(mut transport: Transport) -> io::Result<Option<(Protocol, Bytes, Transport)>> {
    let mut read = BytesMut::with_capacity(2048);
    loop {
        if transport.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
        let seen = read.len().min(PREFACE.len());
        if read[..seen] != PREFACE[..seen] {
            return Ok(Some((Protocol::Http1, read.freeze(), transport)));
        }
        if seen == PREFACE.len() {
            return Ok(Some((Protocol::Http2, read.freeze(), transport)));
        }
    }
}

/// Serves a connection to its end.
pub(super) async fn run(clients: &Clients, accepted: Accepted, transport: Transport, replay: Bytes) -> io::Result<()> {
    let connection = Connection::new(Rc::clone(&clients.upstreams), accepted);
    let cells = connection.cells();
    cells.downstream_cx_total.inc();
    cells.downstream_cx_active.inc();
    if connection.is_secure() {
        cells.downstream_cx_ssl_total.inc();
    }
    let place = clients.connections.add(Rc::clone(&connection));
    // The configuration may have changed while the protocol was found out.
    connection.follow(&clients.worker.snapshot());
    let served = match connection.protocol {
        Protocol::Http1 => {
            cells.downstream_cx_http1_total.inc();
            serve_http1(&connection, transport, replay).await
        }
        Protocol::Http2 => {
            cells.downstream_cx_http2_total.inc();
            serve_http2(&connection, transport, replay).await
        }
    };
    clients.connections.remove(place);
    clients.upstreams.client_left(connection.addresses());
    cells.downstream_cx_active.dec();
    cells.downstream_cx_destroy.inc();
    served
}

async fn serve_http1(connection: &Rc<Connection>, transport: Transport, replay: Bytes) -> io::Result<()> {
    let ended = http1::serve(connection, transport, replay).await;
    match ended {
        Ended::Switched(transport, read, Switch { tunnel, exchange }) => {
            let cells = connection.cells();
            cells.downstream_cx_upgrades_total.inc();
            cells.downstream_cx_upgrades_active.inc();
            // Boxed: most connections never come here.
            let copied = Box::pin(tunnel.run(transport, &read, &exchange)).await;
            cells.downstream_cx_upgrades_active.dec();
            return copied;
        }
        Ended::Closed(transport) => close(connection, transport).await,
        Ended::Cut => {}
    }
    Ok(())
}

/// Says that nothing more comes and waits for the client to do the same: closing a socket that holds unread bytes
/// resets the connection, which may take the last response away from the client (RFC 9112 §9.6).
async fn close(connection: &Connection, mut transport: Transport) {
    let closing = async {
        let _ = transport.shutdown().await;
        let mut unread = [0; 1024];
        while matches!(transport.read(&mut unread).await, Ok(1..)) {}
    };
    // Who does not close in time is cut off.
    let _ = tokio::time::timeout(connection.manager().timeouts.delayed_close, closing).await;
}

async fn serve_http2(connection: &Rc<Connection>, transport: Transport, replay: Bytes) -> io::Result<()> {
    http2::serve(connection, transport, replay).await;
    let leftover = connection.leftover.borrow_mut().take();
    if let Some(transport) = leftover {
        close(connection, transport).await;
    }
    Ok(())
}
