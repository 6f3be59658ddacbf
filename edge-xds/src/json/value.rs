//! JSON values and the types they name by `@type`.

use super::{JsonError, full_name, read};
use prost_reflect::DescriptorPool;
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
    let mut path = String::new();
    search(pool, value, &mut path)
}

fn search(pool: &DescriptorPool, value: &Value, path: &mut String) -> Option<JsonError> {
    let length = path.len();
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                if let Some(error) = search(pool, value, path) {
                    return Some(error);
                }
                path.truncate(length);
            }
            let url = fields.get("@type")?;
            check_any(pool, url, fields, path)
        }
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                path.push_str(&format!("[{n}]"));
                if let Some(error) = search(pool, value, path) {
                    return Some(error);
                }
                path.truncate(length);
            }
            None
        }
        _ => None,
    }
}

fn check_any(
    pool: &DescriptorPool,
    url: &Value,
    fields: &serde_json::Map<String, Value>,
    path: &str,
) -> Option<JsonError> {
    let at = |message: String| {
        Some(JsonError::Field {
            path: join(path, "@type"),
            message,
        })
    };
    let Some(url) = url.as_str() else {
        return at(format!("expected a type URL, found {url}"));
    };
    let Some(descriptor) = pool.get_message_by_name(full_name(url)) else {
        return at(format!("unknown message type `{url}`"));
    };
    let own_form = descriptor.full_name().starts_with("google.protobuf.");
    if own_form {
        return None;
    }
    let mut fields = fields.clone();
    fields.remove("@type");
    match read(&descriptor, &Value::Object(fields)) {
        Err(JsonError::Field { path: inner, message }) => Some(JsonError::Field {
            path: join(path, &inner),
            message,
        }),
        Err(error) => Some(error),
        Ok(_) => None,
    }
}

fn join(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", inner) => inner.to_owned(),
        (outer, ".") => outer.to_owned(),
        (outer, inner) => format!("{outer}.{inner}"),
    }
}

/// A message with its type in front, as an `Any` is written.
#[derive(Serialize)]
pub(super) struct Typed<'a, T: Serialize> {
    #[serde(rename = "@type")]
    pub(super) type_url: &'a str,
    #[serde(flatten)]
    pub(super) fields: T,
}
