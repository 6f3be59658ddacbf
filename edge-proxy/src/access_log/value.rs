//! Values of command operators.
//!
//! Each is written behind what is there already, without memory of its own.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use http::{HeaderValue, Version};

use crate::access_log::{Client, Record, Spoken, call, digits, expression, time};
use crate::config::access_log::{AddressOf, AddressPart, FieldOf, Moment, Named, OfSession, Operator, Query, TimePart};
use crate::config::endpoint::HostAddress;
use crate::connection::peer::{Agreed, PeerCertificate};

/// What a line may speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Whom it was with.
    pub(crate) client: Client<'a>,
    /// What is known of it.
    pub(crate) record: &'a Record,
    /// The status of the response, 0 before.
    pub(crate) status: u16,
    /// Fields, in the places that whoever asks knows them by.
    pub(crate) fields: Fields<'a>,
    /// Whether it still goes on.
    pub(crate) stage: Stage,
}

/// How far something has come that is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It goes on.
    Open,
    /// It is over.
    Over,
}

/// The values of fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    /// Of the request.
    pub(crate) request: &'a [Option<HeaderValue>],
    /// Of the response.
    pub(crate) response: &'a [Option<HeaderValue>],
    /// Of its trailers.
    pub(crate) trailers: &'a [Option<HeaderValue>],
    /// Of all three, with all values of each field.
    pub(crate) whole: [&'a [Option<HeaderValue>]; 3],
}

/// Whether there was a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Something,
    Nothing,
}

impl From<Option<()>> for Written {
    fn from(written: Option<()>) -> Self {
        written.map_or(Self::Nothing, |()| Self::Something)
    }
}

/// Writes a value.
pub(super) fn write(operator: &Operator, entry: &Entry<'_>, out: &mut Vec<u8>) -> Written {
    let Entry { client, record, .. } = entry;
    let upstream = &record.upstream;
    let written = match operator {
        Operator::Request(field) => record.request.as_ref().and_then(|request| {
            let named = |named| match named {
                Named::Method => Some(request.method.as_str().as_bytes()),
                Named::Path => Some(request.target.as_str().as_bytes()),
                Named::Authority => Some(request.authority.as_bytes()),
                Named::Scheme => Some(request.scheme.as_bytes()),
                Named::Status => None,
                Named::Field(at) => value_at(entry.fields.request, at),
            };
            put_field(out, field, named)
        }),
        Operator::Response(field) => {
            let mut status = [0; 3];
            let digits = status_text(entry.status, &mut status);
            put_field(out, field, |named| match named {
                Named::Status => digits,
                Named::Field(at) => value_at(entry.fields.response, at),
                _ => None,
            })
        }
        Operator::Trailer(field) => put_field(out, field, |named| match named {
            Named::Field(at) => value_at(entry.fields.trailers, at),
            _ => None,
        }),
        Operator::StartTime(parts) => put_time(out, parts, record.times.calendar),
        Operator::EmitTime(parts) => put_time(out, parts, SystemTime::now()),
        Operator::Duration(from, to, per_second) => entry
            .between(*from, *to, *per_second)
            .and_then(|number| count(out, number)),
        Operator::Protocol => entry.protocol().and_then(|protocol| put(out, protocol)),
        Operator::ResponseCode => count(out, entry.status),
        // Of a stream they say why it was ended.
        Operator::ResponseCodeDetails if client.spoken != Spoken::Stream => put_if(out, &record.details),
        Operator::Termination if client.spoken == Spoken::Stream => put_if(out, &record.details),
        Operator::ResponseFlags => put_names(out, record.flags.names().map(|(short, _)| short)),
        Operator::ResponseFlagsLong => put_names(out, record.flags.names().map(|(_, long)| long)),
        Operator::BytesReceived => count(out, record.received),
        Operator::BytesSent => count(out, record.sent),
        Operator::RouteName => record.route.as_deref().and_then(|name| put_if(out, name)),
        Operator::UpstreamCluster => upstream.cluster.as_ref().and_then(|cluster| put_if(out, &cluster.name)),
        Operator::UpstreamHostName => upstream.host.as_ref().and_then(|host| {
            if host.hostname.is_empty() {
                address(out, entry, AddressOf::Backend, AddressPart::Whole)
            } else {
                put(out, &host.hostname)
            }
        }),
        Operator::UpstreamProtocol => upstream.protocol.and_then(|protocol| put(out, protocol)),
        Operator::UpstreamAttempts => count(out, upstream.attempts),
        Operator::UpstreamFailure => put_words(out, record.failure),
        Operator::Address(of, part) => address(out, entry, *of, *part),
        Operator::ServerName => client.server_name.and_then(|name| put_if(out, name)),
        Operator::ListenerName => put_if(out, client.listener),
        Operator::ChainName => put_if(out, client.chain),
        Operator::LogType => match entry.stage {
            Stage::Open => put(out, Spoken::Nothing.log_type()),
            Stage::Over => put(out, client.spoken.log_type()),
        },
        Operator::Hostname => put(out, crate::local::hostname()),
        Operator::Session(part) => record.session.as_ref().and_then(|session| match part {
            OfSession::Cluster => session.cluster.as_ref().and_then(|cluster| put_if(out, &cluster.name)),
            OfSession::BytesReceived => count(out, record.received),
            OfSession::BytesSent => count(out, record.sent),
            OfSession::DatagramsReceived => count(out, session.datagrams_received),
            OfSession::DatagramsSent => count(out, session.datagrams_sent),
            OfSession::ErrorsSent => count(out, session.errors_sent),
        }),
        Operator::Expression(written) => expression::put(out, &written.expression, entry),
        other => more(other, entry, out),
    };
    written.into()
}

