//! Answers that the proxy makes itself.
//!
//! Status, text and, for gRPC clients, the same as a gRPC status in a response that is all head (the mapping of
//! HTTP status to gRPC status is that of the gRPC documentation, "HTTP to gRPC Status Code Mapping").

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::edits::TEXT;

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// As Envoy calls it when a stream has lasted as long as it may.
const DEADLINE_EXCEEDED: u32 = 4;

/// Whom the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// An HTTP client.
    Http,
    /// A gRPC client, which reads `grpc-status` only.
    Grpc,
}

/// The answer to a fault.
pub(crate) fn of_fault(fault: Fault, audience: Audience) -> Response<ResponseBody> {
    let verdict = fault.verdict();
    let body = Bytes::from_static(verdict.body.as_bytes());
    let mut response = text(verdict.status, body, None, audience);
    if fault == Fault::MaxDuration && audience == Audience::Grpc {
        say_code(response.headers_mut(), DEADLINE_EXCEEDED);
    }
    response
}

/// An answer with a body.
pub(crate) fn text(
    status: StatusCode,
    body: Bytes,
    content_type: Option<HeaderValue>,
    audience: Audience,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Empty);
    if audience == Audience::Grpc {
        let fields = response.headers_mut();
        say_grpc(fields);
        say_status(fields, status, &body);
        return response;
    }
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // RFC 9110 §8.6: no length on a status that can't have content.
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED && !status.is_informational() {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        if !body.is_empty() {
            headers.insert(header::CONTENT_TYPE, content_type.unwrap_or(TEXT));
            *response.body_mut() = ResponseBody::Full(body);
        }
    }
    response
}

/// An answer with a gRPC status of its own; a client of HTTP learns its text alone, as from Envoy.
pub(crate) fn of_grpc(code: u32, body: Bytes, audience: Audience) -> Response<ResponseBody> {
    let mut response = text(StatusCode::OK, body, None, audience);
    if audience == Audience::Grpc {
        say_code(response.headers_mut(), code);
    }
    response
}

/// Says that gRPC is spoken.
pub(crate) fn say_grpc(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
}

/// Says a gRPC status in place of the usual one.
pub(crate) fn say_code(headers: &mut HeaderMap, code: u32) {
    headers.insert(GRPC_STATUS, HeaderValue::from(code));
}

/// Says an HTTP status and its text as a gRPC status.
pub(crate) fn say_status(headers: &mut HeaderMap, status: StatusCode, message: &[u8]) {
    headers.insert(GRPC_STATUS, HeaderValue::from(grpc_status(status)));
    if !message.is_empty()
        && let Ok(message) = HeaderValue::from_str(&percent_encode(message))
    {
        headers.insert(GRPC_MESSAGE, message);
    }
}

fn grpc_status(status: StatusCode) -> u16 {
    match status.as_u16() {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

/// gRPC over HTTP/2, "Percent-Encoded": what is not printable, and `%`.
fn percent_encode(message: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(message.len());
    for byte in message {
        if (0x20..=0x7e).contains(byte) && *byte != b'%' {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_says_so() {
        let response = of_fault(Fault::NoRoute, Audience::Http);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "0");
        assert!(!response.headers().contains_key(header::CONTENT_TYPE));
    }

    #[test]
    fn grpc_clients_get_a_grpc_status() {
        let response = of_fault(Fault::NoHealthyUpstream, Audience::Grpc);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "14");
        assert_eq!(response.headers()["grpc-message"], "no healthy upstream");
        assert_eq!(of_fault(Fault::NoRoute, Audience::Grpc).headers()["grpc-status"], "12");
        assert_eq!(
            of_fault(Fault::MaxDuration, Audience::Grpc).headers()["grpc-status"],
            "4"
        );
    }

    #[test]
    fn a_status_without_content_has_no_length() {
        let response = text(StatusCode::NO_CONTENT, Bytes::new(), None, Audience::Http);
        assert!(!response.headers().contains_key(header::CONTENT_LENGTH));
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encode(b"50% \n"), "50%25 %0A");
    }
}
