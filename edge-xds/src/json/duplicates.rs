//! Fields that a value names twice, by both of their names: nobody can tell which is meant.

use super::{JsonError, full_name, path::Path, value::has_own_form};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;
use std::collections::BTreeMap;

/// The first field that is named twice.
pub(super) fn named_twice(pool: &DescriptorPool, message: &MessageDescriptor, value: &Value) -> Option<JsonError> {
    in_message(pool, message, value, &mut Path::default())
}

fn in_message(pool: &DescriptorPool, message: &MessageDescriptor, value: &Value, path: &mut Path) -> Option<JsonError> {
    let fields = value.as_object()?;
    let inner = match message.full_name() {
        "google.protobuf.Any" => Some(pool.get_message_by_name(full_name(fields.get("@type")?.as_str()?))?),
        _ => None,
    };
    let message = inner.as_ref().unwrap_or(message);
    if has_own_form(message) {
        return None;
    }
    let mut named = BTreeMap::new();
    for (key, value) in fields {
        let Some(field) = message
            .get_field_by_name(key)
            .or_else(|| message.get_field_by_json_name(key))
        else {
            continue;
        };
        if let Some(other) = named.insert(field.number(), key) {
            return Some(JsonError::Field {
                path: path.here(),
                message: format!("`{other}` and `{key}` name the same field"),
            });
        }
        let found = path.in_field(key, |path| in_field(pool, &field, value, path));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// In what a field holds: a message, a list or a map of them.
fn in_field(pool: &DescriptorPool, field: &FieldDescriptor, value: &Value, path: &mut Path) -> Option<JsonError> {
    let Kind::Message(message) = field.kind() else {
        return None;
    };
    match value {
        Value::Object(entries) if field.is_map() => {
            let Kind::Message(message) = message.map_entry_value_field().kind() else {
                return None;
            };
            let mut entries = entries.iter();
            entries.find_map(|(key, value)| path.in_field(key, |path| in_message(pool, &message, value, path)))
        }
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(n, value)| path.in_item(n, |path| in_message(pool, &message, value, path)))
        }
        value => in_message(pool, &message, value, path),
    }
}
