//! Calls from scripts in browsers (gRPC-Web protocol): made into gRPC calls for the backend, and their answers back.
//!
//! A request gets gRPC's media type, and its base64 is undone if it is text ([`decode`]); in the response the
//! trailers, which a script can't read, become the last frame of the content ([`encode`]). An answer that isn't of
//! gRPC, the proxy's or a backend's, keeps its status and says the same as a gRPC status.
//! Why so: media types, fields and texts are those of Envoy's filter. Its base64 may be padded where its buffers happen
//! to end; here it may be padded anywhere, as the protocol says.

pub(in crate::http) mod decode;
mod encode;

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as _;

use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::http::{Arrived, local_reply};
use crate::message::head::{self, Head};
use crate::message::incoming::Incoming;

pub(crate) use decode::TextBody;
use encode::WebBody;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const WEB: HeaderValue = HeaderValue::from_static("application/grpc-web+proto");
const WEB_TEXT: HeaderValue = HeaderValue::from_static("application/grpc-web-text+proto");

const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

const MALFORMED: &[u8] = b"Bad gRPC-web request, invalid base64 data.";

/// As much of an answer that isn't of gRPC becomes the message of a gRPC status.
const MAX_MESSAGE: usize = 16 * 1024;

/// How content is written in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As it is.
    Binary,
    /// In base64.
    Text,
}

/// A call that is being translated.
#[derive(Debug)]
pub(crate) struct Bridge {
    request: Encoding,
    response: Encoding,
    /// The request says that it is base64, and isn't.
    malformed: Cell<bool>,
}

impl Bridge {
    /// A bridge for a request that needs one.
    pub(crate) fn of(head: &Head) -> Option<Rc<Self>> {
        let request = encoding_of(head.headers.get(header::CONTENT_TYPE)?)?;
        let accepted = head.headers.get(header::ACCEPT).and_then(encoding_of);
        Some(Rc::new(Self {
            request,
            response: accepted.unwrap_or(Encoding::Binary),
            malformed: Cell::new(false),
        }))
    }

    /// Makes a gRPC call of the request.
    pub(super) fn translate(self: &Rc<Self>, arrived: &mut Arrived<'_>) {
        arrived.notes.te_trailers = true;
        let fields = &mut arrived.head.headers;
        fields.remove(header::CONTENT_LENGTH);
        fields.insert(header::CONTENT_TYPE, GRPC);
        fields.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.request == Encoding::Text {
            let body = std::mem::replace(&mut arrived.body, Incoming::Empty);
            arrived.body = Incoming::Filtered(Box::new(TextBody::new(body, Rc::clone(self))));
        }
    }

    /// Makes an answer for the script of whatever the request led to.
    pub(crate) async fn answer(
        &self,
        exchange: &Exchange,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if self.malformed.get() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            *response.body_mut() = ResponseBody::Full(Bytes::from_static(MALFORMED));
        }
        let has_content = !response.body().is_end_stream();
        if has_content && is_of_grpc(response.status(), response.headers()) {
            let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
            *response.body_mut() = ResponseBody::Filtered(Box::new(WebBody::new(body, self.response)));
            // The trailers come on top.
            response.headers_mut().remove(header::CONTENT_LENGTH);
        } else if has_content {
            let message = read(exchange, response.body_mut()).await;
            *response.body_mut() = ResponseBody::Empty;
            let status = response.status();
            let fields = response.headers_mut();
            local_reply::say_status(fields, status, &message);
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
        }
        let media_type = match self.response {
            Encoding::Binary => WEB,
            Encoding::Text => WEB_TEXT,
        };
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }
}

/// How content of a media type is written; none if it isn't one of the protocol's that Envoy knows.
fn encoding_of(media_type: &HeaderValue) -> Option<Encoding> {
    match media_type.as_bytes() {
        b"application/grpc-web" | b"application/grpc-web+proto" => Some(Encoding::Binary),
        b"application/grpc-web-text" | b"application/grpc-web-text+proto" => Some(Encoding::Text),
        _ => None,
    }
}

fn is_of_grpc(status: StatusCode, fields: &HeaderMap) -> bool {
    status == StatusCode::OK && head::is_grpc(fields)
}

/// The beginning of a body, as far as it comes before it ends or a deadline does.
async fn read(exchange: &Exchange, body: &mut ResponseBody) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < MAX_MESSAGE {
        let frame = poll_fn(|cx| match exchange.poll_deadline(cx) {
            Poll::Ready(kind) => {
                body.expire(exchange, kind);
                Poll::Ready(None)
            }
            Poll::Pending => Pin::new(&mut *body).poll_frame(cx),
        });
        match frame.await {
            Some(Ok(frame)) => text.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            Some(Err(_)) | None => break,
        }
    }
    text.truncate(MAX_MESSAGE);
    text
}
