//! One stream: a request, its response, and the deadlines of both.
//!
//! [`run`] serves the request and pumps the response into the stream. A stream that waits, for its backend, for
//! the client's window or for the socket, hears of its deadlines and of the client's reset all the same. It is over
//! when the socket has taken everything.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header;
use http::response::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;

use crate::connection::budget::{Budget, Counted, Share};
use crate::downstream::http2::tunnel::Bidirectional;
use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::http1::framing::has_content;
use crate::http2::{keep_unrepeated_out_of_tables, poll_window, remove_connection_fields};
use crate::message::incoming::Incoming;
use crate::message::stream::{Expectation, StreamBody};

/// A reset within this time of the request, before a response, is premature.
const PREMATURE: Duration = Duration::from_secs(1);

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Somehow, after it was served.
    Over,
    /// The client took its request back at once.
    Premature,
}

/// Serves a stream to its end.
pub(super) async fn run(
    exchange: Rc<Exchange>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Counted>,
    budget: Rc<Budget>,
) -> End {
    let method = request.method().clone();
    let broken = reason_when_broken(&request);
    let (parts, mut body, tunnel) = take_apart(request);
    let expectation = expectation(&parts.headers, &mut body);
    // Boxed, so that a response that is long on its way does not hold the memory of its request.
    let mut serving = Some(Box::pin(crate::http::serve(Rc::clone(&exchange), parts, body)));
    let response = poll_fn(|cx| {
        // First: a request that was taken back already goes nowhere.
        if respond.poll_reset(cx).is_ready() {
            return Poll::Ready(None);
        }
        let polled = match &mut serving {
            Some(serving) => serving.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        };
        if polled.is_pending()
            && let Some(expectation) = &expectation
            && expectation.poll_wanted(cx).is_ready()
        {
            send_continue(&mut respond);
        }
        polled
    })
    .await;
    drop(serving);
    let Some(response) = response else {
        exchange.connection.worker.clock.now();
        return match exchange.elapsed() <= PREMATURE {
            true => End::Premature,
            false => End::Over,
        };
    };
    let share = Share::new(budget);
    let (mut parts, body) = response.into_parts();
    finish_head(&exchange, &method, &mut parts, &body);
    let switches = exchange.tunnel.take();
    let ends = switches.is_none() && (body.is_end_stream() || !has_content(parts.status, &method));
    let Ok(send) = respond.send_response(Response::from_parts(parts, ()), ends) else {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return End::Over;
    };
    match (switches, tunnel) {
        (Some(switches), Some(receive)) => {
            let mut bytes = Bidirectional::new(receive, send, share);
            // Boxed: most streams never come here.
            if let Err(error) = Box::pin(switches.run(&mut bytes, &[], &exchange)).await {
                tracing::debug!(%error, "tunnel ended");
                if is_broken(&error) {
                    let patience = exchange.connection.manager().timeouts.delayed_close;
                    Box::pin(bytes.break_off(broken, patience)).await;
                }
            }
        }
        _ => {
            let mut pump = Pump {
                stage: if ends { Stage::Flushing } else { Stage::Content },
                exchange,
                send,
                body,
                share,
                piece: None,
                unseen: 0,
            };
            poll_fn(|cx| pump.poll(cx)).await;
        }
    }
    End::Over
}

/// What a client is told of a tunnel that broke: RFC 9113 §8.5, and RFC 8441 §5 where it has asked for another
/// protocol.
fn reason_when_broken(request: &Request<RecvStream>) -> Reason {
    match request.extensions().get::<h2::ext::Protocol>() {
        Some(_) => Reason::CANCEL,
        None => Reason::CONNECT_ERROR,
    }
}

/// Whether a tunnel broke, and not for want of time.
fn is_broken(error: &io::Error) -> bool {
    // The time of the system's own probes is up when the backend's connection has broken.
    error.kind() != io::ErrorKind::TimedOut || error.raw_os_error().is_some()
}

/// The request without what only the codec knows; the stream itself when it may become a tunnel.
fn take_apart(request: Request<RecvStream>) -> (http::request::Parts, Incoming, Option<RecvStream>) {
    let (mut parts, stream) = request.into_parts();
    if let Some(protocol) = parts.extensions.remove::<h2::ext::Protocol>() {
        parts.extensions.insert(hyper::ext::Protocol::from(protocol.as_str()));
    }
    if parts.method == Method::CONNECT {
        return (parts, Incoming::Empty, Some(stream));
    }
    if stream.is_end_stream() {
        return (parts, Incoming::Empty, None);
    }
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    (parts, Incoming::Http2(StreamBody::new(stream, length)), None)
}

