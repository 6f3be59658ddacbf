//! Bodies of answers that the proxy gives by itself.

use super::operators;
use crate::{
    api::{LocalObjectRef, ResponseText, ResponseTextType, StringMap, decoded},
    engine::reader::Reader,
};
use edge_ir::ResponseBody;
use std::borrow::Cow;

/// Where a ConfigMap keeps a body.
const KEY: &str = "response.body";
/// Bytes that an answer may hold: a proxy allows a table no more.
const MAX_BODY: usize = 1 << 20;

/// The body of an answer: a text of its own, or of a ConfigMap in a namespace.
pub(crate) fn body(reader: &Reader<'_>, namespace: &str, body: &ResponseText) -> Result<Option<ResponseBody>, String> {
    let content = match (&body.r#type, body.inline.as_deref(), body.value_ref.as_ref()) {
        (ResponseTextType::Inline, Some(text), _) => Cow::Borrowed(text.as_bytes()),
        (ResponseTextType::Inline, None, _) => return Err("inline must be set for type Inline".to_owned()),
        (ResponseTextType::ValueRef, _, Some(reference)) => of_config_map(reader, namespace, reference)?,
        (ResponseTextType::ValueRef, _, None) => return Err("valueRef must be set for type ValueRef".to_owned()),
        (ResponseTextType::Other(kind), ..) => {
            let known = ResponseTextType::KNOWN.join(", ");
            return Err(format!("body type {kind} is unknown: it must be one of {known}"));
        }
    };
    if content.len() > MAX_BODY {
        return Err(format!("the body has {} bytes, and may have {MAX_BODY}", content.len()));
    }
    if content.is_empty() {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(&content) else {
        return Ok(Some(ResponseBody::Bytes(content.into())));
    };
    if !text.contains('%') {
        return Ok(Some(ResponseBody::Text(text.into())));
    }
    operators::check(text).map_err(|why| format!("the body can't be filled in: {why}"))?;
    Ok(Some(ResponseBody::Format(text.into())))
}

/// What a ConfigMap keeps under the key `response.body`, else under its first key: texts before bytes, which stand
/// apart there.
fn of_config_map<'a>(
    reader: &Reader<'a>,
    namespace: &str,
    reference: &LocalObjectRef,
) -> Result<Cow<'a, [u8]>, String> {
    if !reference.group.is_empty() || reference.kind != "ConfigMap" {
        return Err("only ConfigMap is supported for ValueRef".to_owned());
    }
    let name = &*reference.name;
    let Some(map) = reader.config_map(reader.id(namespace, name)) else {
        return Err(format!("can't find the referenced configmap {namespace}/{name}"));
    };
    let (texts, bytes) = (&map.data, &map.binary_data);
    let is_named = texts.contains_key(KEY) || bytes.contains_key(KEY);
    let pick = |list: &'a StringMap| match is_named {
        true => list.get(KEY),
        false => list.values().next(),
    };
    if let Some(text) = pick(texts) {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let Some(written) = pick(bytes) else {
        return Err(format!(
            "can't find the key {KEY} in the referenced configmap {namespace}/{name}"
        ));
    };
    decoded(written)
        .map(Cow::Owned)
        .map_err(|_| format!("binaryData of the referenced configmap {namespace}/{name} isn't base64"))
}
