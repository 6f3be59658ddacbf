//! What the connection manager does to a request before it is routed.
//!
//! The authority, the path, refusals, hop-by-hop fields (RFC 9110 §7.6.1), the client's address, and the fields
//! that only this proxy may set. The rules are those of Envoy's HTTP connection manager; `x-envoy-` is the configured
//! prefix. Why one scan: most requests carry none of the fields that need work, and looking for each would cost more
//! than looking at all once.
//! Smuggling (RFC 9112 §6.3): the message was framed by the codec before it comes here; fields about its framing are
//! removed, and the codec towards the backend frames it anew.

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::uri::{self, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Version};
use hyper::ext::Protocol as ExtendedProtocol;

use crate::authority::{Authority, without_trailing_dot};
use crate::config::header::StringCondition;
use crate::config::http_manager::{PrefixedHeaders, StripPort, UnderscoreAction, Upgrade};
use crate::config::protocol::Http1Options;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::http::edits::{self, Scene};
use crate::http::path::{Normalized, normalize};
use crate::message::head::{Head, NotATarget, Spelled};

mod client;
#[cfg(test)]
mod tests;

pub(crate) use client::{X_REQUEST_ID, forwarded};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Why a request goes no further.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By a fault.
    Fault(Fault),
    /// 307 to this path and query on the same authority.
    Redirect(String),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was found out about an admitted request besides its head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The protocol it wants to switch to, lower case.
    pub(crate) upgrade: Option<Box<str>>,
    /// The client is trusted: fields that only this proxy may set were kept.
    pub(crate) internal: bool,
    /// A field with the configured prefix is there.
    pub(crate) prefixed: bool,
    /// `te: trailers` was there.
    pub(crate) te_trailers: bool,
    /// In which version it came.
    pub(crate) version: Version,
}

/// Fields that were seen; see [`scan`].
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
struct Seen {
    connection: bool,
    keep_alive: bool,
    proxy_connection: bool,
    te: bool,
    trailer: bool,
    transfer_encoding: bool,
    upgrade: bool,
    expect: bool,
    underscore: bool,
    prefixed: bool,
    forwarded_for: bool,
    forwarded_proto: bool,
    request_id: bool,
    client_cert: bool,
    cookie: bool,
}

fn scan(headers: &HeaderMap, prefix: &str) -> Seen {
    let mut seen = Seen::default();
    for name in headers.keys() {
        let name = name.as_str();
        match name {
            "connection" => seen.connection = true,
            "keep-alive" => seen.keep_alive = true,
            "proxy-connection" => seen.proxy_connection = true,
            "te" => seen.te = true,
            "trailer" => seen.trailer = true,
            "transfer-encoding" => seen.transfer_encoding = true,
            "upgrade" => seen.upgrade = true,
            "expect" => seen.expect = true,
            "x-forwarded-for" => seen.forwarded_for = true,
            "x-forwarded-proto" => seen.forwarded_proto = true,
            "x-request-id" => seen.request_id = true,
            "x-forwarded-client-cert" => seen.client_cert = true,
            "cookie" => seen.cookie = true,
            _ => {
                seen.underscore |= name.contains('_');
                seen.prefixed |= name.starts_with(prefix);
            }
        }
    }
    seen
}

/// `x-envoy-` under the configured prefix.
fn prefix_of(prefixed: &PrefixedHeaders) -> &str {
    let name = prefixed.internal.as_str();
    name.strip_suffix("internal").unwrap_or(name)
}

