//! JSON values and the types they name by `@type`.

use super::{JsonError, full_name, path::Path, read};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde::Serialize;
use serde_json::Value;

/// Adds the full names of all types that a value names by `@type`, in its order.
pub(crate) fn collect_types(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(url) = fields.get("@type").and_then(Value::as_str) {
                names.push(full_name(url).to_owned());
            }
            fields.values().for_each(|value| collect_types(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_types(value, names)),
        _ => {}
    }
}

/// The first error inside an `Any`, with its path in the whole value. Reading a message stops tracking the path where
/// an `Any` begins, so that after a failure each of them is read once more on its own, the innermost first.
pub(super) fn innermost(pool: &DescriptorPool, value: &Value) -> Option<JsonError> {
    search(pool, value, &mut Path::default())
}

fn search(pool: &DescriptorPool, value: &Value, path: &mut Path) -> Option<JsonError> {
    match value {
        Value::Object(fields) => {
            let mut below = fields.iter();
            let found = below.find_map(|(key, value)| path.in_field(key, |path| search(pool, value, path)));
            found.or_else(|| check_any(pool, fields.get("@type")?, fields, path))
        }
        Value::Array(items) => {
            let mut below = items.iter().enumerate();
            below.find_map(|(n, value)| path.in_item(n, |path| search(pool, value, path)))
        }
        _ => None,
    }
}

fn check_any(
    pool: &DescriptorPool,
    url: &Value,
    fields: &serde_json::Map<String, Value>,
    path: &Path,
) -> Option<JsonError> {
    let at = |message: String| {
        Some(JsonError::Field {
            path: path.join("@type"),
            message,
        })
    };
    let Some(url) = url.as_str() else {
        return at(format!("expected a type URL, found {url}"));
    };
    let Some(descriptor) = pool.get_message_by_name(full_name(url)) else {
        return at(format!("unknown message type `{url}`"));
    };
    if has_own_form(&descriptor) {
        return None;
    }
    let mut fields = fields.clone();
    fields.remove("@type");
    match read(&descriptor, &Value::Object(fields)) {
        Err(JsonError::Field { path: inner, message }) => Some(JsonError::Field {
            path: path.join(&inner),
            message,
        }),
        Err(error) => Some(error),
        Ok(_) => None,
    }
}

/// Whether messages of a type are written in a form of their own, as a duration is.
pub(super) fn has_own_form(message: &MessageDescriptor) -> bool {
    message.full_name().starts_with("google.protobuf.")
}

/// A message with its type in front, as an `Any` is written.
#[derive(Serialize)]
pub(super) struct Typed<'a, T: Serialize> {
    #[serde(rename = "@type")]
    pub(super) type_url: &'a str,
    #[serde(flatten)]
    pub(super) fields: T,
}
