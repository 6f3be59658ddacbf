//! The content of a request that is base64 (gRPC-Web protocol, "Protocol differences": `application/grpc-web-text`).

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body::{Body as _, Frame};

use super::{Bridge, Encoding};
use crate::message::body::{Broken, OwnBody};
use crate::message::incoming::Incoming;

/// A body that is decoded while it comes in.
#[derive(Debug)]
pub(crate) struct TextBody {
    body: Incoming,
    bridge: Rc<Bridge>,
    /// What is there of a group of four.
    group: [u8; 4],
    n_there: usize,
}

impl TextBody {
    /// Decodes a body.
    pub(super) fn new(body: Incoming, bridge: Rc<Bridge>) -> Self {
        Self {
            body,
            bridge,
            group: [0; 4],
            n_there: 0,
        }
    }

    fn decode(&mut self, data: &[u8]) -> Option<Bytes> {
        let mut decoded = Vec::with_capacity(data.len() / 4 * 3 + 3);
        for &byte in data {
            self.group[self.n_there] = byte;
            self.n_there = (self.n_there + 1) % 4;
            if self.n_there == 0 {
                let mut bytes = [0; 3];
                let n_bytes = STANDARD.decode_slice(self.group, &mut bytes).ok()?;
                decoded.extend_from_slice(&bytes[..n_bytes]);
            }
        }
        Some(decoded.into())
    }

    fn malformed(&mut self) -> Broken {
        self.n_there = 0;
        self.bridge.malformed.set(true);
        Broken::Base64
    }
}

impl OwnBody for TextBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
                let is_whole = self.n_there == 0;
                return Poll::Ready((!is_whole).then(|| Err(self.malformed())));
            };
            let decoded = match frame.into_data() {
                Ok(data) => self.decode(&data),
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            };
            match decoded {
                // A piece that ends no group: more is needed.
                Some(bytes) if bytes.is_empty() => {}
                Some(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => return Poll::Ready(Some(Err(self.malformed()))),
            }
        }
    }

    /// A body that ends within a group is told first.
    fn is_end_stream(&self) -> bool {
        self.n_there == 0 && self.body.is_end_stream()
    }
}

/// What content is that comes in these pieces; `None` where it is malformed.
pub(in crate::http) fn decoded(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let bridge = Bridge {
        request: Encoding::Text,
        response: Encoding::Binary,
        malformed: Cell::new(false),
    };
    let mut body = TextBody::new(Incoming::Empty, Rc::new(bridge));
    let pieces = pieces.iter().map(|piece| body.decode(piece));
    let whole = pieces.collect::<Option<Vec<_>>>()?.concat();
    body.is_end_stream().then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_may_end_anywhere_and_so_may_padding() {
        let text = b"AAAAAAVhcHBsZQ==AAAAAAA=";
        let whole = decoded(&[text]);
        assert_eq!(whole.as_deref(), Some(&b"\0\0\0\0\x05apple\0\0\0\0\0"[..]));
        for at in 0..=text.len() {
            let (first, rest) = text.split_at(at);
            assert_eq!(decoded(&[first, rest]), whole, "cut at {at}");
        }
    }

    #[test]
    fn what_is_no_base64_is_told() {
        for text in ["AAA", "A===", "AA=A", "AAA\n", "AB==", "a-_b"] {
            assert_eq!(decoded(&[text.as_bytes()]), None, "{text:?}");
        }
    }
}
