//! From a backend's response to the client's.

use std::rc::Rc;

use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::clock::Kind;
use crate::config::http_manager::Upgrade;
use crate::fault::Fault;
use crate::http::body::{ResponseBody, UpstreamBody};
use crate::http::edits::{self, Scene};
use crate::http::egress::remove_hop_by_hop;
use crate::http::forward::connect::Opened;
use crate::http::forward::{Answer, Forwarding};
use crate::http::ingress::restore_upgrade;
use crate::http::local_reply::{self, Audience};
use crate::http::tunnel::{BackendEnd, Tunnel};
use crate::message::Protocol;
use crate::message::head::{Head, Spelled};
use crate::upstream::{Lease, counters};

/// Makes the client's response. `head` is there when edits may speak of the request.
pub(crate) async fn respond(
    forwarding: Forwarding<'_>,
    answer: Answer,
    head: Option<&Head>,
    attempts: u32,
) -> Response<ResponseBody> {
    let connection = Rc::clone(&forwarding.exchange.connection);
    let now = connection.worker.clock.now();
    let took = now.saturating_duration_since(answer.sent);
    forwarding.exchange.note(|record| record.times.answered = Some(now));
    let pool = answer.guard.pool();
    counters::count_response(pool, answer.response.status());
    forwarding.exchange.answered_by_backend();
    pool.cells().upstream_rq_time.record(took);
    let status = answer.response.status();
    let is_tunnel = match forwarding.upgrade.as_deref() {
        Some(Upgrade::CONNECT) => status.is_success(),
        // So another protocol is granted in HTTP/2 (RFC 8441 §4).
        Some(_) => status == StatusCode::OK && matches!(answer.lease, Lease::Http2(_)),
        None => false,
    };
    if is_tunnel || status == StatusCode::SWITCHING_PROTOCOLS {
        return Box::pin(switch(forwarding, answer, head)).await;
    }
    let Answer {
        response, lease, guard, ..
    } = answer;
    let mut parts = response.into_parts().0;
    let mut headers = parts.headers;
    remove_hop_by_hop(&mut headers);
    let manager = connection.manager();
    if !manager.router.suppress_envoy_headers {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        headers.insert(
            manager.prefixed.upstream_service_time.clone(),
            connection.worker.numbers.value(millis),
        );
    }
    tell_attempts(&mut headers, &forwarding, attempts);
    edit(&mut headers, &forwarding, head);
    if let Some(session) = &forwarding.session {
        session.tell(&guard.pool().host, &mut headers);
    }
    give_cookies(&forwarding, &mut headers);
    let exchange = forwarding.exchange;
    exchange.set_idle(now, exchange.idle());
    let body = UpstreamBody::new(lease, guard, exchange);
    let mut response = Response::new(ResponseBody::Upstream(body));
    *response.status_mut() = parts.status;
    *response.headers_mut() = headers;
    if let Some(spelled) = parts.extensions.remove::<Spelled>() {
        response.extensions_mut().insert(spelled);
    }
    response
}

/// Makes of an answer in place of a backend's what the route makes of such.
pub(super) fn dress_own(
    answer: &mut Response<ResponseBody>,
    forwarding: &Forwarding<'_>,
    head: Option<&Head>,
    attempts: u32,
) {
    tell_attempts(answer.headers_mut(), forwarding, attempts);
    with_scene(forwarding, head, |scene, head| {
        edits::beneath(answer, forwarding.response_edits, scene, head);
    });
}

fn tell_attempts(headers: &mut HeaderMap, forwarding: &Forwarding<'_>, attempts: u32) {
    if forwarding.settings.attempt_count_in_response {
        let name = forwarding.exchange.connection.manager().prefixed.attempt_count.clone();
        headers.insert(name, HeaderValue::from(attempts));
    }
}

fn edit(headers: &mut HeaderMap, forwarding: &Forwarding<'_>, head: Option<&Head>) {
    with_scene(forwarding, head, |scene, head| {
        edits::edit_response(headers, forwarding.response_edits, scene, head);
    });
}

/// Calls a function with what edits speak of, if the route has any.
fn with_scene(forwarding: &Forwarding<'_>, head: Option<&Head>, edit: impl FnOnce(Scene<'_>, &Head)) {
    if forwarding.response_edits.is_empty() {
        return;
    }
    let scene = Scene {
        connection: &forwarding.exchange.connection,
        cluster: &forwarding.entry.cluster.name,
        route: forwarding.route_name,
    };
    match head {
        Some(head) => edit(scene, head),
        None => edit(scene, &Head::empty()),
    }
}

