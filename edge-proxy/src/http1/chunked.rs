//! The chunked transfer coding (RFC 9112 §7.1).
//!
//! [`Chunked`] takes a chunked body apart as its bytes come, cut at any place; [`encode`](crate::http1::encode)
//! puts one together. Data passes as slices of what was read. Sizes are hexadecimal digits alone, lines end in CR LF
//! and nothing else, extensions and trailers have limits: another reader must not be able to see other chunks.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use crate::http1::Malformed;
use crate::http1::head::{self, Limits, Names};

#[cfg(test)]
mod tests;

/// A size with more digits is no size that anybody sends.
const MAX_SIZE_DIGITS: u8 = 15;
/// All extensions of a body together; they are read and forgotten (RFC 9112 §7.1.1).
const MAX_EXTENSIONS: u32 = 16 * 1024;
const TRAILERS: Limits = Limits {
    names: Names::Lowered,
    bytes: 16 * 1024,
    fields: 64,
};

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A piece of the content, never empty.
    Data(Bytes),
    /// The trailers, if there are any. The end follows.
    Trailers(HeaderMap),
    /// Nothing more can be said without more bytes.
    More,
    /// The body is complete.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the size: its value and how many digits it has.
    Size(u64, u8),
    /// Behind the size: white space.
    Space(u64),
    /// In an extension.
    Extension(u64),
    /// The LF that ends the line of a size.
    SizeEnd(u64),
    /// So many bytes of data.
    Data(u64),
    /// The CR behind data.
    DataCr,
    /// The LF behind it.
    DataLf,
    /// Behind the last chunk.
    Trailers,
    /// All is said.
    End,
}

/// Takes a chunked body apart.
#[derive(Clone, Copy, Debug)]
pub struct Chunked {
    state: State,
    extensions: u32,
}

impl Default for Chunked {
    fn default() -> Self {
        Self {
            state: State::Size(0, 0),
            extensions: 0,
        }
    }
}

impl Chunked {
    /// True when the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::End
    }

    /// Takes the next piece off `buffer`.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        loop {
            match self.state {
                State::End => return Ok(Step::End),
                State::Trailers => return self.trailers(buffer),
                State::Data(left) => {
                    if buffer.is_empty() {
                        return Ok(Step::More);
                    }
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    let data = buffer.split_to(take).freeze();
                    self.state = match left - take as u64 {
                        0 => self.behind_data(buffer),
                        rest => State::Data(rest),
                    };
                    return Ok(Step::Data(data));
                }
                _ => {
                    let Some(byte) = buffer.first().copied() else {
                        return Ok(Step::More);
                    };
                    self.state = self.after(byte)?;
                    buffer.advance(1);
                }
            }
        }
    }

    /// Looks for the end of the body right behind a chunk, so that who got the last piece knows that it was the last.
    fn behind_data(&self, buffer: &mut BytesMut) -> State {
        if buffer.starts_with(b"\r\n0\r\n\r\n") {
            buffer.advance(7);
            State::End
        } else {
            State::DataCr
        }
    }

    fn trailers(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        match head::trailers(buffer, TRAILERS) {
            Ok(None) => Ok(Step::More),
            Ok(Some(trailers)) => {
                self.state = State::End;
                Ok(if trailers.is_empty() {
                    Step::End
                } else {
                    Step::Trailers(trailers)
                })
            }
            Err(Malformed::HeadTooLarge) => Err(Malformed::HeadTooLarge),
            Err(_) => Err(Malformed::Chunk),
        }
    }

    /// The state behind a byte that is not data.
    fn after(&mut self, byte: u8) -> Result<State, Malformed> {
        match (self.state, byte) {
            (State::Size(size, digits), _) if byte.is_ascii_hexdigit() && digits < MAX_SIZE_DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                Ok(State::Size(size << 4 | u64::from(digit), digits + 1))
            }
            (State::Size(size, 1..), b'\r') | (State::Space(size) | State::Extension(size), b'\r') => {
                Ok(State::SizeEnd(size))
            }
            (State::Size(size, 1..) | State::Space(size), b' ' | b'\t') => {
                self.extend()?;
                Ok(State::Space(size))
            }
            (State::Size(size, 1..) | State::Space(size), b';') => Ok(State::Extension(size)),
            (State::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => {
                self.extend()?;
                Ok(State::Extension(size))
            }
            (State::SizeEnd(0), b'\n') => Ok(State::Trailers),
            (State::SizeEnd(size), b'\n') => Ok(State::Data(size)),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size(0, 0)),
            _ => Err(Malformed::Chunk),
        }
    }

    fn extend(&mut self) -> Result<(), Malformed> {
        self.extensions += 1;
        if self.extensions > MAX_EXTENSIONS {
            return Err(Malformed::Chunk);
        }
        Ok(())
    }
}
