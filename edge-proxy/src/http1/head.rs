//! Heads: start lines and fields (RFC 9112 §2 to §5).
//!
//! Takes a head off the front of what was read and makes `http` types of it; field values are slices of the bytes
//! that were read. On the way it notes what the codec needs: the framing, whether the connection stays, whether the
//! client waits for a 100. `httparse` knows the grammar: a space before the colon, folded lines, bare CR, NUL and
//! control characters are errors.
//! Why [`Unfinished`]: a head that arrives byte by byte must not be parsed anew for every byte.

use std::mem::MaybeUninit;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use httparse::{Header, Status};
use smallvec::SmallVec;

use crate::http1::Malformed;
use crate::http1::framing::{Fields, Framing};

#[cfg(test)]
mod tests;

/// How large a head may be, and what is kept of it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole head.
    pub bytes: usize,
    /// Fields.
    pub fields: usize,
    /// How names of fields were written.
    pub names: Names,
}

/// What is kept of how names of fields were written; case means nothing in them (RFC 9110 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Nothing.
    #[default]
    Lowered,
    /// The first form of each.
    AsWritten,
}

/// Names of fields as they were written.
pub type Spelling = HeaderMap<Bytes>;

/// How much of an unfinished head has been looked at in vain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfinished {
    seen: usize,
}

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The request target: origin form, absolute form, `*`, or an authority after CONNECT.
    pub uri: Uri,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: HeaderMap,
    /// What follows.
    pub framing: Framing,
    /// The client means to send another request on this connection.
    pub keep_alive: bool,
    /// The client waits for a 100 before it sends the body.
    pub expects_continue: bool,
    /// How names were written, where that is kept.
    pub spelling: Option<Arc<Spelling>>,
}

/// The head of a response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields.
    pub headers: HeaderMap,
    /// What follows.
    pub framing: Framing,
    /// The backend takes another request on this connection.
    pub keep_alive: bool,
    /// How names were written, where that is kept.
    pub spelling: Option<Arc<Spelling>>,
}

/// Fields that are parsed without heap memory; also the usual limit.
const USUAL_FIELDS: usize = 100;

type Slots<'b> = [MaybeUninit<Header<'b>>];

/// Calls `parse` with room for as many fields as allowed.
fn with_slots<'b, T>(fields: usize, parse: impl FnOnce(&mut Slots<'b>) -> T) -> T {
    if fields <= USUAL_FIELDS {
        parse(&mut [const { MaybeUninit::uninit() }; USUAL_FIELDS][..fields])
    } else {
        let mut slots = Vec::new();
        slots.resize_with(fields, MaybeUninit::uninit);
        parse(&mut slots)
    }
}

