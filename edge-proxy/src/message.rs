//! HTTP messages on their way through the proxy, in the terms of RFC 9110, whatever version they came in.
//!
//! The [`head`] of a request; its content as the client sends it ([`incoming`]), as it goes to a backend
//! ([`body`]), or kept for several readers ([`replay`]) or all of it at once ([`whole`]); and both together, on their
//! way out ([`outgoing`]). What several parts of the data half hand to each other belongs here; what one of them does
//! with it does not. The codecs below know none of it: of HTTP/1 [`crate::http1`], of HTTP/2 the `h2` crate
//! ([`stream`]).

pub(crate) mod body;
pub(crate) mod head;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod replay;
pub(crate) mod stream;
pub(crate) mod whole;

/// The protocol of a client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 (and 1.0 where allowed).
    Http1,
    /// HTTP/2.
    Http2,
}