/// Values of what filters have found out, of calls, of TLS and of traces.
fn more(operator: &Operator, entry: &Entry<'_>, out: &mut Vec<u8>) -> Option<()> {
    let Entry { client, record, .. } = entry;
    match operator {
        Operator::Metadata(path, most) => path
            .find(&record.metadata)
            .and_then(|value| put_value(out, value, *most)),
        Operator::GrpcStatus(form, fields) => call::write(*form, fields, entry, out),
        Operator::TlsVersion => client
            .agreed
            .and_then(Agreed::version_name)
            .and_then(|name| put(out, name)),
        Operator::TlsCipher => client
            .agreed
            .and_then(Agreed::suite_name)
            .and_then(|name| put(out, name)),
        Operator::Peer(part) => client
            .certificate
            .and_then(|certificate| certificate.says(*part))
            .and_then(|said| put(out, &said)),
        Operator::PeerFrom(parts) => client
            .certificate
            .and_then(PeerCertificate::validity)
            .and_then(|(from, _)| put_time(out, parts, from)),
        Operator::PeerUntil(parts) => client
            .certificate
            .and_then(PeerCertificate::validity)
            .and_then(|(_, until)| put_time(out, parts, until)),
        Operator::TraceId => record.trace.and_then(|(trace, _)| match trace >> 64 {
            // An id of one half, as Zipkin has.
            0 => show(out, format_args!("{trace:016x}")),
            _ => show(out, format_args!("{trace:032x}")),
        }),
        Operator::SpanId => record
            .trace
            .and_then(|(_, span)| show(out, format_args!("{span:016x}"))),
        // `Nothing`; the others are known above.
        _ => None,
    }
}

impl<'a> Entry<'a> {
    /// Of something that logs are told of.
    pub(super) fn of(client: Client<'a>, record: &'a Record, stage: Stage) -> Self {
        let request = record.request.as_ref();
        Self {
            client,
            record,
            status: record.status,
            fields: Fields {
                request: request.map_or(&[], |request| &request.values),
                response: &record.response,
                trailers: &record.trailers,
                whole: [
                    request.map_or(&[], |request| &request.whole),
                    &record.whole[0],
                    &record.whole[1],
                ],
            },
            stage,
        }
    }

    /// The time between two moments; `None` when one of them never came.
    pub(super) fn between(&self, from: Moment, to: Moment, per_second: u32) -> Option<u64> {
        let (from, to) = (self.moment(from)?, self.moment(to)?);
        let nanos = to.saturating_duration_since(from).as_nanos();
        u64::try_from(nanos / (1_000_000_000 / u128::from(per_second))).ok()
    }

    fn moment(&self, moment: Moment) -> Option<Instant> {
        let times = &self.record.times;
        match moment {
            Moment::Begun => Some(times.begun),
            Moment::RequestRead => times.read,
            Moment::Sent => times.sent,
            Moment::Answered => times.answered,
            Moment::Over => (self.stage == Stage::Over).then_some(times.over),
            Moment::Told => Some(times.over),
        }
    }

    /// An address that is one of a socket, with IPv4 as such.
    pub(crate) fn socket(&self, of: AddressOf) -> Option<SocketAddr> {
        let Self { client, record, .. } = self;
        let connected = client.addresses.client;
        let socket = match of {
            AddressOf::Client => match record.client {
                // Nobody says from which port.
                Some(said) if said != connected.ip().to_canonical() => SocketAddr::new(said, 0),
                _ => connected,
            },
            AddressOf::Peer => client.direct.client,
            AddressOf::Local => client.addresses.local,
            AddressOf::DirectLocal => client.direct.local,
            AddressOf::ToBackend => record.upstream.local?,
            AddressOf::Connected if !record.upstream.is_connected => return None,
            AddressOf::Backend | AddressOf::Connected => match &record.upstream.host.as_ref()?.address {
                HostAddress::Socket(address) => *address,
                HostAddress::Pipe(_) | HostAddress::Internal(_) => return None,
            },
        };
        Some(SocketAddr::new(socket.ip().to_canonical(), socket.port()))
    }

    /// What was spoken with the client, where that is HTTP.
    pub(crate) fn protocol(&self) -> Option<&'static str> {
        match (self.client.spoken, self.record.version) {
            (Spoken::Http2, _) => Some("HTTP/2"),
            (Spoken::Http1, Some(Version::HTTP_10)) => Some("HTTP/1.0"),
            (Spoken::Http1, _) => Some("HTTP/1.1"),
            (Spoken::Attempt, _) => self.record.upstream.protocol,
            (Spoken::Stream | Spoken::Datagrams | Spoken::Nothing, _) => None,
        }
    }
}

