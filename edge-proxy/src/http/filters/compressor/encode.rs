//! Content that is compressed on its way: each piece that comes is passed on with all that its encoder holds.
//!
//! Why so: what a backend has written a client is to see, as from Envoy; somebody who streams pays with some bytes.

mod zstd;

use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use brotli::CompressorWriter;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body as _, Frame};

use crate::clock::Kind;
use crate::config::filter::compressor::Encoding;
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::message::body::Broken;
use zstd::Zstd;

/// Envoy's usual quality and window (as a power of two) of brotli.
const BROTLI: (u32, u32) = (3, 18);

/// What compresses.
pub(super) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<Zstd>),
}

impl Encoder {
    /// One that has seen nothing.
    pub(super) fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Encoding::Brotli => {
                let (quality, window) = BROTLI;
                Self::Brotli(Box::new(CompressorWriter::new(Vec::new(), 0, quality, window)))
            }
            Encoding::Zstd => Self::Zstd(Box::new(Zstd::new())),
        }
    }

    /// All there is to send once this has come.
    fn pass(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => {
                encoder.write_all(data)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Brotli(encoder) => {
                encoder.write_all(data)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => Ok(encoder.pass(data)),
        }
    }

    /// The rest, after the last piece.
    fn finish(self, data: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(mut encoder) => {
                encoder.write_all(data)?;
                encoder.finish()
            }
            Self::Brotli(mut encoder) => {
                encoder.write_all(data)?;
                Ok(encoder.into_inner())
            }
            Self::Zstd(mut encoder) => Ok(encoder.finish(data)),
        }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
        })
    }
}

/// The body of a response that is compressed.
#[derive(Debug)]
pub(super) struct EncodedBody {
    body: ResponseBody,
    /// Until the end has been written.
    encoder: Option<Encoder>,
    trailers: Option<Frame<Bytes>>,
}

impl EncodedBody {
    /// Compresses a body.
    pub(super) fn new(body: ResponseBody, encoder: Encoder) -> Self {
        Self {
            body,
            encoder: Some(encoder),
            trailers: None,
        }
    }

    fn encode(&mut self, data: &[u8], is_last: bool) -> Result<Bytes, Broken> {
        let encoded = match &mut self.encoder {
            Some(encoder) if !is_last => encoder.pass(data),
            _ => self
                .encoder
                .take()
                .map_or(Ok(Vec::new()), |encoder| encoder.finish(data)),
        };
        encoded.map(Bytes::from).map_err(Broken::Encoder)
    }
}

impl FilteredBody for EncodedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        while self.encoder.is_some() {
            let encoded = match ready!(Pin::new(&mut self.body).poll_frame(cx)?) {
                None => self.encode(&[], true)?,
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.encode(&data, self.body.is_end_stream())?,
                    Err(trailers) => {
                        self.trailers = Some(trailers);
                        self.encode(&[], true)?
                    }
                },
            };
            if !encoded.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(encoded))));
            }
        }
        Poll::Ready(self.trailers.take().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.expire(exchange, kind);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decoded(encoding: Encoding, content: &[u8]) -> Vec<u8> {
        let mut whole = Vec::new();
        let read = match encoding {
            Encoding::Gzip => flate2::read::GzDecoder::new(content).read_to_end(&mut whole),
            Encoding::Brotli => brotli::Decompressor::new(content, 4096).read_to_end(&mut whole),
            Encoding::Zstd => ruzstd::decoding::StreamingDecoder::new(content)
                .expect("a frame")
                .read_to_end(&mut whole),
        };
        read.expect("content");
        whole
    }

    #[test]
    fn what_is_decoded_is_what_was_there_however_it_is_cut() {
        let long: Vec<u8> = (0..400_000_u32)
            .flat_map(|n| (n / 7).to_string().into_bytes())
            .collect();
        let random: Vec<u8> = (0..50_000_u64)
            .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
            .collect();
        for content in [&b""[..], b"a", b"text text text text text text", &long, &random] {
            for encoding in [Encoding::Gzip, Encoding::Brotli, Encoding::Zstd] {
                for n_pieces in [1, 2, 7] {
                    let mut encoder = Encoder::new(encoding);
                    let mut encoded = Vec::new();
                    for piece in content.chunks(content.len() / n_pieces + 1) {
                        encoded.extend(encoder.pass(piece).expect("room"));
                    }
                    encoded.extend(encoder.finish(b"the end").expect("room"));
                    let whole = [content, b"the end"].concat();
                    assert!(decoded(encoding, &encoded) == whole, "{encoding:?} in {n_pieces}");
                    if content.len() == long.len() {
                        assert!(encoded.len() * 2 < whole.len(), "{encoding:?}: {}", encoded.len());
                    }
                }
            }
        }
    }

    #[test]
    fn what_has_come_can_be_read_before_the_end() {
        let mut encoder = Encoder::new(Encoding::Gzip);
        let piece = encoder.pass(b"some of it").expect("room");
        let mut decoder = flate2::read::GzDecoder::new(piece.as_slice());
        let mut text = [0; 10];
        decoder.read_exact(&mut text).expect("the piece");
        assert_eq!(&text, b"some of it");
        let mut encoder = Encoder::new(Encoding::Brotli);
        let piece = encoder.pass(b"some of it").expect("room");
        let mut decoder = brotli::Decompressor::new(piece.as_slice(), 4096);
        decoder.read_exact(&mut text).expect("the piece");
        assert_eq!(&text, b"some of it");
    }
}