/// Takes a request in.
pub(crate) fn admit(connection: &Connection, parts: Parts) -> (Box<Head>, Result<Notes, Refusal>) {
    let manager = connection.manager();
    let Parts {
        method,
        uri,
        version,
        headers,
        mut extensions,
        ..
    } = parts;
    let spelling = extensions.remove::<Spelled>();
    let mut uri = uri.into_parts();
    let mut head = Box::new(Head {
        method,
        scheme: if connection.is_secure() { "https" } else { "http" },
        authority: HeaderValue::from_static(""),
        target: uri
            .path_and_query
            .take()
            .unwrap_or_else(|| PathAndQuery::from_static("/")),
        headers,
        random: connection.worker.random.next(),
        client: None,
        spelling: spelling.map(|spelling| spelling.0),
    });
    let mut seen = scan(&head.headers, prefix_of(&manager.prefixed));
    let mut notes = Notes {
        prefixed: seen.prefixed,
        version,
        ..Notes::default()
    };
    let extended = extensions.get::<ExtendedProtocol>();
    let checked = check(connection, &head, &uri, version)
        .and_then(|()| take_authority(&mut head, uri.authority.as_ref(), version, &manager.http1))
        .and_then(|()| remove_unwanted(connection, &mut head.headers, &seen));
    if checked.is_ok() && !manager.early_edits.is_empty() {
        edits::edit_request(&mut head, &manager.early_edits, Scene::of(connection));
        seen = scan(&head.headers, prefix_of(&manager.prefixed));
        notes.prefixed = seen.prefixed;
    }
    let checked = checked
        .and_then(|()| note_upgrade(&mut head, &mut notes, &seen, &manager.http1.ignored_upgrades, extended))
        .map(|()| remove_hop_by_hop(&mut head.headers, &seen, &mut notes));
    if let Err(fault) = checked {
        return (head, Err(fault.into()));
    }
    if let Some(protocol) = notes
        .upgrade
        .as_deref()
        .filter(|protocol| *protocol != Upgrade::CONNECT)
    {
        // Routes, filters and logs see what is asked for; a backend is asked by the codec.
        restore_upgrade(&mut head.headers, protocol);
    }
    trim_authority(connection, &mut head);
    if seen.cookie && version == Version::HTTP_2 {
        join_cookies(&mut head.headers);
    }
    if let Err(fault) = client::identify(connection, &mut head, &seen, &mut notes) {
        return (head, Err(fault.into()));
    }
    if let Some(via) = &manager.via {
        head.headers.append(header::VIA, via.clone());
    }
    let normalized = normalize_target(connection, &mut head);
    (head, normalized.map(|()| notes))
}

/// Whether a head is one that this listener serves.
fn check(connection: &Connection, head: &Head, uri: &uri::Parts, version: Version) -> Result<(), Fault> {
    check_version(connection, version)?;
    check_count(connection, &head.headers)?;
    check_method(connection, &head.method, version)?;
    check_http2(&head.headers, uri.scheme.as_ref(), version)
}

/// Removes the fields that the listener or the client itself wants gone, once it is clear where the content ends.
fn remove_unwanted(connection: &Connection, headers: &mut HeaderMap, seen: &Seen) -> Result<(), Fault> {
    check_framing(headers, seen)?;
    treat_underscores(connection, headers, seen)?;
    remove_nominated(headers, seen)
}

fn check_version(connection: &Connection, version: Version) -> Result<(), Fault> {
    if version < Version::HTTP_11 && !connection.manager().http1.accept_http_10 {
        return Err(Fault::UpgradeRequired);
    }
    Ok(())
}

/// The methods of HTTP/1 that Envoy knows: whoever means one of them and writes it in small letters, or writes
/// something else that a backend may take for it, would get round rules about methods.
const METHODS: [&str; 35] = [
    "ACL",
    "BIND",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MOVE",
    "M-SEARCH",
    "NOTIFY",
    "OPTIONS",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SOURCE",
    "SUBSCRIBE",
    "TRACE",
    "UNBIND",
    "UNLINK",
    "UNLOCK",
    "UNSUBSCRIBE",
];

fn check_method(connection: &Connection, method: &Method, version: Version) -> Result<(), Fault> {
    let is_usual = matches!(
        *method,
        Method::GET | Method::POST | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS | Method::PATCH
    );
    if is_usual
        || version == Version::HTTP_2
        || connection.manager().http1.allow_custom_methods
        || METHODS.contains(&method.as_str())
    {
        return Ok(());
    }
    Err(Fault::BadRequest)
}

/// What the codec of HTTP/2 leaves to us (RFC 9113 §8.1.1 and §8.3.1). That of HTTP/1 refuses a second length itself.
fn check_http2(headers: &HeaderMap, scheme: Option<&Scheme>, version: Version) -> Result<(), Fault> {
    let has_two_lengths = || headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some();
    if version == Version::HTTP_2 && (scheme.is_some_and(|scheme| scheme.as_str().is_empty()) || has_two_lengths()) {
        return Err(Fault::BadRequest);
    }
    Ok(())
}

fn check_count(connection: &Connection, headers: &HeaderMap) -> Result<(), Fault> {
    if headers.len() > connection.manager().max_request_headers {
        connection.cells().downstream_rq_too_large.inc();
        return Err(Fault::HeadTooLarge);
    }
    Ok(())
}

