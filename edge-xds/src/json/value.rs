//! JSON values and the types they name by `@type`.

use super::{JsonError, full_name, read};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

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

/// Where a value names a field twice, by both of its names: nobody can tell which is meant.
pub(super) fn twice_named(pool: &DescriptorPool, of: &MessageDescriptor, value: &Value) -> Option<JsonError> {
    let mut path = String::new();
    twice_named_in(pool, of, value, &mut path)
}

fn twice_named_in(
    pool: &DescriptorPool,
    of: &MessageDescriptor,
    value: &Value,
    path: &mut String,
) -> Option<JsonError> {
    let fields = value.as_object()?;
    let inner = match of.full_name() {
        "google.protobuf.Any" => Some(pool.get_message_by_name(full_name(fields.get("@type")?.as_str()?))?),
        _ => None,
    };
    let of = inner.as_ref().unwrap_or(of);
    if of.full_name().starts_with("google.protobuf.") {
        // Of a form of their own.
        return None;
    }
    let mut named = BTreeMap::new();
    for (key, value) in fields {
        let Some(field) = of.get_field_by_name(key).or_else(|| of.get_field_by_json_name(key)) else {
            continue;
        };
        if let Some(other) = named.insert(field.number(), key) {
            return Some(JsonError::Field {
                path: join(path, "."),
                message: format!("`{other}` and `{key}` name the same field"),
            });
        }
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        if let Some(error) = twice_named_below(pool, &field, value, path) {
            return Some(error);
        }
        path.truncate(length);
    }
    None
}

/// The same in what a field holds: a message, a list or a map of them.
fn twice_named_below(
    pool: &DescriptorPool,
    field: &FieldDescriptor,
    value: &Value,
    path: &mut String,
) -> Option<JsonError> {
    let Kind::Message(message) = field.kind() else {
        return None;
    };
    let length = path.len();
    let mut below = |of: &MessageDescriptor, value: &Value, step: String| {
        path.push_str(&step);
        let found = twice_named_in(pool, of, value, path);
        path.truncate(length);
        found
    };
    match value {
        Value::Object(entries) if field.is_map() => {
            let Kind::Message(message) = message.map_entry_value_field().kind() else {
                return None;
            };
            let mut entries = entries.iter();
            entries.find_map(|(key, value)| below(&message, value, format!(".{key}")))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(n, value)| below(&message, value, format!("[{n}]")))
        }
        value => below(&message, value, String::new()),
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
