//! Writes protobuf fields by number, for the few messages that generated types can't write deterministically: maps of
//! generated types iterate in random order, and `Struct` is a map.

use prost::encoding::{WireType, encode_key, encode_varint};

/// Writes a string field.
pub(crate) fn put_str(out: &mut Vec<u8>, number: u32, text: &str) {
    put_bytes(out, number, text.as_bytes());
}

/// Writes a bytes field, or an embedded message that is encoded already.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes an embedded message whose fields the closure writes. The length goes in front once it is known.
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, fields: impl FnOnce(&mut Vec<u8>)) {
    encode_key(number, WireType::LengthDelimited, out);
    let start = out.len();
    out.push(0);
    fields(out);
    let len = out.len() - start - 1;
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out[start] = short,
        _ => {
            let mut prefix = Vec::with_capacity(10);
            encode_varint(len as u64, &mut prefix);
            out.splice(start..=start, prefix);
        }
    }
}

/// Writes a `google.protobuf.Struct` entry whose value is a string.
pub(crate) fn put_struct_str(out: &mut Vec<u8>, key: &str, value: &str) {
    put_struct_entry(out, key, |out| put_str(out, VALUE_STRING, value));
}

/// Writes a `google.protobuf.Struct` entry; the closure writes the fields of its `Value`.
pub(crate) fn put_struct_entry(out: &mut Vec<u8>, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, STRUCT_FIELDS, |out| {
        put_str(out, MAP_KEY, key);
        put_message(out, MAP_VALUE, value);
    });
}

/// Key of a map entry.
pub(crate) const MAP_KEY: u32 = 1;
/// Value of a map entry.
pub(crate) const MAP_VALUE: u32 = 2;
/// `google.protobuf.Struct.fields`.
const STRUCT_FIELDS: u32 = 1;
/// `google.protobuf.Value.string_value`.
const VALUE_STRING: u32 = 3;
/// `google.protobuf.Value.struct_value`.
pub(crate) const VALUE_STRUCT: u32 = 5;
/// `google.protobuf.Value.list_value`.
pub(crate) const VALUE_LIST: u32 = 6;
/// `google.protobuf.ListValue.values`.
pub(crate) const LIST_VALUES: u32 = 1;
