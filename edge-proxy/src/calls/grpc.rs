//! Calls of gRPC that the proxy itself makes: one message, and one back (gRPC over HTTP/2).

use bytes::{BufMut, Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use prost::Message;

use crate::calls::ask::ServiceReply;
use crate::message::head::Head;

/// Head of a call.
pub(crate) fn head(path: &'static str, authority: &HeaderValue) -> Head {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Head {
        method: Method::POST,
        scheme: "http",
        authority: authority.clone(),
        target: PathAndQuery::from_static(path),
        headers,
        random: 0,
        client: None,
        spelling: None,
    }
}

/// Head and content of a call of one message.
pub(crate) fn of(path: &'static str, authority: &HeaderValue, message: &impl Message) -> (Head, Bytes) {
    (head(path, authority), framed(&message.encode_to_vec()))
}

/// An encoded message as content.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    // Length-prefixed, not compressed.
    let mut body = BytesMut::with_capacity(message.len() + 5);
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    body.extend_from_slice(message);
    body.freeze()
}

/// Whether a call has gone well.
pub(crate) fn is_ok(reply: &ServiceReply) -> bool {
    let status = |fields: &HeaderMap| fields.get("grpc-status").map(|status| status.as_bytes() == b"0");
    let is_ok = reply
        .trailers
        .as_ref()
        .and_then(status)
        .or_else(|| status(&reply.fields));
    reply.status == StatusCode::OK && is_ok == Some(true)
}

/// The message of an answer, if the call has gone well.
pub(crate) fn message<M: Message + Default>(reply: &ServiceReply) -> Option<M> {
    if !is_ok(reply) {
        return None;
    }
    // A message that was compressed without our leave is none.
    match reply.body.split_first() {
        Some((0, rest)) if rest.len() >= 4 => M::decode(&rest[4..]).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::UInt64Value;

    use super::*;

    fn reply(fields: &[(&'static str, &'static str)], body: &[u8]) -> ServiceReply {
        let mut trailers = HeaderMap::new();
        for (name, value) in fields {
            trailers.insert(*name, HeaderValue::from_static(value));
        }
        ServiceReply {
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            body: Bytes::copy_from_slice(body),
            trailers: Some(trailers),
        }
    }

    #[test]
    fn a_message_comes_back_as_it_went_if_all_went_well() {
        let (head, body) = of("/a.B/C", &HeaderValue::from_static("there"), &UInt64Value { value: 7 });
        assert_eq!((head.target.as_str(), head.authority_text()), ("/a.B/C", "there"));
        let value = |reply: &ServiceReply| message::<UInt64Value>(reply).map(|message| message.value);
        assert_eq!(value(&reply(&[("grpc-status", "0")], &body)), Some(7));
        assert_eq!(value(&reply(&[("grpc-status", "14")], &body)), None);
        assert_eq!(value(&reply(&[], &body)), None);
        assert_eq!(value(&reply(&[("grpc-status", "0")], b"\x01\0\0\0\0")), None);
        assert_eq!(value(&reply(&[("grpc-status", "0")], b"")), None);
    }
}
