//! A client's connection in HTTP/2 (RFC 9113).
//!
//! Frames, windows and header compression are the `h2` crate's; here are the streams ([`stream`]), all of them in
//! the connection's one task, and the connection's own end. The task asks for commands and deadlines whenever it runs,
//! so that nothing that a client does or leaves undone keeps a stream or the connection beyond its time:
//! a connection that is told to leave announces it (GOAWAY), takes new streams until the client has answered or the
//! drain time is over, and ends with its last stream; one that has just been opened is no exception. Then what is left
//! of it gets the time of a delayed close.
//! A client that floods it with resets or frames that move nothing is told so (ENHANCE_YOUR_CALM), and read no more.
//! Why not hyper's server: there a stream that waits for a window hears nothing but that window, a connection that
//! leaves waits for the client's word without end, and buffers are per stream.

mod resets;
mod stream;
mod tunnel;

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::Request;
use tracing::debug;

use crate::connection::budget::{Budget, Counted};
use crate::connection::{Command, Connection};
use crate::downstream::frames::Flow;
use crate::downstream::io::ClientIo;
use crate::http::exchange::Exchange;
use crate::http2::gather::Gathered;
use crate::http2::keepalive::Keepalive;
use crate::transport::Transport;
use resets::Resets;
use stream::End;

/// Serves a connection until HTTP ends on it. The transport comes back through [`Connection::leftover`].
pub(super) async fn serve(connection: &Rc<Connection>, transport: Transport, replay: Bytes) {
    let io = Gathered::new(ClientIo::new(transport, replay, Rc::clone(connection)));
    let builder = settings(connection);
    let mut handshake = pin!(builder.handshake::<_, Counted>(io.clone()));
    let mut is_leaving = false;
    let opened = io
        .at_once(|cx| {
            loop {
                match connection.poll_command(cx) {
                    Command::Serve => return handshake.as_mut().poll(cx).map(Some),
                    // What the client may have sent by now is answered, and it can be told only then.
                    Command::Finish => is_leaving = true,
                    Command::Refuse | Command::Close => return Poll::Ready(None),
                }
            }
        })
        .await;
    let http = match opened {
        Some(Ok(mut http)) => {
            if is_leaving {
                http.graceful_shutdown();
            }
            http
        }
        Some(Err(error)) => return failed(connection, &error),
        None => return,
    };
    let mut driver = Driver {
        keepalive: None,
        budget: connection.budget(),
        resets: Resets::default(),
        // The type of the futures is that of `start`, which has no name.
        streams: FuturesUnordered::new(),
        refusing: false,
        connection,
        io: &io,
        http,
    };
    driver.keepalive = connection
        .manager()
        .http2
        .keepalive
        .and_then(|times| Some(Keepalive::new(driver.http.ping_pong()?, times.interval, times.timeout)));
    let reason = io.at_once(|cx| driver.poll(cx, stream::run)).await;
    let Driver { mut http, streams, .. } = driver;
    // Their backends are given up before the client is waited for.
    drop(streams);
    if let Some(reason) = reason {
        http.abrupt_shutdown(reason);
        let told = io.at_once(|cx| http.poll_closed(cx));
        let until = tokio::time::Instant::now() + connection.manager().timeouts.delayed_close;
        let _ = tokio::time::timeout_at(until, told).await;
        if reason == Reason::ENHANCE_YOUR_CALM {
            // It has this time to take that in; what it goes on sending is left where it is.
            tokio::time::sleep_until(until).await;
            drop((http, io));
            connection.leftover.take();
        }
    }
}

fn settings(connection: &Connection) -> Builder {
    let manager = connection.manager();
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(manager.http2.max_concurrent_streams)
        .initial_window_size(manager.http2.initial_stream_window)
        .initial_connection_window_size(manager.http2.initial_connection_window)
        .max_header_list_size(u32::try_from(manager.max_request_headers_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(connection.budget().of_one_stream());
    if manager.http2.allow_connect {
        builder.enable_connect_protocol();
    }
    builder
}

/// A connection and its streams.
struct Driver<'a, F> {
    connection: &'a Rc<Connection>,
    io: &'a Gathered<ClientIo>,
    http: h2::server::Connection<Gathered<ClientIo>, Counted>,
    streams: FuturesUnordered<F>,
    budget: Rc<Budget>,
    keepalive: Option<Keepalive>,
    resets: Resets,
    /// The drain time is over.
    refusing: bool,
}

impl<F: Future<Output = End>> Driver<'_, F> {
    /// Ready when HTTP is over; with a reason when the client is still to be told.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: impl Fn(Rc<Exchange>, Request<h2::RecvStream>, SendResponse<Counted>, Rc<Budget>) -> F,
    ) -> Poll<Option<Reason>> {
        // Until there is none: a command may set the deadline of the next one.
        loop {
            match self.connection.poll_command(cx) {
                Command::Serve => break,
                Command::Finish => self.http.graceful_shutdown(),
                Command::Refuse => self.refusing = true,
                Command::Close => return Poll::Ready(Some(Reason::NO_ERROR)),
            }
        }
        if let Some(keepalive) = &mut self.keepalive
            && keepalive.poll_dead(cx).is_ready()
        {
            return Poll::Ready(Some(Reason::NO_ERROR));
        }
        loop {
            if self.poll_streams(cx) == Verdict::TooManyResets {
                self.connection.cells().downstream_rq_too_many_premature_resets.inc();
                return Poll::Ready(Some(Reason::ENHANCE_YOUR_CALM));
            }
            if self.refusing && self.streams.is_empty() {
                return Poll::Ready(Some(Reason::NO_ERROR));
            }
            let mut begun = false;
            // Drives the frames of all streams too.
            while let Poll::Ready(accepted) = self.http.poll_accept(cx) {
                match accepted {
                    Some(Ok((_, mut respond))) if self.refusing => respond.send_reset(Reason::REFUSED_STREAM),
                    Some(Ok((request, respond))) => {
                        let exchange = Exchange::begin(self.connection);
                        self.streams
                            .push(start(exchange, request, respond, Rc::clone(&self.budget)));
                        begun = true;
                    }
                    Some(Err(error)) => {
                        failed(self.connection, &error);
                        return Poll::Ready(None);
                    }
                    None => return Poll::Ready(None),
                }
            }
            if self.io.look(ClientIo::flow) == Flow::Flood {
                debug!(client = %self.connection.client, "HTTP/2 is flooded with frames that move nothing");
                self.connection.cells().downstream_cx_protocol_error.inc();
                return Poll::Ready(Some(Reason::ENHANCE_YOUR_CALM));
            }
            if !begun {
                return Poll::Pending;
            }
        }
    }

    fn poll_streams(&mut self, cx: &mut Context<'_>) -> Verdict {
        while let Poll::Ready(Some(end)) = Pin::new(&mut self.streams).poll_next(cx) {
            if self.resets.note(end) {
                return Verdict::TooManyResets;
            }
        }
        Verdict::Fair
    }
}

/// What the ends of a client's streams say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fair,
    TooManyResets,
}

fn failed(connection: &Connection, error: &h2::Error) {
    debug!(client = %connection.client, %error, "HTTP/2 ended with an error");
    if error.is_library() {
        connection.cells().downstream_cx_protocol_error.inc();
    }
}
