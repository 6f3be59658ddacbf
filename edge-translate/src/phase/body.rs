//! Bodies of answers that the proxy gives by itself.

use super::operators;
use crate::{
    api::{LocalObjectRef, ResponseText, ResponseTextType},
    engine::reader::Reader,
};
use edge_ir::ResponseBody;

/// Bytes that an answer may hold: a proxy allows a table no more.
const MAX_BODY: usize = 1 << 20;

/// The body of an answer: a text of its own, or of a ConfigMap in a namespace.
pub(crate) fn body(reader: &Reader<'_>, namespace: &str, body: &ResponseText) -> Result<Option<ResponseBody>, String> {
    let text = match (&body.r#type, body.inline.as_deref(), body.value_ref.as_ref()) {
        (ResponseTextType::Inline, Some(text), _) => text,
        (ResponseTextType::Inline, None, _) => return Err("inline must be set for type Inline".to_owned()),
        (ResponseTextType::ValueRef, _, Some(reference)) => config_text(reader, namespace, reference)?,
        (ResponseTextType::ValueRef, _, None) => return Err("valueRef must be set for type ValueRef".to_owned()),
        (ResponseTextType::Other(kind), ..) => {
            let known = ResponseTextType::KNOWN.join(", ");
            return Err(format!("body type {kind} is unknown: it must be one of {known}"));
        }
    };
    if text.len() > MAX_BODY {
        return Err(format!("the body has {} bytes, and may have {MAX_BODY}", text.len()));
    }
    if text.is_empty() {
        return Ok(None);
    }
    if !text.contains('%') {
        return Ok(Some(ResponseBody::Text(text.into())));
    }
    operators::check(text).map_err(|why| format!("the body can't be filled in: {why}"))?;
    Ok(Some(ResponseBody::Format(text.into())))
}

fn config_text<'a>(reader: &Reader<'a>, namespace: &str, reference: &LocalObjectRef) -> Result<&'a str, String> {
    if !reference.group.is_empty() || reference.kind != "ConfigMap" {
        return Err("only ConfigMap is supported for ValueRef".to_owned());
    }
    let name = &*reference.name;
    let Some(map) = reader.config_map(reader.id(namespace, name)) else {
        return Err(format!("can't find the referenced configmap {namespace}/{name}"));
    };
    let named = map.data.get("response.body");
    let text = named.or_else(|| map.data.values().next());
    text.ok_or_else(|| format!("can't find the key response.body in the referenced configmap {namespace}/{name}"))
}
