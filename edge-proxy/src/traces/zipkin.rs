//! Spans for collectors of Zipkin, in the JSON of its second version.

use serde_json::{Map, Value, json};

use crate::traces::span::{Kind, Span};
use crate::traces::{Trace, b3};

/// Writes a span and a comma. `is_shared`: callers have the same spans.
pub(super) fn write(trace: &Trace, span: &Span, is_shared: bool, out: &mut Vec<u8>) {
    let tags = span.tags.iter().filter(|(_, value)| !value.is_empty());
    let tags: Map<String, Value> = tags
        .map(|(name, value)| (name.to_string(), Value::from(value.as_str())))
        .collect();
    let (kind, end) = match span.kind {
        Kind::Server => ("SERVER", "ss"),
        Kind::Client => ("CLIENT", "cr"),
    };
    let micros = |nanos: u64| nanos / 1_000;
    let mut document = json!({
        "traceId": b3::trace(&trace.context),
        "id": format!("{:016x}", span.id),
        "kind": kind,
        "name": span.name,
        "timestamp": micros(span.begun),
        "duration": micros(span.over.saturating_sub(span.begun)),
        "annotations": [{"timestamp": micros(span.over), "value": end}],
        "localEndpoint": {"serviceName": &*trace.tracing.node.cluster},
        "tags": tags,
    });
    if let Some(parent) = span.parent {
        document["parentId"] = format!("{parent:016x}").into();
    }
    if is_shared && span.kind == Kind::Server {
        document["shared"] = true.into();
    }
    out.extend_from_slice(document.to_string().as_bytes());
    out.push(b',');
}
