//! What a client sends behind the head of its request.
//!
//! What: one type for the bodies of both protocols, so that nothing above the codecs knows which one it is.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::downstream::http2;
use crate::http::body::Broken;
use crate::http::filters::bandwidth_limit::Flow;
use crate::http::filters::buffer::Whole;
use crate::http::filters::ext_proc::body::ProcessedBody;
use crate::http::filters::grpc_web::TextBody;
use crate::http1::server::InboundBody;

/// The body of a client's request.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// None.
    Empty,
    /// Of a message in HTTP/1.
    Http1(InboundBody),
    /// Of a stream of HTTP/2.
    Http2(http2::body::InboundBody),
    /// Of a call from a script, in base64.
    Text(Box<TextBody>),
    /// Held to a rate.
    Slow(Box<Flow<Self>>),
    /// Processed by a service.
    Processed(Box<ProcessedBody<Self>>),
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
            Self::Text(body) => body.poll_frame(cx),
            Self::Slow(body) => body.poll_frame(cx),
            Self::Processed(body) => body.poll_frame(cx),
            Self::Whole(body) => Poll::Ready(body.next().map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
            Self::Text(body) => body.is_end_stream(),
            Self::Slow(body) => body.is_end_stream(),
            Self::Processed(body) => body.is_end_stream(),
            Self::Whole(body) => body.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => body.size_hint(),
            Self::Text(_) => SizeHint::default(),
            Self::Slow(body) => body.size_hint(),
            Self::Processed(body) => body.size_hint(),
            Self::Whole(body) => body.size_hint(),
        }
    }
}
