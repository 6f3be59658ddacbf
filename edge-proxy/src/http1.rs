//! HTTP/1.1 on the wire (RFC 9112), on both sides of the proxy.
//!
//! [`head`] reads heads, [`framing`] decides where a message ends, [`body`] and [`chunked`] take bodies apart,
//! `encode` writes messages, `inbound` reads a client's connection and `client` speaks to a backend. Above it, messages
//! are what RFC 9110 says they are; nothing outside knows of chunks or of bytes that were read ahead. A codec and no
//! more: what becomes of a request, and when a connection ends, is for others to say.
//! Why own: a request is served by one task, without channels and wake-ups between a server, a dispatcher and a client,
//! and the bytes of a body pass as the slices that were read.
//! Strict, because two readers that disagree about where a message ends are a way in for attackers: what RFC 9112 calls
//! faulty framing is refused, not repaired, in requests and in responses.
//! Deliberately absent: obsolete line folding, trailers on HTTP/1.0, transfer codings other than `chunked`, upgrades to
//! HTTP/2 in cleartext (RFC 9113 §3.1).

use std::{fmt, io};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;

pub mod body;
pub(crate) mod buffers;
pub mod chunked;
pub(crate) mod client;
pub(crate) mod encode;
pub mod framing;
pub mod head;
pub(crate) mod inbound;

/// What becomes of trailers on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// They are dropped.
    #[default]
    Dropped,
    /// They pass.
    Passed,
}

impl Trailers {
    /// By what the configuration says.
    pub(crate) fn by(enabled: bool) -> Self {
        match enabled {
            true => Self::Passed,
            false => Self::Dropped,
        }
    }

    /// What passes of a frame that holds them.
    pub(crate) fn of(self, frame: Frame<Bytes>) -> Option<HeaderMap> {
        match self {
            Self::Dropped => None,
            Self::Passed => frame.into_trailers().ok(),
        }
    }
}

/// Why bytes are not the message that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A start line or a field that the grammar does not allow (RFC 9112 §2 to §5).
    Head,
    /// More bytes or fields than allowed.
    HeadTooLarge,
    /// Where the message ends is said twice, wrongly, or in a way that another reader may take differently (RFC 9112
    /// §6.3).
    Framing,
    /// A transfer coding that is not understood (RFC 9112 §6.1).
    TransferCoding,
    /// A chunk that the grammar does not allow (RFC 9112 §7.1).
    Chunk,
    /// The connection ended before the message did (RFC 9112 §8).
    Incomplete,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "malformed head",
            Self::HeadTooLarge => "head too large",
            Self::Framing => "ambiguous framing",
            Self::TransferCoding => "unknown transfer coding",
            Self::Chunk => "malformed chunk",
            Self::Incomplete => "the message breaks off",
        })
    }
}

impl std::error::Error for Malformed {}

/// Why a message did not come, or not to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The body of the request in hand broke off or was not as long as announced.
    Request,
    /// What came is not a message.
    Malformed(Malformed),
    /// The connection failed or ended.
    Connection(io::Error),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Incomplete => Self::Connection(io::ErrorKind::UnexpectedEof.into()),
            other => Self::Malformed(other),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the body of the request broke off"),
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}
