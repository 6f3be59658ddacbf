//! Who sent a request, and what follows from that.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Notes, Seen};
use crate::config::listener::{ForwardClientCert, SchemeOverride};
use crate::downstream::connection::Connection;
use crate::downstream::peer::PeerCertificate;
use crate::http::head::Head;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_CLIENT_CERT: HeaderName = HeaderName::from_static("x-forwarded-client-cert");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The client's address, who may be trusted, and what follows: Envoy's `mutateRequestHeaders`.
pub(super) fn identify(connection: &Connection, head: &mut Head, seen: &Seen, notes: &mut Notes) {
    let manager = connection.manager();
    let settings = &manager.client_address;
    let peer = connection.peer.ip().to_canonical();
    let hops = settings.xff_trusted_hops as usize;
    let mut client = Some(peer);
    if settings.use_remote_address {
        if hops > 0 {
            client = forwarded(&head.headers, hops - 1).or(client);
        }
        if !settings.skip_xff_append {
            append_forwarded_for(connection, &mut head.headers, seen.forwarded_for);
        }
        if hops == 0 || !head.headers.contains_key(X_FORWARDED_PROTO) {
            head.headers
                .insert(X_FORWARDED_PROTO, HeaderValue::from_static(head.scheme));
        }
    } else {
        client = forwarded(&head.headers, hops);
        match head.headers.get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes) {
            Some(b"https") => head.scheme = "https",
            Some(b"http") => head.scheme = "http",
            _ => {
                head.headers
                    .insert(X_FORWARDED_PROTO, HeaderValue::from_static(head.scheme));
            }
        }
    }
    if let SchemeOverride::Fixed(scheme) = manager.scheme {
        head.scheme = scheme;
        head.headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(scheme));
    }
    let single = !seen.forwarded_for || (!settings.use_remote_address && forwarded(&head.headers, 1).is_none());
    notes.internal = single && client.is_some_and(|client| settings.is_internal(client));
    let edge = settings.use_remote_address && !notes.internal;
    if !notes.internal && seen.prefixed {
        let names = &manager.prefixed;
        let edge_only = if edge { &*names.edge_only } else { &[] };
        for name in edge_only.iter().chain(&names.internal_only).chain(&names.consumed) {
            head.headers.remove(name);
        }
        head.headers.remove(&names.internal);
        notes.prefixed = false;
    }
    let (mode, own) = (manager.forward_client_cert, connection.certificate.as_deref());
    tell_certificate(mode, own, &mut head.headers, seen.client_cert);
    if notes.internal {
        head.headers
            .insert(manager.prefixed.internal.clone(), HeaderValue::from_static("true"));
    } else if edge {
        let value = match client {
            Some(client) if client != peer => HeaderValue::from_str(&client.to_string()).ok(),
            _ => Some(connection.peer_text.clone()),
        };
        if let Some(value) = value {
            head.headers.insert(manager.prefixed.external_address.clone(), value);
        }
    }
    let id = manager.request_id;
    if id.generate && ((edge && !id.preserve_external) || !has_one_request_id(&head.headers)) {
        head.headers.insert(X_REQUEST_ID, connection.worker.random.uuid());
    }
}

/// The client of a request that was taken in, as far as proxies before this one are trusted to say; `None` when they say
/// nothing that makes sense.
pub(crate) fn client_of(connection: &Connection, head: &Head) -> Option<IpAddr> {
    let manager = connection.manager();
    let settings = &manager.client_address;
    let hops = settings.xff_trusted_hops as usize;
    match (settings.use_remote_address, settings.skip_xff_append) {
        (true, _) if hops == 0 => None,
        (true, true) => forwarded(&head.headers, hops - 1),
        // The peer has been appended meanwhile.
        (true, false) | (false, _) => forwarded(&head.headers, hops),
    }
}

/// What the backend is told of certificates: what the client says of others', and what its own is.
fn tell_certificate(mode: ForwardClientCert, own: Option<&PeerCertificate>, headers: &mut HeaderMap, is_there: bool) {
    let told = match (mode, own) {
        (ForwardClientCert::AlwaysForwardOnly, _) | (ForwardClientCert::ForwardOnly, Some(_)) => return,
        (ForwardClientCert::AppendForward(details), Some(own)) => {
            let Some(told) = own.text(details) else { return };
            let before = headers
                .get_all(X_FORWARDED_CLIENT_CERT)
                .iter()
                .map(HeaderValue::as_bytes);
            let elements: Vec<&[u8]> = before.chain([told.as_bytes()]).collect();
            HeaderValue::from_bytes(&elements.join(&b","[..])).ok()
        }
        (ForwardClientCert::SanitizeSet(details), Some(own)) => own.text(details),
        _ => None,
    };
    match told {
        Some(told) => drop(headers.insert(X_FORWARDED_CLIENT_CERT, told)),
        None if is_there => drop(headers.remove(X_FORWARDED_CLIENT_CERT)),
        None => {}
    }
}

/// Whether there is an id to keep: with several, logs along the way would choose different ones.
fn has_one_request_id(headers: &HeaderMap) -> bool {
    let mut ids = headers.get_all(X_REQUEST_ID).iter();
    ids.next().is_some_and(|id| !id.is_empty()) && ids.next().is_none()
}

/// The entry of `x-forwarded-for` that is `skip` places from its right end.
pub(super) fn forwarded(headers: &HeaderMap, skip: usize) -> Option<IpAddr> {
    let mut skip = skip;
    for value in headers.get_all(X_FORWARDED_FOR).iter().rev() {
        let Ok(value) = value.to_str() else { return None };
        for entry in value.rsplit(',') {
            if skip == 0 {
                return entry
                    .trim()
                    .parse::<IpAddr>()
                    .ok()
                    .map(|address| address.to_canonical());
            }
            skip -= 1;
        }
    }
    None
}

fn append_forwarded_for(connection: &Connection, headers: &mut HeaderMap, is_there: bool) {
    let own = &connection.peer_text;
    if !is_there {
        headers.insert(X_FORWARDED_FOR, own.clone());
        return;
    }
    let mut joined = Vec::with_capacity(64);
    // An empty line names nobody; taken along it would shift the places that trusted hops are counted by.
    for value in headers
        .get_all(X_FORWARDED_FOR)
        .iter()
        .filter(|value| !value.is_empty())
    {
        joined.extend_from_slice(value.as_bytes());
        joined.push(b',');
    }
    joined.extend_from_slice(own.as_bytes());
    if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(joined)) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}
