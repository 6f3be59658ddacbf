//! Writes protobuf fields by number, for two sorts of messages. Generated types can't write some deterministically:
//! maps of generated types iterate in random order, and `Struct` is a map. And routes are so many that building two
//! kilobytes of structs for two hundred bytes of encoding is what a first translation would spend its time on.
//!
//! Fields go out in the order of their numbers, as generated types write them, so that either way gives the same bytes.

use prost::{
    Message,
    encoding::{WireType, double, encode_varint, encoded_len_varint, message},
};
use serde_json::{Map, Value};

/// Writes a string field, also when it is empty: a member of a oneof, or an element of a list.
pub(crate) fn put_str(out: &mut Vec<u8>, number: u32, text: &str) {
    put_bytes(out, number, text.as_bytes());
}

/// Writes a string field unless it has the default value.
pub(crate) fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_str(out, number, text);
    }
}

/// Writes a number, truth value or enumeration unless it has the default value.
pub(crate) fn put_varint(out: &mut Vec<u8>, number: u32, value: impl Into<u64>) {
    let value = value.into();
    if value != 0 {
        put_present(out, number, value);
    }
}

/// Writes a number also when it is 0: a member of a oneof.
pub(crate) fn put_present(out: &mut Vec<u8>, number: u32, value: impl Into<u64>) {
    put_key(out, number, WireType::Varint);
    put_number(out, value.into());
}

/// Writes a message of a generated type.
pub(crate) fn put_generated(out: &mut Vec<u8>, number: u32, generated: &impl Message) {
    message::encode(number, generated, out);
}

/// One message that says what several do together: messages behind each other are read as one, whose maps and lists
/// have the entries of all (protobuf encoding, "last one wins"). So a map has an order.
pub(crate) fn joined<M: Message>(parts: impl Iterator<Item = M>) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        out.extend(part.encode_to_vec());
    }
    out
}

/// Writes a bytes field, or an embedded message that is encoded already.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_key(out, number, WireType::LengthDelimited);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes an embedded message whose fields the closure writes. The length goes in front once it is known.
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, fields: impl FnOnce(&mut Vec<u8>)) {
    put_key(out, number, WireType::LengthDelimited);
    let start = out.len();
    out.push(0);
    fields(out);
    let end = out.len();
    let len = end - start - 1;
    if len < 0x80 {
        out[start] = len as u8;
        return;
    }
    let width = encoded_len_varint(len as u64);
    out.resize(end + width - 1, 0);
    out.copy_within(start + 1..end, start + width);
    encode_varint(len as u64, &mut &mut out[start..start + width]);
}

fn put_key(out: &mut Vec<u8>, number: u32, kind: WireType) {
    put_number(out, u64::from(number << 3 | kind as u32));
}

/// A number as protobuf writes it. Nearly all take one byte, which needs no loop.
fn put_number(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        encode_varint(value, out);
    }
}

/// Writes a `google.protobuf.Struct` entry whose value is a string. Nearly all are short, so that each length is a byte
/// and known before; there are a dozen for each route.
pub(crate) fn put_struct_str(out: &mut Vec<u8>, key: &str, value: &str) {
    const ENTRY: u8 = one_byte_key(STRUCT_FIELDS);
    const KEY: u8 = one_byte_key(MAP_KEY);
    const VALUE: u8 = one_byte_key(MAP_VALUE);
    const STRING: u8 = one_byte_key(VALUE_STRING);
    let entry = key.len() + value.len() + 6;
    if entry >= 0x80 {
        return put_struct_entry(out, key, |out| put_str(out, VALUE_STRING, value));
    }
    let (key_len, value_len) = (key.len() as u8, value.len() as u8);
    out.reserve(entry + 2);
    out.extend_from_slice(&[ENTRY, entry as u8, KEY, key_len]);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(&[VALUE, value_len + 2, STRING, value_len]);
    out.extend_from_slice(value.as_bytes());
}

/// The key of a field with a length in front, whose number is small.
const fn one_byte_key(number: u32) -> u8 {
    (number << 3 | WireType::LengthDelimited as u32) as u8
}

/// Writes a `google.protobuf.Struct` entry; the closure writes the fields of its `Value`.
pub(crate) fn put_struct_entry(out: &mut Vec<u8>, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, STRUCT_FIELDS, |out| {
        put_str(out, MAP_KEY, key);
        put_message(out, MAP_VALUE, value);
    });
}

/// Writes the fields of a `google.protobuf.Struct`, in the order of their names.
pub(crate) fn put_struct(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in fields {
        put_struct_entry(out, name, |out| put_value(out, value));
    }
}

/// Writes the fields of a `google.protobuf.Value`.
fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => put_present(out, VALUE_NULL, 0u64),
        Value::Bool(is) => put_present(out, VALUE_BOOL, *is),
        Value::Number(number) => double::encode(VALUE_NUMBER, &number.as_f64().unwrap_or_default(), out),
        Value::String(text) => put_str(out, VALUE_STRING, text),
        Value::Array(list) => put_message(out, VALUE_LIST, |out| {
            for value in list {
                put_message(out, LIST_VALUES, |out| put_value(out, value));
            }
        }),
        Value::Object(fields) => put_message(out, VALUE_STRUCT, |out| put_struct(out, fields)),
    }
}

/// Key of a map entry.
pub(crate) const MAP_KEY: u32 = 1;
/// Value of a map entry.
pub(crate) const MAP_VALUE: u32 = 2;
/// `google.protobuf.Struct.fields`.
const STRUCT_FIELDS: u32 = 1;
/// `google.protobuf.Value.null_value`.
const VALUE_NULL: u32 = 1;
/// `google.protobuf.Value.number_value`.
const VALUE_NUMBER: u32 = 2;
/// `google.protobuf.Value.bool_value`.
const VALUE_BOOL: u32 = 4;
/// `google.protobuf.Value.string_value`.
const VALUE_STRING: u32 = 3;
/// `google.protobuf.Value.struct_value`.
pub(crate) const VALUE_STRUCT: u32 = 5;
/// `google.protobuf.Value.list_value`.
pub(crate) const VALUE_LIST: u32 = 6;
/// `google.protobuf.ListValue.values`.
pub(crate) const LIST_VALUES: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths on both sides of what a byte can tell.
    #[test]
    fn short_entries_have_the_bytes_of_long_ones() {
        for key in [0, 1, 60] {
            for value in 0..200 {
                let (key, value) = ("k".repeat(key), "v".repeat(value));
                let (mut short, mut long) = (Vec::new(), Vec::new());
                put_struct_str(&mut short, &key, &value);
                put_struct_entry(&mut long, &key, |out| put_str(out, VALUE_STRING, &value));
                assert_eq!(short, long, "{} and {}", key.len(), value.len());
            }
        }
    }
}