/// What keeps the client at its host.
fn give_cookies(forwarding: &Forwarding<'_>, headers: &mut HeaderMap) {
    for cookie in &forwarding.hashed.cookies {
        headers.append(header::SET_COOKIE, cookie.clone());
    }
}

/// A connection stands for what the client sends behind its CONNECT.
pub(crate) fn connected(forwarding: Forwarding<'_>, opened: Opened, head: &Head) -> Response<ResponseBody> {
    let exchange = &forwarding.exchange;
    exchange.answered_by_backend();
    counters::count_response(opened.guard.pool(), StatusCode::OK);
    let mut headers = HeaderMap::new();
    edit(&mut headers, &forwarding, Some(head));
    let timer = exchange.timer.share();
    timer.clear(Kind::Route);
    let tunnel = Tunnel {
        upstream: BackendEnd::Connection {
            io: opened.transport,
            _counted: opened.counted,
        },
        early: Bytes::new(),
        timer,
        idle: exchange.idle(),
        guard: opened.guard,
    };
    *exchange.tunnel.borrow_mut() = Some(tunnel);
    let mut response = Response::new(ResponseBody::Empty);
    *response.headers_mut() = headers;
    response
}

/// Whether a backend in HTTP/1 speaks what was asked for: it may name that with a version (RFC 9110 §7.8), or not at
/// all.
fn has_granted(headers: &HeaderMap, forwarding: &Forwarding<'_>) -> bool {
    let Some(granted) = headers.get(header::UPGRADE) else {
        return true;
    };
    let asked = forwarding.upgrade.as_deref().unwrap_or_default();
    let mut protocols = granted.to_str().unwrap_or_default().split(',');
    asked == Upgrade::CONNECT || protocols.any(|protocol| is_same_protocol(protocol.trim(), asked))
}

fn is_same_protocol(granted: &str, asked: &str) -> bool {
    let name = granted.split('/').next().unwrap_or_default();
    granted.eq_ignore_ascii_case(asked) || name.eq_ignore_ascii_case(asked)
}

/// The backend has switched protocols, or granted a CONNECT: so does the client's connection.
async fn switch(forwarding: Forwarding<'_>, answer: Answer, head: Option<&Head>) -> Response<ResponseBody> {
    let Answer {
        response, lease, guard, ..
    } = answer;
    let status = response.status();
    let is_connect = forwarding.upgrade.as_deref() == Some(Upgrade::CONNECT);
    // A backend that switches although nobody asked is broken, and so is one that switches in answer to CONNECT, or to
    // something else than it was asked for.
    let granted = match lease {
        Lease::Http1(http1) if is_connect == status.is_success() && has_granted(response.headers(), &forwarding) => {
            let taken = http1.into_transport();
            taken.map(|(io, early, _counted)| (BackendEnd::Connection { io, _counted }, early))
        }
        Lease::Http2(stream) if status.is_success() => {
            let tunnel = stream.into_tunnel();
            tunnel.map(|tunnel| (BackendEnd::Stream(Box::new(tunnel)), Bytes::new()))
        }
        Lease::Http1(_) | Lease::Http2(_) => None,
    };
    let (Some(protocol), Some((upstream, early))) = (forwarding.upgrade.clone(), granted) else {
        forwarding.exchange.note(|record| record.fault(Fault::ProtocolError));
        return local_reply::of_fault(Fault::ProtocolError, Audience::Http);
    };
    let mut parts = response.into_parts().0;
    let mut headers = parts.headers;
    remove_hop_by_hop(&mut headers);
    edit(&mut headers, &forwarding, head);
    if let Some(session) = &forwarding.session {
        session.tell(&guard.pool().host, &mut headers);
    }
    give_cookies(&forwarding, &mut headers);
    let exchange = &forwarding.exchange;
    let timer = exchange.timer.share();
    timer.clear(Kind::Route);
    let tunnel = Tunnel {
        upstream,
        early,
        timer,
        idle: exchange.idle(),
        guard,
    };
    *exchange.tunnel.borrow_mut() = Some(tunnel);
    let mut response = Response::new(ResponseBody::Empty);
    match exchange.connection.protocol {
        _ if is_connect => *response.status_mut() = status,
        // Extended CONNECT is answered 200, and the stream itself is the tunnel (RFC 8441 §4).
        Protocol::Http2 => {}
        Protocol::Http1 => {
            restore_upgrade(&mut headers, &protocol);
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        }
    }
    headers.remove(header::CONTENT_LENGTH);
    *response.headers_mut() = headers;
    if let Some(spelled) = parts.extensions.remove::<Spelled>() {
        response.extensions_mut().insert(spelled);
    }
    response
}
