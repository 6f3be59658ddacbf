//! A client's connection: one request after the other (RFC 9112 §9).
//!
//! Reads a head, lets [`crate::http::serve`] answer, writes the answer, and begins again; requests that the
//! client sent ahead wait in the buffer, so responses are in order by construction. All of a request runs in the
//! connection's one task. While a request is served the connection is watched: a client that has gone takes its request
//! with it. The connection's commands (drain, idle, head too late) are asked for whenever the task runs.

mod reply;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Version};

use crate::connection::{Command, Connection};
use crate::fault::Fault;
use crate::http::egress::{self, Echo};
use crate::http::exchange::Exchange;
use crate::http::local_reply::{self, Audience};
use crate::http::tunnel::Tunnel;
use crate::http1::head::{Limits, Names, RequestHead, Unfinished};
use crate::http1::inbound::Inbound;
use crate::http1::{Malformed, Trailers};
use crate::message::head::Spelled;
use crate::message::incoming::Incoming;
use crate::transport::Transport;
use reply::{Reply, RequestTraits};

/// How HTTP ended on a connection.
pub(crate) enum Ended {
    /// In good order: the transport is to be closed so that the last response arrives.
    Closed(Transport),
    /// A response broke off, or the client did: the transport is to be dropped.
    Cut,
    /// Another protocol is spoken now, through a tunnel; the client sent these bytes already.
    Switched(Transport, Bytes, Switch),
}

/// The tunnel that follows, and the exchange that it is part of.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) tunnel: Box<Tunnel>,
    pub(crate) exchange: Rc<Exchange>,
}

/// Serves a connection until HTTP ends on it.
pub(crate) async fn serve(connection: &Rc<Connection>, transport: Transport, replay: Bytes) -> Ended {
    let inbound = Inbound::new(transport, replay, Rc::clone(&connection.worker.buffers));
    let next = loop {
        let next = match next_head(connection, &inbound).await {
            Some(Ok(head)) => exchange(connection, &inbound, head).await,
            Some(Err(fault)) => refuse(connection, &inbound, fault).await,
            None => Next::Close,
        };
        if !matches!(next, Next::Request) {
            break next;
        }
    };
    match (next, inbound.take()) {
        (Next::Switch(switch), Some((transport, read))) => Ended::Switched(transport, read, switch),
        (Next::Close, Some((transport, _))) => Ended::Closed(transport),
        _ => Ended::Cut,
    }
}

/// What follows an exchange.
#[derive(Debug)]
enum Next {
    Request,
    Close,
    Cut,
    Switch(Switch),
}

/// `None` when there is none: the client has gone, or it is time to leave.
async fn next_head(connection: &Rc<Connection>, inbound: &Rc<Inbound>) -> Option<Result<RequestHead, Fault>> {
    let manager = connection.manager();
    let limits = Limits {
        bytes: manager.max_request_headers_bytes,
        fields: manager.max_request_headers,
        names: match manager.http1.keeps_names {
            true => Names::AsWritten,
            false => Names::Lowered,
        },
    };
    let mut unfinished = Unfinished::default();
    poll_fn(|cx| match connection.poll_command(cx) {
        Command::Serve => inbound
            .poll_head(cx, &mut unfinished, limits, || connection.bytes_arrived())
            .map(|head| head.map_err(|malformed| fault_of(connection, malformed)).transpose()),
        Command::Finish | Command::Refuse => Poll::Ready(None),
        // Only a head that has begun has a deadline.
        Command::Close => Poll::Ready(Some(Err(late(connection)))),
    })
    .await
}

/// What a head is that didn't come in time, which is counted here.
fn late(connection: &Connection) -> Fault {
    let limit = connection.manager().timeouts.head();
    let fault = limit.map_or(Fault::IdleRequest, |(_, fault)| fault);
    let cells = connection.cells();
    match fault {
        Fault::HeadTimeout => cells.downstream_rq_header_timeout.inc(),
        Fault::RequestTimeout => cells.downstream_rq_timeout.inc(),
        _ => cells.downstream_rq_idle_timeout.inc(),
    }
    fault
}

