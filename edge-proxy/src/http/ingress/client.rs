//! Who sent a request, and what follows from that.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Notes, Seen};
use crate::config::address::{ClientAddress, Detection};
use crate::config::http_manager::{ForwardClientCert, PrefixedHeaders, SchemeOverride};
use crate::connection::Connection;
use crate::connection::peer::PeerCertificate;
use crate::fault::Fault;
use crate::message::head::Head;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_CLIENT_CERT: HeaderName = HeaderName::from_static("x-forwarded-client-cert");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a client is to this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It counts as internal.
    Internal,
    /// It is outside, and connects to this proxy itself.
    AtEdge,
    /// It is outside, and who it is was told by a proxy before this one.
    Beyond,
}

/// The client's address, who may be trusted, and what follows: Envoy's `mutateRequestHeaders`.
pub(super) fn identify(connection: &Connection, head: &mut Head, seen: &Seen, notes: &mut Notes) -> Result<(), Fault> {
    let manager = connection.manager();
    let settings = &manager.client_address;
    let may_be_internal = find_client(connection, settings, head, seen)?;
    if let SchemeOverride::Fixed(scheme) = manager.scheme {
        head.scheme = scheme;
        head.headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(scheme));
    }
    let client = match settings.use_remote_address {
        true => Some(head.client.unwrap_or(connection.client.ip().to_canonical())),
        false => head.client,
    };
    let standing = match may_be_internal && client.is_some_and(|client| settings.is_internal(client)) {
        true => Standing::Internal,
        false if settings.use_remote_address => Standing::AtEdge,
        false => Standing::Beyond,
    };
    notes.internal = standing == Standing::Internal;
    if !notes.internal && seen.prefixed {
        remove_untrusted(&manager.prefixed, standing, &mut head.headers);
        notes.prefixed = false;
    }
    let (mode, own) = (manager.forward_client_cert, connection.certificate.as_deref());
    tell_certificate(mode, own, &mut head.headers, seen.client_cert);
    let names = &manager.prefixed;
    match standing {
        Standing::Internal => {
            head.headers
                .insert(names.internal.clone(), HeaderValue::from_static("true"));
        }
        Standing::AtEdge => {
            if let Some(value) = external_address(connection, client) {
                head.headers.insert(names.external_address.clone(), value);
            }
        }
        Standing::Beyond => {}
    }
    let id = manager.request_id;
    let is_replaced = standing == Standing::AtEdge && !id.preserve_external;
    if id.generate && (is_replaced || !(seen.request_id && has_one_request_id(&head.headers))) {
        head.headers.insert(X_REQUEST_ID, connection.worker.random.uuid());
    }
    Ok(())
}

/// Finds the client's address, and tells backends about it and the scheme. Gives whether the client may be internal.
fn find_client(connection: &Connection, settings: &ClientAddress, head: &mut Head, seen: &Seen) -> Result<bool, Fault> {
    let hops = settings.xff_trusted_hops as usize;
    if settings.use_remote_address {
        if hops > 0 && seen.forwarded_for {
            head.client = forwarded(&head.headers, hops - 1);
        }
        if !settings.skip_xff_append {
            append_forwarded_for(connection, &mut head.headers, seen.forwarded_for);
        }
        if hops == 0 || !head.headers.contains_key(X_FORWARDED_PROTO) {
            head.headers
                .insert(X_FORWARDED_PROTO, HeaderValue::from_static(head.scheme));
        }
        return Ok(!seen.forwarded_for);
    }
    let found = match &settings.detection {
        None if !seen.forwarded_for => Found {
            client: None,
            is_trusted: true,
        },
        None => Found {
            client: forwarded(&head.headers, hops),
            is_trusted: forwarded(&head.headers, 1).is_none(),
        },
        Some(detection) => detect(detection, connection, &mut head.headers)?,
    };
    head.client = found.client;
    take_scheme(head, seen);
    Ok(found.is_trusted)
}

/// Removes what a client from outside may not say.
fn remove_untrusted(names: &PrefixedHeaders, standing: Standing, headers: &mut HeaderMap) {
    let edge_only = match standing {
        Standing::AtEdge => &*names.edge_only,
        Standing::Internal | Standing::Beyond => &[],
    };
    for name in edge_only.iter().chain(&names.internal_only).chain(&names.consumed) {
        headers.remove(name);
    }
    headers.remove(&names.internal);
}

/// The address of a client at the edge, as backends are told it.
fn external_address(connection: &Connection, client: Option<IpAddr>) -> Option<HeaderValue> {
    match client {
        Some(client) if client != connection.client.ip().to_canonical() => {
            HeaderValue::from_str(&client.to_string()).ok()
        }
        _ => Some(connection.client_text.clone()),
    }
}