impl Unfinished {
    /// Whether `buffer` may hold a whole head: parsing is worth the time.
    fn may_be_complete(self, buffer: &[u8]) -> bool {
        // The first look always parses, so that nonsense is refused without waiting for an empty line.
        if self.seen == 0 {
            return true;
        }
        let fresh = &buffer[self.seen.saturating_sub(3).min(buffer.len())..];
        fresh
            .iter()
            .enumerate()
            .any(|(at, byte)| *byte == b'\n' && matches!(&fresh[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
    }

    /// What a look at `buffer` without result means.
    fn look_again(&mut self, buffer: &[u8], limits: Limits) -> Result<(), Malformed> {
        self.seen = buffer.len();
        if buffer.len() >= limits.bytes {
            Err(Malformed::HeadTooLarge)
        } else {
            Ok(())
        }
    }
}

/// Takes the head of a request off `buffer`; `None` when more must be read first. `headers` is used for the fields.
pub fn request(
    buffer: &mut BytesMut,
    unfinished: &mut Unfinished,
    limits: Limits,
    headers: &mut HeaderMap,
) -> Result<Option<RequestHead>, Malformed> {
    if !unfinished.may_be_complete(buffer) {
        return unfinished.look_again(buffer, limits).map(|()| None);
    }
    let mut fields = Placed::new();
    let parsed = with_slots(limits.fields, |slots| {
        let mut request = httparse::Request::new(&mut []);
        let status = request.parse_with_uninit_headers(buffer, slots).map_err(of_httparse)?;
        let Status::Complete(len) = status else { return Ok(None) };
        let method = Method::from_bytes(request.method.unwrap_or("").as_bytes()).map_err(|_| Malformed::Head)?;
        let target = place(buffer, request.path.unwrap_or("").as_bytes());
        collect(buffer, request.headers, &mut fields)?;
        let written = written(buffer, request.headers, limits.names);
        Ok(Some((len, method, target, request.version, written)))
    })?;
    let Some((len, method, target, version, written)) = parsed else {
        return unfinished.look_again(buffer, limits).map(|()| None);
    };
    if len > limits.bytes {
        return Err(Malformed::HeadTooLarge);
    }
    *unfinished = Unfinished::default();
    let bytes = buffer.split_to(len).freeze();
    let version = version_of(version);
    let uri = self::target(&method, bytes.slice(target.0..target.1))?;
    let spelling = (limits.names == Names::AsWritten).then(|| Arc::new(spelling(&bytes, &fields, &written)));
    let notes = fill(headers, &bytes, &mut fields)?;
    let framing = notes.framing.of_request()?;
    Ok(Some(RequestHead {
        expects_continue: notes.expects_continue && version == Version::HTTP_11 && framing != Framing::Empty,
        keep_alive: notes.keep_alive(version),
        method,
        uri,
        version,
        headers: std::mem::take(headers),
        framing,
        spelling,
    }))
}

/// Takes the head of a response off `buffer`; `None` when more must be read first. `method` is that of the request.
pub fn response(
    buffer: &mut BytesMut,
    unfinished: &mut Unfinished,
    limits: Limits,
    method: &Method,
    headers: &mut HeaderMap,
) -> Result<Option<ResponseHead>, Malformed> {
    if !unfinished.may_be_complete(buffer) {
        return unfinished.look_again(buffer, limits).map(|()| None);
    }
    let mut fields = Placed::new();
    let parsed = with_slots(limits.fields, |slots| {
        let mut response = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, buffer, slots)
            .map_err(of_httparse)?;
        let Status::Complete(len) = status else { return Ok(None) };
        let status = StatusCode::from_u16(response.code.unwrap_or(0)).map_err(|_| Malformed::Head)?;
        collect(buffer, response.headers, &mut fields)?;
        let written = written(buffer, response.headers, limits.names);
        Ok(Some((len, status, response.version, written)))
    })?;
    let Some((len, status, version, written)) = parsed else {
        return unfinished.look_again(buffer, limits).map(|()| None);
    };
    if len > limits.bytes {
        return Err(Malformed::HeadTooLarge);
    }
    *unfinished = Unfinished::default();
    let bytes = buffer.split_to(len).freeze();
    let version = version_of(version);
    let spelling = (limits.names == Names::AsWritten).then(|| Arc::new(spelling(&bytes, &fields, &written)));
    let notes = fill(headers, &bytes, &mut fields)?;
    let framing = notes.framing.of_response(status, method)?;
    Ok(Some(ResponseHead {
        keep_alive: notes.keep_alive(version) && framing != Framing::UntilClose,
        status,
        version,
        headers: std::mem::take(headers),
        framing,
        spelling,
    }))
}

/// Trailer fields (RFC 9112 §7.1.2) at the front of `buffer`, up to and with the empty line.
pub(crate) fn trailers(buffer: &mut BytesMut, limits: Limits) -> Result<Option<HeaderMap>, Malformed> {
    let mut slots = [httparse::EMPTY_HEADER; USUAL_FIELDS];
    let mut fields = Placed::new();
    let len = match httparse::parse_headers(buffer, &mut slots[..limits.fields.min(USUAL_FIELDS)]) {
        Ok(Status::Partial) if buffer.len() >= limits.bytes => return Err(Malformed::HeadTooLarge),
        Ok(Status::Partial) => return Ok(None),
        Ok(Status::Complete((len, _))) if len > limits.bytes => return Err(Malformed::HeadTooLarge),
        Ok(Status::Complete((len, found))) => {
            collect(buffer, found, &mut fields)?;
            len
        }
        Err(error) => return Err(of_httparse(error)),
    };
    let bytes = buffer.split_to(len).freeze();
    if has_bare_line_feed(&bytes) {
        return Err(Malformed::Chunk);
    }
    let mut trailers = HeaderMap::new();
    for (name, value) in fields {
        // RFC 9110 §6.5.1: what frames or routes a message, or controls it, has no meaning behind it.
        if !is_forbidden_in_trailers(&name) {
            trailers.append(name, slice(&bytes, value)?);
        }
    }
    Ok(Some(trailers))
}

fn has_bare_line_feed(bytes: &[u8]) -> bool {
    let mut before = 0;
    for byte in bytes {
        if *byte == b'\n' && before != b'\r' {
            return true;
        }
        before = *byte;
    }
    false
}

/// Whether a field has no meaning behind a message, or the wrong one (RFC 9110 §6.5.1).
pub(crate) fn is_forbidden_in_trailers(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "content-length"
            | "transfer-encoding"
            | "host"
            | "connection"
            | "keep-alive"
            | "upgrade"
            | "te"
            | "trailer"
            | "expect"
            | "content-encoding"
            | "content-type"
            | "content-range"
            | "authorization"
            | "set-cookie"
    )
}

fn of_httparse(error: httparse::Error) -> Malformed {
    match error {
        httparse::Error::TooManyHeaders => Malformed::HeadTooLarge,
        _ => Malformed::Head,
    }
}

fn version_of(minor: Option<u8>) -> Version {
    if minor == Some(1) {
        Version::HTTP_11
    } else {
        Version::HTTP_10
    }
}

/// Start and end of a part of the buffer.
type Place = (usize, usize);

/// Where `part` lies in `whole`, of which it is a slice.
fn place(whole: &[u8], part: &[u8]) -> Place {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    (start, start + part.len())
}

fn slice(bytes: &Bytes, (start, end): Place) -> Result<HeaderValue, Malformed> {
    HeaderValue::from_maybe_shared(bytes.slice(start..end)).map_err(|_| Malformed::Head)
}

/// Fields whose values are still places in the buffer.
type Placed = SmallVec<[(HeaderName, Place); 16]>;

fn collect(buffer: &[u8], fields: &[Header<'_>], placed: &mut Placed) -> Result<(), Malformed> {
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed::Head)?;
        placed.push((name, place(buffer, field.value)));
    }
    Ok(())
}