/// What can be in a host with its port (RFC 3986 §3.2.2).
const IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_graphic();
        byte += 1;
    }
    let not = *b"/\\@?#\"<>^`{|}";
    let mut at = 0;
    while at < not.len() {
        table[not[at] as usize] = false;
        at += 1;
    }
    table
};

/// RFC 9112 §3.2: exactly one Host, which an absolute request target overrides. RFC 9113 §8.3.1: `:authority` wins.
fn take_authority(
    head: &mut Head,
    authority: Option<&http::uri::Authority>,
    version: Version,
    options: &Http1Options,
) -> Result<(), Fault> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Fault::BadRequest);
    }
    let value = match (authority, host) {
        // A request in HTTP/1 needs its Host even when the target has an authority.
        (Some(_), None) if version == Version::HTTP_11 => return Err(Fault::BadRequest),
        (Some(authority), _) => HeaderValue::from_str(authority.as_str()).map_err(|_| Fault::BadRequest)?,
        (None, Some(host)) => host.clone(),
        (None, None) => {
            let default = options.default_host.as_ref().filter(|_| version == Version::HTTP_10);
            default.ok_or(Fault::BadRequest)?.clone()
        }
    };
    // What can't be in a host must not reach routing or the backend.
    if !value.as_bytes().iter().all(|byte| IN_HOST[usize::from(*byte)]) {
        return Err(Fault::BadRequest);
    }
    head.authority = value;
    Ok(())
}

/// The codec took `chunked` off. Any other coding would reach the backend as if it were the content.
fn check_framing(headers: &HeaderMap, seen: &Seen) -> Result<(), Fault> {
    if !seen.transfer_encoding {
        return Ok(());
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (Some(only), None) if only.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Fault::TransferCoding),
    }
}

fn treat_underscores(connection: &Connection, headers: &mut HeaderMap, seen: &Seen) -> Result<(), Fault> {
    if !seen.underscore {
        return Ok(());
    }
    match connection.manager().underscores {
        UnderscoreAction::Allow => Ok(()),
        UnderscoreAction::Reject => {
            connection.cells().downstream_rq_rejected_via_underscores.inc();
            Err(Fault::BadRequest)
        }
        UnderscoreAction::Drop => {
            let names: Vec<HeaderName> = headers
                .keys()
                .filter(|name| name.as_str().contains('_'))
                .cloned()
                .collect();
            for name in names {
                headers.remove(name);
            }
            Ok(())
        }
    }
}

/// HTTP/1.1 `upgrade` (RFC 9110 §7.8) and the extended CONNECT of HTTP/2 (RFC 8441) become the same thing here.
fn note_upgrade(
    head: &mut Head,
    notes: &mut Notes,
    seen: &Seen,
    ignored: &[StringCondition],
    extended: Option<&ExtendedProtocol>,
) -> Result<(), Fault> {
    if let Some(protocol) = extended {
        notes.upgrade = Some(protocol.as_str().to_ascii_lowercase().into());
        head.method = Method::GET;
        return Ok(());
    }
    if head.method == Method::CONNECT {
        // RFC 9110 §9.3.6: it has no content, and what comes behind it is the tunnel's.
        let length = head.headers.get(header::CONTENT_LENGTH);
        if length.is_some_and(|length| length.as_bytes() != b"0") {
            return Err(Fault::BadRequest);
        }
        if seen.transfer_encoding {
            return Err(Fault::TransferCoding);
        }
        notes.upgrade = Some(Upgrade::CONNECT.into());
        return Ok(());
    }
    if !seen.upgrade || !seen.connection || !lists_token(&head.headers, &header::CONNECTION, "upgrade") {
        return Ok(());
    }
    let Some(protocols) = head.headers.get(header::UPGRADE).and_then(|value| value.to_str().ok()) else {
        return Ok(());
    };
    // Upgrading to HTTP/2 in cleartext is obsolete (RFC 9113 §3.1): the request is served as HTTP/1.1.
    let is_wanted = |protocol: &&str| {
        !protocol.eq_ignore_ascii_case("h2c") && !ignored.iter().any(|condition| condition.matches(protocol))
    };
    let wanted: Vec<&str> = protocols.split(',').map(str::trim).filter(is_wanted).collect();
    if !wanted.is_empty() {
        notes.upgrade = Some(wanted.join(",").to_ascii_lowercase().into());
    }
    Ok(())
}

fn lists_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(token))
}

