//! Messages on their way out.
//!
//! [`request_head`] and [`response_head`] write heads; an [`Outlet`] holds what is to be sent: text that was made
//! here in front, and behind it one piece of content that is sent from where it lies. Small pieces are copied behind
//! the head, so that a small message is one flat write. The codec alone writes fields about framing and the connection.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::header;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use tokio::io::AsyncWrite;

use crate::http1::head::{self, Spelling};
use crate::transport::Transport;

#[cfg(test)]
mod tests;

/// Content up to this size is copied: that costs less than a write of several pieces.
const COPIED: usize = 8 * 1024;
/// So much text is gathered before it is written.
const GATHERED: usize = 16 * 1024;

/// How the body of a message is announced and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEncoder {
    /// Nothing is said and nothing comes.
    Absent,
    /// So many bytes, or so many still.
    Length(u64),
    /// In chunks.
    Chunked,
    /// As it is, until the connection ends.
    UntilClose,
}

/// A body that is not what was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongLength;

/// A name as it was written, or else in small letters.
fn spelled<'a>(name: &'a header::HeaderName, spelling: Option<&'a Spelling>) -> &'a [u8] {
    let written = spelling.and_then(|spelling| spelling.get(name));
    written.map_or(name.as_str().as_bytes(), |written| written)
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn framing(out: &mut Vec<u8>, encoder: BodyEncoder, spelling: Option<&Spelling>) {
    match encoder {
        BodyEncoder::Length(length) => {
            out.extend_from_slice(spelled(&header::CONTENT_LENGTH, spelling));
            out.extend_from_slice(b": ");
            number(out, length);
            out.extend_from_slice(b"\r\n");
        }
        BodyEncoder::Chunked => field(out, spelled(&header::TRANSFER_ENCODING, spelling), b"chunked"),
        BodyEncoder::Absent | BodyEncoder::UntilClose => {}
    }
}

fn fields(
    out: &mut Vec<u8>,
    headers: &HeaderMap,
    spelling: Option<&Spelling>,
    mut skip: impl FnMut(&header::HeaderName) -> bool,
) {
    for (name, value) in headers {
        if !skip(name) {
            field(out, spelled(name, spelling), value.as_bytes());
        }
    }
}

/// The head of a request to a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingHead<'a> {
    /// Its method.
    pub(crate) method: &'a Method,
    /// Path and query.
    pub(crate) target: &'a str,
    /// What `host` is to say.
    pub(crate) authority: &'a HeaderValue,
    /// All other fields; those about framing and the connection are passed over.
    pub(crate) headers: &'a HeaderMap,
    /// Trailers are understood.
    pub(crate) te_trailers: bool,
    /// Ask the backend to switch to this protocol.
    pub(crate) upgrade: Option<&'a str>,
    /// How the client wrote names, where that is kept.
    pub(crate) spelling: Option<&'a Spelling>,
}

