//! What both ends of HTTP/2 have in common around the `h2` crate, which does frames, windows and header compression.

pub(crate) mod gather;
pub(crate) mod keepalive;

use std::task::{Context, Poll, ready};

use bytes::Buf;
use h2::SendStream;
use http::header::{self, HeaderMap, HeaderName};

/// A window is asked for in pieces of a frame: a claim for more would keep it from other streams.
const FRAME: usize = 16 * 1024;

/// Fields about an HTTP/1 connection are malformed here (RFC 9113 §8.2.2).
const CONNECTION_FIELDS: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Removes what no message of HTTP/2 may have.
pub(crate) fn remove_connection_fields(headers: &mut HeaderMap) {
    for name in &CONNECTION_FIELDS {
        headers.remove(name);
    }
}

/// Fields whose values are hardly ever sent twice.
const UNREPEATED: [HeaderName; 2] = [
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("traceparent"),
];

/// Keeps values that no later message will have out of the tables of header compression: there they would push out what
/// is repeated, and `h2` compares a value with all that its name has there. Its way to leave one out is RFC 7541
/// §7.1.3's "never indexed", which costs the receiver nothing.
pub(crate) fn keep_unrepeated_out_of_tables(headers: &mut HeaderMap) {
    for name in &UNREPEATED {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
}

/// Ready with the window that a stream has, up to so many bytes; `None` when the stream takes nothing any more.
pub(crate) fn poll_window<B: Buf>(
    send: &mut SendStream<B>,
    wanted: usize,
    cx: &mut Context<'_>,
) -> Poll<Option<usize>> {
    send.reserve_capacity(wanted.min(FRAME));
    loop {
        match send.capacity() {
            0 => match ready!(send.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            },
            window => return Poll::Ready(Some(window)),
        }
    }
}
