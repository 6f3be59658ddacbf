//! Entries for collectors of OpenTelemetry (OTLP): records of logs.

use std::time::SystemTime;

use envoy_types::pb::opentelemetry::proto::common::v1::any_value::Value;
use envoy_types::pb::opentelemetry::proto::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use crate::access_log::render;
use crate::access_log::value::Entry;
use crate::config::access_log::{Absent, OtlpFormat, OtlpValue};

/// `opentelemetry.proto.logs.v1.LogRecord`, as far as it is filled here.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
}

/// A record.
pub(super) fn record(format: &OtlpFormat, entry: &Entry<'_>) -> LogRecord {
    let begun = entry.record.times.calendar;
    let since = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    LogRecord {
        time_unix_nano: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        body: format.body.as_ref().map(|body| any(body, entry)),
        attributes: pairs(&format.attributes, entry),
    }
}

fn pairs(list: &[(Box<str>, OtlpValue)], entry: &Entry<'_>) -> Vec<KeyValue> {
    let pair = |(key, value): &(Box<str>, OtlpValue)| KeyValue {
        key: key.to_string(),
        value: Some(any(value, entry)),
        ..KeyValue::default()
    };
    list.iter().map(pair).collect()
}

fn any(value: &OtlpValue, entry: &Entry<'_>) -> AnyValue {
    let value = match value {
        OtlpValue::Text(pieces) => {
            let mut text = Vec::new();
            render::text(pieces, Absent::Shown, entry, &mut text);
            Value::StringValue(String::from_utf8_lossy(&text).into_owned())
        }
        OtlpValue::List(values) => Value::ArrayValue(ArrayValue {
            values: values.iter().map(|value| any(value, entry)).collect(),
        }),
        OtlpValue::Map(list) => Value::KvlistValue(KeyValueList {
            values: pairs(list, entry),
        }),
    };
    AnyValue { value: Some(value) }
}