/// Writes the head of a request to a backend. Like Envoy it says `te: trailers` without the option `te` in `connection`
/// that RFC 9110 §10.1.4 asks for: the one behind it is a backend, and no intermediary that would have to remove it.
pub(crate) fn request_head(out: &mut Vec<u8>, head: OutgoingHead<'_>, encoder: BodyEncoder) {
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    match *head.method {
        // RFC 9112 §3.2.3: whom the tunnel is to.
        Method::CONNECT => out.extend_from_slice(head.authority.as_bytes()),
        _ => out.extend_from_slice(head.target.as_bytes()),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let spelling = head.spelling;
    field(out, spelled(&header::HOST, spelling), head.authority.as_bytes());
    fields(out, head.headers, spelling, |name| {
        matches!(
            *name,
            header::HOST | header::CONTENT_LENGTH | header::TRANSFER_ENCODING | header::CONNECTION
        )
    });
    framing(out, encoder, spelling);
    if head.te_trailers {
        field(out, spelled(&header::TE, spelling), b"trailers");
    }
    if let Some(protocol) = head.upgrade {
        field(out, spelled(&header::CONNECTION, spelling), b"upgrade");
        field(out, spelled(&header::UPGRADE, spelling), protocol.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// What is said about the connection in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Nothing: it stays, as usual in HTTP/1.1.
    Implied,
    /// It stays, which HTTP/1.0 must be told.
    KeepAlive,
    /// It ends with this response.
    Close,
    /// It switches protocols: the fields say how.
    Switch,
}

/// The head of a response to a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseLines<'a> {
    /// The version of the request.
    pub(crate) version: Version,
    /// The status.
    pub(crate) status: StatusCode,
    /// All fields; those about framing and the connection are passed over.
    pub(crate) headers: &'a HeaderMap,
    /// How the backend wrote names, where that is kept.
    pub(crate) spelling: Option<&'a Spelling>,
    /// What is said about the connection.
    pub(crate) stay: Stay,
}

/// Writes the head of a response to a client. `date` is the line to use when there is none (RFC 9110 §6.6.1).
pub(crate) fn response_head(out: &mut Vec<u8>, head: ResponseLines<'_>, encoder: BodyEncoder, date: &[u8]) {
    let ResponseLines {
        version,
        status,
        headers,
        spelling,
        stay,
    } = head;
    out.extend_from_slice(if version == Version::HTTP_10 {
        b"HTTP/1.0 "
    } else {
        b"HTTP/1.1 "
    });
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
    // A status without content has no length (RFC 9110 §8.6); the answers to HEAD and 304 may tell that of another.
    let tells_length = encoder == BodyEncoder::Absent && !status.is_informational() && status != StatusCode::NO_CONTENT;
    let mut has_date = false;
    fields(out, headers, spelling, |name| match *name {
        header::DATE => {
            has_date = true;
            false
        }
        header::CONTENT_LENGTH => !tells_length,
        header::TRANSFER_ENCODING => true,
        header::CONNECTION => stay != Stay::Switch,
        _ => false,
    });
    framing(out, encoder, spelling);
    if !has_date {
        out.extend_from_slice(date);
    }
    let connection = spelled(&header::CONNECTION, spelling);
    match stay {
        Stay::Implied | Stay::Switch => {}
        Stay::KeepAlive => field(out, connection, b"keep-alive"),
        Stay::Close => field(out, connection, b"close"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether a field `connection` asks to close.
pub(crate) fn asks_to_close(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .map(HeaderValue::as_bytes)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// What is on its way out of a connection.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    text: Vec<u8>,
    sent: usize,
    content: Bytes,
    tail: &'static [u8],
    begun: bool,
}

impl Outlet {
    /// Text to append to, while no content is behind it.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Puts used memory in place of none.
    pub(crate) fn adopt(&mut self, memory: Vec<u8>) {
        if self.text.capacity() == 0 {
            self.text = memory;
        }
    }

    /// Gives the memory away when all is sent.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        if self.is_empty() {
            self.sent = 0;
            std::mem::take(&mut self.text)
        } else {
            Vec::new()
        }
    }

    /// True when all is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.text.len() && self.content.is_empty() && self.tail.is_empty()
    }

    /// Whether bytes were written since this was asked last.
    pub(crate) fn take_begun(&mut self) -> bool {
        std::mem::take(&mut self.begun)
    }

    /// True when another piece of content may be added.
    pub(crate) fn has_room(&self) -> bool {
        self.content.is_empty() && self.tail.is_empty() && self.text.len() - self.sent < GATHERED
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.sent = 0;
        self.content = Bytes::new();
        self.tail = b"";
    }

    /// Adds a piece of content; the last one ends the body.
    pub(crate) fn push(&mut self, encoder: &mut BodyEncoder, content: Bytes, last: bool) -> Result<(), WrongLength> {
        let tail: &'static [u8] = match encoder {
            BodyEncoder::Absent => return if content.is_empty() { Ok(()) } else { Err(WrongLength) },
            BodyEncoder::Length(left) => {
                *left = left.checked_sub(content.len() as u64).ok_or(WrongLength)?;
                if last && *left > 0 {
                    return Err(WrongLength);
                }
                b""
            }
            BodyEncoder::UntilClose => b"",
            // An empty chunk would be the last one.
            BodyEncoder::Chunked if content.is_empty() => {
                if last {
                    self.text.extend_from_slice(b"0\r\n\r\n");
                }
                return Ok(());
            }
            BodyEncoder::Chunked => {
                // Writing to memory does not fail.
                let _ = write!(self.text, "{:x}\r\n", content.len());
                if last { b"\r\n0\r\n\r\n" } else { b"\r\n" }
            }
        };
        if content.len() <= COPIED {
            self.text.extend_from_slice(&content);
            self.text.extend_from_slice(tail);
        } else {
            self.content = content;
            self.tail = tail;
        }
        Ok(())
    }

    /// Ends a body behind its last piece.
    pub(crate) fn finish(&mut self, encoder: BodyEncoder, trailers: Option<&HeaderMap>) -> Result<(), WrongLength> {
        match encoder {
            BodyEncoder::Absent | BodyEncoder::Length(0) | BodyEncoder::UntilClose => Ok(()),
            BodyEncoder::Length(_) => Err(WrongLength),
            BodyEncoder::Chunked => {
                self.text.extend_from_slice(b"0\r\n");
                if let Some(trailers) = trailers {
                    fields(&mut self.text, trailers, None, head::is_forbidden_in_trailers);
                }
                self.text.extend_from_slice(b"\r\n");
                Ok(())
            }
        }
    }

    /// Writes until all is sent.
    pub(crate) fn poll_write(&mut self, transport: &mut Transport, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let text = &self.text[self.sent..];
            let transport = Pin::new(&mut *transport);
            let polled = if self.content.is_empty() && self.tail.is_empty() {
                transport.poll_write(cx, text)
            } else {
                let pieces = [text, &self.content, self.tail].map(IoSlice::new);
                transport.poll_write_vectored(cx, &pieces)
            };
            match polled {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, written: usize) {
        self.begun = true;
        let text = written.min(self.text.len() - self.sent);
        self.sent += text;
        if self.sent == self.text.len() {
            self.text.clear();
            self.sent = 0;
        }
        let content = (written - text).min(self.content.len());
        if content == self.content.len() {
            self.content = Bytes::new();
        } else {
            self.content.advance(content);
        }
        self.tail = &self.tail[(written - text - content).min(self.tail.len())..];
    }
}