/// The authority as the listener wants it, in Envoy's order. Where there is nothing to be cut it stays as it is.
fn trim_authority(connection: &Connection, head: &mut Head) {
    let manager = connection.manager();
    if manager.strip_trailing_host_dot
        && let Some(bare) = without_trailing_dot(head.authority_text())
        && let Ok(bare) = HeaderValue::from_str(&bare)
    {
        head.authority = bare;
    }
    let own = connection.local.port();
    if let Some(bare) = without_unwanted_port(head.authority_text(), manager.strip_port, own)
        && let Ok(bare) = HeaderValue::from_str(bare)
    {
        head.authority = bare;
    }
}

/// Without its port, if it has one that is to go. What isn't a number isn't a port.
fn without_unwanted_port(text: &str, unwanted: StripPort, own: u16) -> Option<&str> {
    if unwanted == StripPort::Keep {
        return None;
    }
    let authority = Authority::of(text);
    let port = authority.port_number()?;
    (unwanted == StripPort::Any || port == u32::from(own)).then_some(authority.host)
}

/// RFC 9113 §8.2.3: crumbs of a cookie are one field for whoever isn't HTTP/2, and most servers read the first only.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs = headers.get_all(header::COOKIE);
    if crumbs.iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = crumbs.iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_maybe_shared(Bytes::from(crumbs.join(&b"; "[..]))) {
        headers.insert(header::COOKIE, joined);
    }
}

/// RFC 9110 §7.6.1, and `expect`, which this proxy has answered itself. What `connection` names is gone already.
fn remove_hop_by_hop(headers: &mut HeaderMap, seen: &Seen, notes: &mut Notes) {
    if seen.te {
        notes.te_trailers = lists_token(headers, &header::TE, "trailers");
        headers.remove(header::TE);
    }
    let fields = [
        (seen.connection, header::CONNECTION),
        (seen.keep_alive, KEEP_ALIVE),
        (seen.proxy_connection, PROXY_CONNECTION),
        (seen.trailer, header::TRAILER),
        (seen.transfer_encoding, header::TRANSFER_ENCODING),
        (seen.upgrade, header::UPGRADE),
        (seen.expect, header::EXPECT),
    ];
    for (there, name) in fields {
        if there {
            headers.remove(name);
        }
    }
}

/// As many fields as a client may name in `connection`, as with Envoy: each costs a look.
const MAX_NOMINATED: usize = 9;

/// Removes the fields that `connection` names, of those that were received: what is put in their place afterwards
/// isn't the client's to take away. A client that names those by which a proxy says who asked for what wants to hide
/// something from the backend: its request is refused.
fn remove_nominated(headers: &mut HeaderMap, seen: &Seen) -> Result<(), Fault> {
    if !seen.connection {
        return Ok(());
    }
    let values: smallvec::SmallVec<[HeaderValue; 1]> = headers.get_all(header::CONNECTION).iter().cloned().collect();
    let texts = values.iter().filter_map(|value| value.to_str().ok());
    let tokens = texts.flat_map(|text| text.split(',').map(str::trim).filter(|token| !token.is_empty()));
    for (index, token) in tokens.enumerate() {
        let is_one_of = |names: &[&str]| names.iter().any(|name| token.eq_ignore_ascii_case(name));
        let protected = ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];
        if index >= MAX_NOMINATED || token.starts_with(':') || is_one_of(&protected) {
            return Err(Fault::BadRequest);
        }
        if !is_one_of(&["close", "keep-alive", "upgrade", "te", "content-length", "connection"]) {
            headers.remove(token);
        }
    }
    Ok(())
}

fn normalize_target(connection: &Connection, head: &mut Head) -> Result<(), Refusal> {
    let settings = connection.manager().path;
    match normalize(head.target.as_str(), settings) {
        Normalized::Same => Ok(()),
        Normalized::Changed(target) => {
            let taken = head.set_target(&target);
            taken.map_err(|NotATarget| Refusal::Fault(Fault::BadRequest))
        }
        Normalized::Redirect(target) => {
            connection.cells().downstream_rq_redirected_with_normalized_path.inc();
            Err(Refusal::Redirect(target))
        }
        Normalized::Reject => {
            connection.cells().downstream_rq_failed_path_normalization.inc();
            Err(Refusal::Fault(Fault::BadRequest))
        }
    }
}

/// Puts back what an upgrade is asked for with, or granted.
pub(crate) fn restore_upgrade(headers: &mut HeaderMap, protocol: &str) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(value) = HeaderValue::from_str(protocol) {
        headers.insert(header::UPGRADE, value);
    }
}
