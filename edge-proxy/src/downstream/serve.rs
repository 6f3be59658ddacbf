//! Running HTTP on a client connection.
//!
//! What: finds out the protocol in cleartext, drives hyper's connection, and obeys the connection's commands between
//! its steps. This is the codec seam on the client's side: what serves requests ([`crate::http`]) sees `http` types and
//! knows nothing of hyper's connections, so that an own HTTP/1 codec can take the place of `serve_http1`.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::debug;

use crate::downstream::connection::{Accepted, Command, Connection, Protocol};
use crate::downstream::io::ClientIo;
use crate::transport::Transport;
use crate::worker::Worker;

/// Spawns what hyper wants to run beside a connection on the same thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// The client connection preface of HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it is clear what is spoken. `None` when the client has gone.
pub(super) async fn sniff(
    mut transport: Transport,
    limit: Option<Duration>,
) -> io::Result<Option<(Protocol, Bytes, Transport)>> {
    let mut read = BytesMut::with_capacity(2048);
    let sniffing = async {
        loop {
            if transport.read_buf(&mut read).await? == 0 {
                return Ok(None);
            }
            let seen = read.len().min(PREFACE.len());
            if read[..seen] != PREFACE[..seen] {
                return Ok(Some(Protocol::Http1));
            }
            if seen == PREFACE.len() {
                return Ok(Some(Protocol::Http2));
            }
        }
    };
    let protocol = match limit {
        Some(limit) => match tokio::time::timeout(limit, sniffing).await {
            Ok(protocol) => protocol,
            Err(_) => return Ok(None),
        },
        None => sniffing.await,
    };
    protocol.map(|protocol| protocol.map(|protocol| (protocol, read.freeze(), transport)))
}

/// Serves a connection to its end.
pub(super) async fn run(
    worker: &Rc<Worker>,
    accepted: Accepted,
    transport: Transport,
    replay: Bytes,
) -> io::Result<()> {
    let connection = Connection::new(Rc::clone(worker), accepted);
    let cells = connection.cells();
    cells.downstream_cx_total.inc();
    cells.downstream_cx_active.inc();
    if connection.is_secure() {
        cells.downstream_cx_ssl_total.inc();
    }
    let place = worker.connections.add(Rc::clone(&connection));
    // The configuration may have changed while the protocol was found out.
    connection.follow(&worker.snapshot());
    let io = ClientIo::new(transport, replay, Rc::clone(&connection));
    let served = match connection.protocol {
        Protocol::Http1 => {
            cells.downstream_cx_http1_total.inc();
            serve_http1(&connection, io).await
        }
        Protocol::Http2 => {
            cells.downstream_cx_http2_total.inc();
            serve_http2(&connection, io).await
        }
    };
    worker.connections.remove(place);
    cells.downstream_cx_active.dec();
    cells.downstream_cx_destroy.inc();
    served
}

/// Largest number of header fields that hyper parses without a heap allocation; also Envoy's default limit.
const USUAL_MAX_HEADERS: usize = 100;

async fn serve_http1(connection: &Rc<Connection>, io: ClientIo) -> io::Result<()> {
    let manager = connection.manager();
    let mut builder = hyper::server::conn::http1::Builder::new();
    // One flat buffer and one write beat a vectored write for the sizes that are usual.
    builder
        .writev(false)
        .header_read_timeout(None)
        .max_header_size(manager.max_request_headers_bytes);
    builder.max_buf_size(manager.max_request_headers_bytes.max(64 * 1024));
    if manager.max_request_headers != USUAL_MAX_HEADERS {
        builder.max_headers(manager.max_request_headers);
    }
    let service = {
        let connection = Rc::clone(connection);
        service_fn(move |request| crate::http::serve(Rc::clone(&connection), request))
    };
    let mut http = builder.serve_connection(TokioIo::new(io), service);
    let ended = poll_fn(|cx| {
        match connection.poll_command(cx) {
            Command::Serve => {}
            Command::Finish => Pin::new(&mut http).graceful_shutdown(),
            Command::Close => return Poll::Ready(false),
        }
        match Pin::new(&mut http).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(true),
            Poll::Ready(Err(error)) => {
                connection.http_failed(&error);
                Poll::Ready(false)
            }
        }
    })
    .await;
    let read = http.into_parts().read_buf;
    let tunnel = connection.tunnel.borrow_mut().take();
    match tunnel {
        Some(tunnel) if ended => {
            let Some(transport) = connection.leftover.borrow_mut().take() else {
                return Ok(());
            };
            let cells = connection.cells();
            cells.downstream_cx_upgrades_total.inc();
            cells.downstream_cx_upgrades_active.inc();
            let copied = tunnel.run(transport, &read).await;
            cells.downstream_cx_upgrades_active.dec();
            copied
        }
        _ => {
            close(connection).await;
            Ok(())
        }
    }
}

/// Says that nothing more comes and waits for the client to do the same: closing a socket that holds unread bytes
/// resets the connection, which may take the last response away from the client (RFC 9112 §9.6).
async fn close(connection: &Connection) {
    let Some(mut transport) = connection.leftover.borrow_mut().take() else {
        return;
    };
    let closing = async {
        let _ = transport.shutdown().await;
        let mut unread = [0; 1024];
        while matches!(transport.read(&mut unread).await, Ok(1..)) {}
    };
    // Who does not close in time is cut off.
    let _ = tokio::time::timeout(connection.manager().timeouts.delayed_close, closing).await;
}

async fn serve_http2(connection: &Rc<Connection>, io: ClientIo) -> io::Result<()> {
    let manager = connection.manager();
    let mut builder = hyper::server::conn::http2::Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(manager.http2.max_concurrent_streams)
        .initial_stream_window_size(manager.http2.initial_stream_window)
        .initial_connection_window_size(manager.http2.initial_connection_window)
        .max_header_list_size(u32::try_from(manager.max_request_headers_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(
            connection
                .listener
                .per_connection_buffer_limit
                .clamp(64 * 1024, 1024 * 1024),
        );
    if let Some((interval, timeout)) = manager.http2.keepalive {
        builder.keep_alive_interval(interval).keep_alive_timeout(timeout);
    }
    if manager.http2.allow_connect {
        builder.enable_connect_protocol();
    }
    let service = {
        let connection = Rc::clone(connection);
        service_fn(move |request| crate::http::serve(Rc::clone(&connection), request))
    };
    let mut http = Box::pin(builder.serve_connection(TokioIo::new(io), service));
    poll_fn(|cx| {
        match connection.poll_command(cx) {
            Command::Serve => {}
            Command::Finish => http.as_mut().graceful_shutdown(),
            Command::Close => return Poll::Ready(()),
        }
        http.as_mut().poll(cx).map(|ended| {
            if let Err(error) = ended {
                connection.http_failed(&error);
            }
        })
    })
    .await;
    drop(http);
    close(connection).await;
    Ok(())
}

impl Connection {
    fn http_failed(&self, error: &hyper::Error) {
        debug!(peer = %self.peer, %error, "HTTP ended with an error");
        if error.is_parse() {
            self.cells().downstream_cx_protocol_error.inc();
        }
    }
}