fn fault_of(connection: &Connection, malformed: Malformed) -> Fault {
    tracing::debug!(client = %connection.client, error = %malformed, "no request");
    let cells = connection.cells();
    let fault = match malformed {
        Malformed::HeadTooLarge => Fault::HeadTooLarge,
        Malformed::TransferCoding => Fault::TransferCoding,
        Malformed::Head | Malformed::Framing | Malformed::Chunk | Malformed::Incomplete => Fault::BadRequest,
    };
    if fault == Fault::HeadTooLarge {
        cells.downstream_rq_too_large.inc();
    } else {
        cells.downstream_cx_protocol_error.inc();
    }
    fault
}

async fn exchange(connection: &Rc<Connection>, inbound: &Rc<Inbound>, head: RequestHead) -> Next {
    let RequestHead {
        method,
        uri,
        version,
        headers,
        framing,
        keep_alive,
        expects_continue,
        spelling,
    } = head;
    let mut traits = RequestTraits {
        method: method.clone(),
        version,
        keep_alive,
    };
    let trailers = Trailers::by(connection.manager().http1.enable_trailers);
    let body = inbound
        .begin(framing, expects_continue, trailers)
        .map_or(Incoming::Empty, Incoming::Http1);
    let mut parts: Parts = Request::new(()).into_parts().0;
    parts.method = method;
    parts.uri = uri;
    parts.version = version;
    parts.headers = headers;
    if let Some(spelling) = spelling {
        parts.extensions.insert(Spelled(spelling));
    }
    let exchange = Exchange::begin(connection);
    // In memory of its own, which a connection that waits for its next request does not keep.
    let mut serving = Box::pin(crate::http::serve(Rc::clone(&exchange), parts, body));
    let response = poll_fn(|cx| {
        match connection.poll_command(cx) {
            Command::Serve => {}
            Command::Finish | Command::Refuse => traits.keep_alive = false,
            Command::Close => return Poll::Ready(None),
        }
        if let Poll::Ready(response) = serving.as_mut().poll(cx) {
            return Poll::Ready(Some(response));
        }
        inbound.poll_gone(cx).map(|()| None)
    })
    .await;
    drop(serving);
    let Some(response) = response else { return Next::Cut };
    answer(inbound, &exchange, Reply::new(&exchange, inbound, &traits, response)).await
}

async fn answer(inbound: &Rc<Inbound>, exchange: &Rc<Exchange>, mut reply: Reply) -> Next {
    let connection = &exchange.connection;
    let written = poll_fn(|cx| {
        match connection.poll_command(cx) {
            Command::Serve => {}
            Command::Finish | Command::Refuse => reply.keep_alive = false,
            Command::Close => return Poll::Ready(false),
        }
        if let Poll::Ready(written) = reply.poll(cx) {
            return Poll::Ready(written.is_ok());
        }
        // Whether the client takes bytes or not: nobody keeps a backend's connection beyond its time.
        if let Poll::Ready(kind) = exchange.poll_deadline(cx) {
            reply.expire(exchange, kind);
            return Poll::Ready(false);
        }
        inbound.poll_gone(cx).map(|()| false)
    })
    .await;
    let (keep_alive, switches) = (reply.keep_alive, reply.switches);
    drop(reply);
    if inbound.is_malformed() {
        connection.cells().downstream_cx_protocol_error.inc();
    }
    if !written {
        inbound.end_exchange();
        return Next::Cut;
    }
    let is_read = inbound.end_exchange();
    // An exchange that becomes a tunnel is complete when that is.
    if is_read
        && switches
        && let Some(tunnel) = exchange.tunnel.take()
    {
        return Next::Switch(Switch {
            tunnel: Box::new(tunnel),
            exchange: Rc::clone(exchange),
        });
    }
    exchange.complete();
    if is_read && keep_alive && !switches {
        Next::Request
    } else {
        Next::Close
    }
}

/// Answers what is no request. What follows it could be anything, so that the connection ends.
async fn refuse(connection: &Rc<Connection>, inbound: &Rc<Inbound>, fault: Fault) -> Next {
    let traits = RequestTraits {
        method: Method::GET,
        version: Version::HTTP_11,
        keep_alive: false,
    };
    let exchange = Exchange::begin(connection);
    let response = local_reply::of_fault(fault, Audience::Http);
    let response = egress::finish(connection, response, Echo::default());
    exchange.note(|record| record.fault(fault));
    exchange.responds(response.status(), response.headers());
    answer(inbound, &exchange, Reply::new(&exchange, inbound, &traits, response)).await
}
