//! Spans for collectors of OpenTelemetry (OTLP).

use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, KeyValue};
use prost::encoding::message;

use crate::traces::span::{Kind, Span};
use crate::traces::{Propagation, Trace};

/// `opentelemetry.proto.trace.v1.Span`, as far as it is filled here.
#[derive(Clone, PartialEq, prost::Message)]
struct Message {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

/// `opentelemetry.proto.trace.v1.Status`
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const ERROR: i32 = 2;

/// The trace is kept, and it is known whether its parent was somewhere else; and it was.
const SAMPLED: u32 = 1;
const KNOWS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// Writes a span as a field of `ScopeSpans`.
pub(super) fn write(trace: &Trace, span: &Span, out: &mut Vec<u8>) {
    let context = &trace.context;
    let is_remote = context.is_remote && span.kind == Kind::Server;
    let attributes = span.tags.iter().map(|(name, value)| KeyValue {
        key: name.to_string(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.clone())),
        }),
        ..KeyValue::default()
    });
    let span = Message {
        trace_id: [context.high.to_be_bytes(), context.low.to_be_bytes()].concat(),
        span_id: span.id.to_be_bytes().to_vec(),
        trace_state: match &trace.propagation {
            Propagation::State(state) => String::from_utf8_lossy(state.as_bytes()).into_owned(),
            Propagation::Usual | Propagation::Single => String::new(),
        },
        parent_span_id: span
            .parent
            .map(|parent| parent.to_be_bytes().to_vec())
            .unwrap_or_default(),
        name: span.name.clone(),
        kind: match span.kind {
            Kind::Server => SERVER,
            Kind::Client => CLIENT,
        },
        start_time_unix_nano: span.begun,
        end_time_unix_nano: span.over,
        attributes: attributes.collect(),
        status: status(span),
        flags: SAMPLED | KNOWS_REMOTE | if is_remote { IS_REMOTE } else { 0 },
    };
    message::encode(2, &span, out);
}

/// By OpenTelemetry's conventions for HTTP and gRPC: who asks has failed with any status of a call but 0, who answers
/// only where the fault is its own.
fn status(span: &Span) -> Option<Status> {
    let number = |name| span.tag(name).and_then(|value| value.parse::<u32>().ok());
    let of_http = number("http.status_code").filter(|status| *status >= 500);
    if of_http.is_some() {
        return Some(Status { code: ERROR });
    }
    let call = number("grpc.status_code").filter(|status| *status != 0)?;
    let is_error = span.kind == Kind::Client || matches!(call, 2 | 4 | 12 | 13 | 14 | 15);
    Some(Status {
        code: if is_error { ERROR } else { 0 },
    })
}
