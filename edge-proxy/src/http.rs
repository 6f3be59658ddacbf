//! Requests: from the head that the codec delivers to the response that it is given.
//!
//! [`ingress`] takes a request in, [`route`] finds its route, [`filters`] change or answer it, [`forward`]
//! sends it to a backend, the filters change the response, [`egress`] finishes it. Nothing here knows a codec.

mod attributes;
pub(crate) mod body;
pub(crate) mod edits;
pub(crate) mod egress;
pub(crate) mod exchange;
mod filters;
mod forward;
mod hashing;
pub(crate) mod ingress;
pub(crate) mod local_reply;
mod mirror;
pub mod path;
pub mod readers;
mod respond;
pub(crate) mod rewrite;
pub(crate) mod route;
pub(crate) mod tunnel;

use std::rc::Rc;

use bytes::Bytes;
use http::header;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use crate::config::access::Metadata;
use crate::connection::Connection;
use crate::http::filters::session::Session;
use crate::message::Protocol;
use crate::message::head::Head;
use crate::message::incoming::Incoming;
use body::ResponseBody;
use egress::Echo;
use exchange::Exchange;
use ingress::{Notes, Refusal};
use local_reply::Audience;

/// A request that was taken in.
pub(crate) struct Arrived<'a> {
    pub(crate) exchange: Rc<Exchange>,
    /// Boxed: it goes through many hands, each of which would hold all of it.
    pub(crate) head: Box<Head>,
    pub(crate) notes: Notes,
    pub(crate) body: Incoming,
    /// Whom answers are for, whatever filters make of the head.
    pub(crate) audience: Audience,
    /// The session that it is part of.
    pub(crate) session: Option<Box<Session<'a>>>,
    /// A filter has kept it waiting.
    pub(crate) delayed: bool,
    /// What filters have found out about it.
    pub(crate) metadata: Metadata,
    /// The host that may be resolved for it, if any may.
    pub(crate) asks_for: Option<HeaderValue>,
}

/// Serves one request.
pub(crate) async fn serve(exchange: Rc<Exchange>, parts: Parts, body: Incoming) -> Response<ResponseBody> {
    let connection = Rc::clone(&exchange.connection);
    let noted = Rc::clone(&exchange);
    let mut echo = Echo::default();
    let version = parts.version;
    let (head, admitted) = ingress::admit(&connection, parts);
    let asks_for_tunnel = admitted.as_ref().is_ok_and(|notes| notes.upgrade.is_some());
    exchange.note(|record| {
        record.version = Some(version);
        record.client = head.client;
        record.request(&head);
    });
    let response = match admitted {
        Ok(notes) => {
            if connection.manager().request_id.in_response {
                echo.request_id = head.headers.get(ingress::X_REQUEST_ID).cloned();
            }
            route::serve(Arrived {
                exchange,
                audience: audience(&head),
                head,
                notes,
                body,
                session: None,
                delayed: false,
                metadata: Metadata::new(),
                asks_for: None,
            })
            .await
        }
        Err(refusal) => {
            noted.note(|record| match &refusal {
                Refusal::Fault(fault) => record.fault(*fault),
                Refusal::Redirect(_) => record.details = "path_normalization_failed".into(),
            });
            refuse(&connection, &head, refusal)
        }
    };
    if let Some(trace) = noted.trace().filter(|_| echo.request_id.is_some()) {
        // It says by now whether the request is traced.
        echo.request_id.clone_from(&trace.request_id);
    }
    let mut response = egress::finish(&connection, response, echo);
    if asks_for_tunnel && connection.protocol == Protocol::Http1 && noted.tunnel.borrow().is_none() {
        // What came behind the head was for the other protocol: there is no telling where a request begins.
        close_after(&mut response);
    }
    noted.responds(response.status(), response.headers());
    response
}

pub(crate) fn audience(head: &Head) -> Audience {
    if head.is_grpc() { Audience::Grpc } else { Audience::Http }
}

fn refuse(connection: &Connection, head: &Head, refusal: Refusal) -> Response<ResponseBody> {
    match refusal {
        Refusal::Fault(fault) => {
            let mut response = local_reply::of_fault(fault, audience(head));
            // Whoever sent a malformed head may have meant something else by the bytes behind it.
            if connection.protocol == Protocol::Http1 {
                close_after(&mut response);
            }
            response
        }
        Refusal::Redirect(target) => {
            // Relative (RFC 9110 §10.2.2): what the client called us by, and over what, isn't known for sure here.
            redirect_to(StatusCode::TEMPORARY_REDIRECT, &target, audience(head))
        }
    }
}

fn close_after(response: &mut Response<ResponseBody>) {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
}

fn redirect_to(status: StatusCode, location: &str, audience: Audience) -> Response<ResponseBody> {
    let mut response = local_reply::text(status, Bytes::new(), None, audience);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests {
    /// Every request moves its future once, so its size is time: what only some requests need belongs in a box.
    #[test]
    fn the_future_of_a_request_stays_small() {
        fn size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
            std::mem::size_of::<F>()
        }
        let size = size(super::serve);
        assert!(size <= 7 * 1024 + 256, "{size} bytes");
    }
}
