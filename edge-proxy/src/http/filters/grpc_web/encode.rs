//! The content of a response as a script reads it (gRPC-Web protocol, "Protocol differences"): the trailers are its
//! last frame, and all of it is base64 if the script asked for text.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};

use super::Encoding;
use crate::clock::Kind;
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::message::body::Broken;

/// The flags of the frame that holds the trailers.
const TRAILERS: u8 = 0x80;

/// The body of a response to a script.
#[derive(Debug)]
pub(super) struct WebBody {
    body: ResponseBody,
    encoding: Encoding,
}

impl WebBody {
    /// Translates the body of a gRPC response.
    pub(super) fn new(body: ResponseBody, encoding: Encoding) -> Self {
        Self { body, encoding }
    }
}

impl FilteredBody for WebBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)?) else {
            return Poll::Ready(None);
        };
        let content = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => frame
                .into_trailers()
                .map_or_else(|_| Bytes::new(), |fields| frame_of(&fields)),
        };
        let content = match self.encoding {
            Encoding::Binary => content,
            // Each piece by itself: the script gets what there is, padded or not.
            Encoding::Text => STANDARD.encode(&content).into(),
        };
        Poll::Ready(Some(Ok(Frame::data(content))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.body.expire(exchange, kind);
    }
}

/// Trailers as a frame: flags, length, and a line for each field.
fn frame_of(fields: &HeaderMap) -> Bytes {
    let mut frame = vec![TRAILERS, 0, 0, 0, 0];
    for (name, value) in fields {
        frame.extend_from_slice(name.as_str().as_bytes());
        frame.push(b':');
        frame.extend_from_slice(value.as_bytes());
        frame.extend_from_slice(b"\r\n");
    }
    // Longer trailers than its four bytes can say pass no codec.
    let length = u32::try_from(frame.len() - 5).unwrap_or(u32::MAX);
    frame[1..5].copy_from_slice(&length.to_be_bytes());
    frame.into()
}
