//! Bodies as they come in.
//!
//! [`Decoder`] turns what was read into pieces of content, whichever way the body is framed.

use bytes::BytesMut;
use http_body::SizeHint;

use crate::http1::Malformed;
use crate::http1::chunked::{Chunked, Step};
use crate::http1::framing::Framing;

/// Takes a body off a connection.
#[derive(Clone, Copy, Debug)]
pub enum Decoder {
    /// So many bytes are still to come; 0 is the end.
    Length(u64),
    /// In chunks.
    Chunked(Chunked),
    /// Until the connection ends.
    UntilClose,
}

impl Decoder {
    /// For a body that ends like this.
    pub fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunked::default()),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// The next piece of what `buffer` holds.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        let (take, left) = match self {
            Self::Length(0) => return Ok(Step::End),
            Self::Chunked(chunked) => return chunked.decode(buffer),
            Self::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                (take, Some(left))
            }
            Self::UntilClose => (buffer.len(), None),
        };
        if take == 0 {
            return Ok(Step::More);
        }
        if let Some(left) = left {
            *left -= take as u64;
        }
        Ok(Step::Data(buffer.split_to(take).freeze()))
    }

    /// The connection has ended: so has the body, or it broke off.
    pub fn end(&mut self) -> Result<(), Malformed> {
        match self {
            Self::UntilClose => {
                *self = Self::Length(0);
                Ok(())
            }
            _ if self.is_done() => Ok(()),
            _ => Err(Malformed::Incomplete),
        }
    }

    /// True when nothing more comes.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::UntilClose => false,
        }
    }

    /// How much is still to come, if the sender said so.
    pub fn size_hint(&self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(*left),
            _ if self.is_done() => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}