fn put(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn put_time(out: &mut Vec<u8>, parts: &[TimePart], at: SystemTime) -> Option<()> {
    time::write(out, parts, at);
    Some(())
}

fn put_if(out: &mut Vec<u8>, text: &str) -> Option<()> {
    if text.is_empty() { None } else { put(out, text) }
}

/// A text as one word.
fn put_words(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let word = text.bytes().map(|byte| if byte == b' ' { b'_' } else { byte });
    (!text.is_empty()).then(|| out.extend(word))
}

/// A text as it is, anything else as JSON.
fn put_value(out: &mut Vec<u8>, value: &serde_json::Value, most: Option<usize>) -> Option<()> {
    let start = out.len();
    match value.as_str() {
        Some(text) => put(out, text)?,
        None => serde_json::to_writer(&mut *out, value).ok()?,
    }
    out.truncate(start + most.unwrap_or(usize::MAX - start));
    Some(())
}

fn count(out: &mut Vec<u8>, number: impl itoa::Integer) -> Option<()> {
    digits::number(out, number);
    Some(())
}

/// Writing to memory can't fail.
pub(super) fn show(out: &mut Vec<u8>, value: impl Display) -> Option<()> {
    write!(out, "{value}").ok()
}

fn put_names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a str>) -> Option<()> {
    let before = out.len();
    for name in names {
        if out.len() > before {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
    }
    // Envoy's word for none, in JSON too.
    if out.len() == before {
        out.push(b'-');
    }
    Some(())
}

fn value_at(values: &[Option<HeaderValue>], at: usize) -> Option<&[u8]> {
    values.get(at)?.as_ref().map(HeaderValue::as_bytes)
}

fn status_text(status: u16, digits: &mut [u8; 3]) -> Option<&[u8]> {
    (status > 0).then(|| {
        let _ = write!(&mut digits[..], "{status:03}");
        &digits[..]
    })
}

fn put_field<'v>(out: &mut Vec<u8>, field: &FieldOf, value: impl Fn(Named) -> Option<&'v [u8]>) -> Option<()> {
    let found = value(field.first).or_else(|| value(field.second?))?;
    let found = match field.query {
        Query::Kept => found,
        Query::Cut => found.split(|byte| *byte == b'?').next().unwrap_or(found),
    };
    let end = field.max_len.unwrap_or(usize::MAX).min(found.len());
    out.extend_from_slice(&found[..end]);
    Some(())
}

fn address(out: &mut Vec<u8>, entry: &Entry<'_>, of: AddressOf, part: AddressPart) -> Option<()> {
    let upstream = &entry.record.upstream;
    if matches!(of, AddressOf::Backend) || (matches!(of, AddressOf::Connected) && upstream.is_connected) {
        let text = match &upstream.host.as_ref()?.address {
            HostAddress::Socket(_) => None,
            _ if part == AddressPart::Port => return None,
            HostAddress::Pipe(path) => show(out, path.display()),
            HostAddress::Internal(name) => put(out, name),
        };
        if text.is_some() {
            return text;
        }
    }
    let socket = entry.socket(of)?;
    match part {
        AddressPart::Whole => digits::socket(out, socket),
        AddressPart::WithoutPort => digits::ip(out, socket.ip()),
        AddressPart::Port => digits::number(out, socket.port()),
    }
    Some(())
}

/// Writes text as the inside of a JSON string.
pub(super) fn escape(out: &mut Vec<u8>, from: usize) {
    if is_plain(&out[from..]) {
        return;
    }
    let raw = out.split_off(from);
    let mut text = String::with_capacity(raw.len() + 8);
    for char in String::from_utf8_lossy(&raw).chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other if other.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(other));
            }
            other => text.push(other),
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// Whether a text stands in a JSON string as it is: printable ASCII without quotes and backslashes. Looked at eight
/// bytes at a time, for nearly every text is.
fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().all(|word| is_plain_word(*word)) && is_plain_word(last)
}

fn is_plain_word(bytes: [u8; 8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_ne_bytes(bytes);
    // A borrow reaches a byte from a lower one only where that was found already.
    let has_below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word & HIGH;
    let has = |byte: u8| has_below(word ^ (ONES * u64::from(byte)), 1);
    (word & HIGH) | has_below(word, 0x20) | has(b'"') | has(b'\\') | has(0x7f) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_in_every_place() {
        for byte in 0..=u8::MAX {
            let expected = matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            for (length, place) in (1..20).flat_map(|length| (0..length).map(move |place| (length, place))) {
                let mut text = vec![b'~'; length];
                text[place] = byte;
                assert_eq!(is_plain(&text), expected, "{byte} at {place} of {length}");
                let mut text = vec![b' '; length];
                text[place] = byte;
                assert_eq!(is_plain(&text), expected, "{byte} at {place} of {length}");
            }
        }
    }
}