/// What a proxy before this one says that the client spoke, which the backend is told.
fn take_scheme(head: &mut Head, seen: &Seen) {
    let told = match seen.forwarded_proto {
        true => head.headers.get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes),
        false => None,
    };
    match told {
        Some(b"https") => head.scheme = "https",
        Some(b"http") => head.scheme = "http",
        _ => {
            head.headers
                .insert(X_FORWARDED_PROTO, HeaderValue::from_static(head.scheme));
        }
    }
}

/// Where a client was found.
#[derive(Clone, Copy, Default)]
struct Found {
    /// `None` when nobody who is trusted says anything that makes sense.
    client: Option<IpAddr>,
    /// It may make the request internal.
    is_trusted: bool,
}

fn detect(detection: &Detection, connection: &Connection, headers: &mut HeaderMap) -> Result<Found, Fault> {
    match detection {
        Detection::Networks { trusted, skip_append } => {
            let is_ours = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
            let is_proxy = is_ours(connection.client.ip());
            let found = match is_proxy {
                true => behind(headers, is_ours),
                false => Found::default(),
            };
            if !is_proxy || !skip_append {
                let is_there = headers.contains_key(X_FORWARDED_FOR);
                append_forwarded_for(connection, headers, is_there);
            }
            Ok(found)
        }
        Detection::Header {
            name,
            is_trusted,
            missing,
        } => {
            let text = headers.get(name).and_then(|value| value.to_str().ok());
            let client: Option<IpAddr> = text.and_then(|text| text.trim().parse().ok());
            match (client, missing) {
                (None, Some(status)) => Err(Fault::NoClientAddress(*status)),
                _ => Ok(Found {
                    client,
                    is_trusted: *is_trusted,
                }),
            }
        }
    }
}

/// The last entry of `x-forwarded-for` that is none of ours, or the first. One that is no address hides all before it.
fn behind(headers: &HeaderMap, is_ours: impl Fn(IpAddr) -> bool) -> Found {
    let mut last = None;
    let mut count = 0;
    for value in headers.get_all(X_FORWARDED_FOR).iter().rev() {
        let entries = value.to_str().unwrap_or("?").rsplit(',');
        for entry in entries {
            let Ok(address) = entry.trim().parse::<IpAddr>() else {
                return Found::default();
            };
            count += 1;
            last = Some(address);
            if !is_ours(address) {
                let is_only = forwarded(headers, 1).is_none();
                return Found {
                    client: last,
                    is_trusted: count == 1 && is_only,
                };
            }
        }
    }
    Found {
        client: last,
        is_trusted: count == 1,
    }
}

/// What the backend is told of certificates: what the client says of others', and what its own is.
fn tell_certificate(mode: ForwardClientCert, own: Option<&PeerCertificate>, headers: &mut HeaderMap, is_there: bool) {
    let told = match (mode, own) {
        (ForwardClientCert::AlwaysForwardOnly, _) | (ForwardClientCert::ForwardOnly, Some(_)) => {
            // In one line, as who reads only the first would miss what others have added.
            let lines = headers.get_all(X_FORWARDED_CLIENT_CERT).iter();
            if lines.count() < 2 {
                return;
            }
            in_one_line(headers, None)
        }
        (ForwardClientCert::AppendForward(details), Some(own)) => {
            let Some(told) = own.text(details) else { return };
            in_one_line(headers, Some(&told))
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

/// What was said of certificates before, and one more.
fn in_one_line(headers: &HeaderMap, last: Option<&HeaderValue>) -> Option<HeaderValue> {
    let lines = headers.get_all(X_FORWARDED_CLIENT_CERT).iter().chain(last);
    let elements: Vec<&[u8]> = lines
        .map(HeaderValue::as_bytes)
        .filter(|line| !line.is_empty())
        .collect();
    HeaderValue::from_bytes(&elements.join(&b","[..])).ok()
}

/// Whether there is an id to keep: with several, logs along the way would choose different ones.
fn has_one_request_id(headers: &HeaderMap) -> bool {
    let mut ids = headers.get_all(X_REQUEST_ID).iter();
    ids.next().is_some_and(|id| !id.is_empty()) && ids.next().is_none()
}

/// The entry of `x-forwarded-for` that is `skip` places from its right end.
pub(crate) fn forwarded(headers: &HeaderMap, skip: usize) -> Option<IpAddr> {
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
    let own = &connection.client_text;
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
