//! Messages to the service, and what is in those that come from it.

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{HeaderMap as ProtoHeaders, HeaderValue as ProtoHeader, Metadata};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Shown;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest, ProtocolConfiguration, StreamedBodyResponse,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, NullValue, Struct, Value as ProtoValue};
use http::{HeaderMap, Response};
use serde_json::Value;

use super::talk::{Talk, Way};
use crate::config::filter::ext_proc::{BodyMode, Modes, Processor};
use crate::message::head::Head;

/// The name that attributes stand under.
const ATTRIBUTES: &str = "envoy.filters.http.ext_proc";

/// What is to be sent how, as the service is told first.
pub(super) fn protocol(modes: Modes) -> ProtocolConfiguration {
    let mode = |mode| match mode {
        BodyMode::Hidden => BodySendMode::None,
        BodyMode::Whole => BodySendMode::Buffered,
        BodyMode::Beginning => BodySendMode::BufferedPartial,
        BodyMode::Pieces => BodySendMode::Streamed,
        BodyMode::Duplex => BodySendMode::FullDuplexStreamed,
    };
    ProtocolConfiguration {
        request_body_mode: mode(modes.request.body).into(),
        response_body_mode: mode(modes.response.body).into(),
        send_body_without_waiting_for_header_response: false,
    }
}

/// A message about something, with the metadata that the service may see.
fn about(talk: &Talk, shown: Shown) -> ProcessingRequest {
    let metadata = talk.metadata.borrow();
    let readable = talk.processor.readable.iter();
    let told = readable.filter_map(|name| match metadata.get(name)? {
        Value::Object(fields) => Some((name.to_string(), structure(fields))),
        _ => None,
    });
    ProcessingRequest {
        metadata_context: Some(Metadata {
            filter_metadata: told.collect(),
            ..Metadata::default()
        }),
        request: Some(shown),
        ..ProcessingRequest::default()
    }
}

/// The same with attributes.
pub(super) fn with_attributes(mut message: ProcessingRequest, told: Struct) -> ProcessingRequest {
    if !told.fields.is_empty() {
        message.attributes = HashMap::from([(ATTRIBUTES.to_owned(), told)]);
    }
    message
}

/// The head of a request.
pub(super) fn request(talk: &Talk, head: &Head, is_end: bool) -> ProcessingRequest {
    let own = [
        (":authority", head.authority.as_bytes()),
        (":path", head.target.as_str().as_bytes()),
        (":method", head.method.as_str().as_bytes()),
        (":scheme", head.scheme.as_bytes()),
    ];
    let headers = headers(&talk.processor, &own, &head.headers);
    about(talk, Shown::RequestHeaders(shown_head(headers, is_end)))
}

/// The head of a response.
pub(super) fn response<B>(talk: &Talk, response: &Response<B>, is_end: bool) -> ProcessingRequest {
    let status = response.status();
    let own = [(":status", status.as_str().as_bytes())];
    let headers = headers(&talk.processor, &own, response.headers());
    about(talk, Shown::ResponseHeaders(shown_head(headers, is_end)))
}

fn shown_head(headers: ProtoHeaders, is_end: bool) -> HttpHeaders {
    HttpHeaders {
        headers: Some(headers),
        end_of_stream: is_end,
        ..HttpHeaders::default()
    }
}

/// Content.
pub(super) fn body(talk: &Talk, way: Way, data: &Bytes, is_end: bool) -> ProcessingRequest {
    let body = HttpBody {
        body: data.to_vec(),
        end_of_stream: is_end,
        ..HttpBody::default()
    };
    let shown = match way {
        Way::Request => Shown::RequestBody(body),
        Way::Response => Shown::ResponseBody(body),
    };
    about(talk, shown)
}

/// Trailers.
pub(super) fn trailers(talk: &Talk, way: Way, fields: &HeaderMap) -> ProcessingRequest {
    let trailers = HttpTrailers {
        trailers: Some(headers(&talk.processor, &[], fields)),
    };
    let shown = match way {
        Way::Request => Shown::RequestTrailers(trailers),
        Way::Response => Shown::ResponseTrailers(trailers),
    };
    about(talk, shown)
}

/// The headers that the service may see.
fn headers(processor: &Processor, own: &[(&str, &[u8])], fields: &HeaderMap) -> ProtoHeaders {
    let is_seen = |name: &str| {
        let forwarded = processor.forwarded_headers.as_ref();
        forwarded.is_none_or(|list| list.iter().any(|one| one.matches(name)))
            && !processor.withheld_headers.iter().any(|one| one.matches(name))
    };
    let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let all = own.iter().copied().chain(fields);
    let seen = all.filter(|(name, _)| is_seen(name));
    ProtoHeaders {
        headers: seen
            .map(|(name, value)| ProtoHeader {
                key: name.to_owned(),
                raw_value: value.to_vec(),
                ..ProtoHeader::default()
            })
            .collect(),
    }
}

/// A piece of content that the service sends as it likes.
pub(super) fn flowing(said: &CommonResponse) -> Option<&StreamedBodyResponse> {
    match said.body_mutation.as_ref()?.mutation.as_ref()? {
        Mutation::StreamedResponse(piece) => Some(piece),
        Mutation::Body(_) | Mutation::ClearBody(_) => None,
    }
}

/// What the service makes of content; `None` leaves it as it is.
pub(super) fn content(said: &CommonResponse) -> Option<Bytes> {
    match said.body_mutation.as_ref()?.mutation.as_ref()? {
        Mutation::Body(body) => Some(Bytes::copy_from_slice(body)),
        Mutation::ClearBody(clear) => clear.then(Bytes::new),
        Mutation::StreamedResponse(_) => None,
    }
}

fn structure(fields: &serde_json::Map<String, Value>) -> Struct {
    Struct {
        fields: fields
            .iter()
            .map(|(name, value)| (name.clone(), proto(value)))
            .collect(),
    }
}

fn proto(value: &Value) -> ProtoValue {
    let kind = match value {
        Value::Null => Kind::NullValue(NullValue::NullValue.into()),
        Value::Bool(truth) => Kind::BoolValue(*truth),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(list) => Kind::ListValue(ListValue {
            values: list.iter().map(proto).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(structure(fields)),
    };
    ProtoValue { kind: Some(kind) }
}

/// A value of the service's.
pub(super) fn json(value: ProtoValue) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => Value::Bool(truth),
        Some(Kind::NumberValue(number)) => serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::ListValue(list)) => Value::Array(list.values.into_iter().map(json).collect()),
        Some(Kind::StructValue(fields)) => Value::Object(
            fields
                .fields
                .into_iter()
                .map(|(name, value)| (name, json(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_come_back_as_they_went() {
        let value = json!({"a": [1.5, "b", null, true], "c": {"d": {}}});
        assert_eq!(super::json(proto(&value)), value);
    }
}
