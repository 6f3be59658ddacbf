//! What a client sends behind the head of its request.
//!
//! One type for the bodies of both protocols, so that nothing above the codecs knows which one it is.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::http1::inbound::InboundBody;
use crate::message::body::{Broken, OwnBody};
use crate::message::stream::StreamBody;
use crate::message::whole::Whole;

/// The body of a client's request.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// None.
    Empty,
    /// Of a message in HTTP/1.
    Http1(InboundBody),
    /// Of a stream of HTTP/2.
    Http2(StreamBody),
    /// What a filter makes of one of these.
    Filtered(Box<dyn OwnBody>),
    /// Read already.
    Whole(Box<Whole>),
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Http1(body) => body.poll_frame(cx).map_err(Broken::Http1),
            Self::Http2(body) => body.poll_frame(cx).map_err(Broken::Client),
            Self::Filtered(body) => body.poll_frame(cx),
            Self::Whole(body) => Poll::Ready(body.next().map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
            Self::Filtered(body) => body.is_end_stream(),
            Self::Whole(body) => body.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
            Self::Filtered(body) => body.size_hint(),
            Self::Whole(body) => body.size_hint(),
        }
    }
}