/// Where names of fields lie, as far as that is kept.
fn written(buffer: &[u8], fields: &[Header<'_>], names: Names) -> Vec<Place> {
    match names {
        Names::Lowered => Vec::new(),
        Names::AsWritten => fields
            .iter()
            .map(|field| place(buffer, field.name.as_bytes()))
            .collect(),
    }
}

fn spelling(bytes: &Bytes, fields: &Placed, written: &[Place]) -> Spelling {
    let mut spelling = Spelling::with_capacity(fields.len());
    for ((name, _), (start, end)) in fields.iter().zip(written) {
        spelling.entry(name).or_insert_with(|| bytes.slice(*start..*end));
    }
    spelling
}

/// What the codec itself reads in the fields.
#[derive(Debug, Default)]
struct Notes {
    framing: Fields,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Notes {
    /// RFC 9112 §9.3.
    fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::HTTP_11 || self.keep_alive) && !self.framing.ends_connection(version)
    }

    fn connection(&mut self, value: &[u8]) {
        for token in value.split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            self.close |= token.eq_ignore_ascii_case(b"close");
            self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

fn fill(headers: &mut HeaderMap, bytes: &Bytes, fields: &mut Placed) -> Result<Notes, Malformed> {
    let mut notes = Notes::default();
    headers.clear();
    headers.reserve(fields.len() + ROOM_FOR_OWN);
    for (name, value) in fields.drain(..) {
        let value = slice(bytes, value)?;
        match name {
            header::CONTENT_LENGTH => notes.framing.length(value.as_bytes())?,
            header::TRANSFER_ENCODING => notes.framing.coding(value.as_bytes())?,
            header::CONNECTION => notes.connection(value.as_bytes()),
            header::EXPECT => notes.expects_continue |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
        headers.append(name, value);
    }
    Ok(notes)
}

/// Fields that the proxy usually adds: the map need not grow for them.
const ROOM_FOR_OWN: usize = 6;

/// RFC 9112 §3.2: which form a target may have depends on the method.
fn target(method: &Method, bytes: Bytes) -> Result<Uri, Malformed> {
    let mut plain = true;
    for byte in &bytes {
        // A URI is of ASCII, and a fragment is never sent (RFC 9110 §4.2.5); cutting it off would be a guess.
        if !byte.is_ascii_graphic() || *byte == b'#' {
            return Err(Malformed::Head);
        }
        plain &= !matches!(byte, b'"' | b'<' | b'>' | b'`');
    }
    let origin = bytes.first() == Some(&b'/');
    let bytes = if plain || !origin { bytes } else { escaped(&bytes) };
    let asterisk = bytes.as_ref() == b"*";
    let uri = Uri::from_maybe_shared(bytes).map_err(|_| Malformed::Head)?;
    let allowed = match uri.scheme_str() {
        _ if *method == Method::CONNECT => uri.authority().is_some() && uri.scheme().is_none(),
        Some("http" | "https") => uri.authority().is_some(),
        Some(_) => false,
        None => origin || (asterisk && *method == Method::OPTIONS),
    };
    if allowed { Ok(uri) } else { Err(Malformed::Head) }
}

/// A target with escapes for what some clients send as it is though it can't stand there (RFC 3986 §3.3 and §3.4). A
/// quote in a path is for its normalisation to deal with.
fn escaped(target: &[u8]) -> Bytes {
    let mut escaped = BytesMut::with_capacity(target.len() + 16);
    let mut query = false;
    for byte in target {
        match byte {
            b'<' => escaped.extend_from_slice(b"%3C"),
            b'>' => escaped.extend_from_slice(b"%3E"),
            b'`' if !query => escaped.extend_from_slice(b"%60"),
            b'"' if query => escaped.extend_from_slice(b"%22"),
            other => escaped.extend_from_slice(&[*other]),
        }
        query |= *byte == b'?';
    }
    escaped.freeze()
}