/// What says when the content is wanted, of a client that waits for a 100 before it sends any.
fn expectation(headers: &HeaderMap, body: &mut Incoming) -> Option<Rc<Expectation>> {
    let Incoming::Http2(content) = body else { return None };
    let mut expected = headers.get_all(header::EXPECT).iter();
    let waits = expected.any(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    waits.then(|| content.hold_back())
}

fn send_continue(respond: &mut SendResponse<Counted>) {
    let mut interim = Response::new(());
    *interim.status_mut() = StatusCode::CONTINUE;
    if let Err(error) = respond.send_informational(interim) {
        tracing::debug!(%error, "a client can't be told to go on");
    }
}

fn finish_head(exchange: &Exchange, method: &Method, parts: &mut Parts, body: &ResponseBody) {
    // RFC 9110 §8.6.
    let has_length =
        parts.status != StatusCode::NO_CONTENT && !(*method == Method::CONNECT && parts.status.is_success());
    let headers = &mut parts.headers;
    remove_connection_fields(headers);
    keep_unrepeated_out_of_tables(headers);
    if !headers.contains_key(header::DATE) {
        let worker = &exchange.connection.worker;
        if let Some(date) = worker.buffers.date_value(worker.clock.recent()) {
            headers.insert(header::DATE, date);
        }
    }
    if !has_length {
        headers.remove(header::CONTENT_LENGTH);
    } else if !body.is_end_stream()
        && !headers.contains_key(header::CONTENT_LENGTH)
        && let Some(length) = body.size_hint().exact()
    {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

/// A response on its way.
struct Pump {
    exchange: Rc<Exchange>,
    send: SendStream<Counted>,
    body: ResponseBody,
    share: Rc<Share>,
    stage: Stage,
    /// Content that has no window yet, and whether it is the last.
    piece: Option<(Bytes, Last)>,
    /// What was queued when it was looked at last, to see whether the client takes something.
    unseen: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Content is to come.
    Content,
    /// The end is queued.
    Flushing,
    /// The end can't be sent.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

impl Pump {
    /// Ready when the stream is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.poll_send(cx).is_ready() {
            return Poll::Ready(());
        }
        if let Poll::Ready(kind) = self.exchange.poll_deadline(cx) {
            self.body.expire(&self.exchange, kind);
            self.send.send_reset(Reason::INTERNAL_ERROR);
            return Poll::Ready(());
        }
        self.send.poll_reset(cx).map(drop)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some((content, last)) = self.piece.take() {
                match self.send_piece(content, last, cx) {
                    Sent::All => {}
                    Sent::Blocked => return Poll::Pending,
                    Sent::Refused => return Poll::Ready(()),
                }
            } else if self.stage == Stage::Flushing {
                return self.poll_written(cx);
            } else if self.stage == Stage::Failed {
                // It must not look complete. (Nothing happens to a closed stream.)
                self.send.send_reset(Reason::INTERNAL_ERROR);
                return Poll::Ready(());
            } else {
                if self.share.poll_room(cx).is_pending() {
                    if self.has_progressed(0) {
                        self.exchange.moved();
                    }
                    return Poll::Pending;
                }
                let polled = std::pin::Pin::new(&mut self.body).poll_frame(cx);
                let taken = match polled {
                    Poll::Pending => {
                        self.share.pass_on();
                        return Poll::Pending;
                    }
                    Poll::Ready(taken) => taken,
                };
                match taken {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(content) => self.take(content),
                        Err(frame) => self.end(frame.into_trailers().ok()),
                    },
                    None => self.end(None),
                    Some(Err(error)) => {
                        tracing::debug!(%error, "response breaks off");
                        self.send.send_reset(Reason::INTERNAL_ERROR);
                        return Poll::Ready(());
                    }
                }
            }
        }
    }

    fn take(&mut self, content: Bytes) {
        let last = if self.body.is_end_stream() { Last::Yes } else { Last::No };
        self.share.hold(content.len());
        self.exchange.took(content.len());
        self.piece = Some((content, last));
    }

    /// Sends as much of a piece as there is window and room for, and keeps the rest.
    fn send_piece(&mut self, mut content: Bytes, last: Last, cx: &mut Context<'_>) -> Sent {
        while !content.is_empty() {
            let window = match poll_window(&mut self.send, content.len(), cx) {
                Poll::Ready(Some(window)) => window,
                Poll::Ready(None) => return Sent::Refused,
                Poll::Pending => return self.blocked(content, last),
            };
            if self.share.poll_room(cx).is_pending() {
                return self.blocked(content, last);
            }
            let now = content.split_to(window.min(content.len()));
            let ends = last == Last::Yes && content.is_empty();
            let queued = self.share.queue(now);
            if self.send.send_data(queued, ends).is_err() {
                return Sent::Refused;
            }
            self.share.pass_on();
            if ends {
                self.stage = Stage::Flushing;
            }
        }
        if last == Last::Yes {
            // A last piece without content ends the stream by itself.
            self.end(None);
        }
        Sent::All
    }

    fn blocked(&mut self, content: Bytes, last: Last) -> Sent {
        let progress = self.has_progressed(content.len());
        if last == Last::Yes {
            self.exchange.flushing(progress);
        } else if progress {
            self.exchange.moved();
        }
        self.piece = Some((content, last));
        Sent::Blocked
    }

    /// Whether fewer bytes wait than at the last look.
    fn has_progressed(&mut self, held: usize) -> bool {
        let waiting = held + self.share.queued();
        std::mem::replace(&mut self.unseen, waiting) > waiting
    }

    fn end(&mut self, trailers: Option<HeaderMap>) {
        if self.stage != Stage::Content {
            return;
        }
        self.send.reserve_capacity(0);
        let sent = match trailers {
            Some(mut trailers) => {
                remove_connection_fields(&mut trailers);
                trailers.remove(header::TE);
                self.send.send_trailers(trailers)
            }
            None => self.send.send_data(Counted::nothing(), true),
        };
        self.stage = match sent {
            Ok(()) => Stage::Flushing,
            Err(error) => {
                tracing::debug!(%error, "the end of a response can't be sent");
                Stage::Failed
            }
        };
    }

    fn poll_written(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.share.queued() == 0 {
            self.exchange.complete();
            return Poll::Ready(());
        }
        let progress = self.has_progressed(0);
        self.exchange.flushing(progress);
        self.share.wait_until_written(cx);
        Poll::Pending
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.share.leave();
    }
}

/// What became of a piece.
enum Sent {
    All,
    Blocked,
    /// The stream is closed.
    Refused,
}
