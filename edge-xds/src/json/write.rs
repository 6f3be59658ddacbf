//! Writing a decoded message, field by field.
//!
//! The reflection library writes every well-known type by encoding it and decoding it again as its typed form. Every
//! route carries a `Struct` (the objects it came from), which made that a quarter of the time of a dump; here a
//! `Struct` is walked as it is. Other well-known types are left to the library. Keys of maps are sorted, so that the
//! same message is always the same text.

use super::full_name;
use crate::snapshot::Piece;
use base64::{Engine, engine::general_purpose::STANDARD};
use prost::encoding::{decode_key, decode_varint};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, SerializeOptions,
    Value,
};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap, SerializeSeq},
};
use std::{collections::BTreeMap, sync::Arc};

/// A message as a map of its fields, or in the form of its well-known type.
pub(super) struct Message<'a> {
    pub(super) message: &'a DynamicMessage,
    pub(super) options: &'a SerializeOptions,
    pub(super) names: super::Names,
}

impl<'a> Message<'a> {
    fn inner<'m>(&self, message: &'m DynamicMessage) -> Message<'m>
    where
        'a: 'm,
    {
        Message {
            message,
            options: self.options,
            names: self.names,
        }
    }

    fn field(&self, value: &'a Value, kind: Kind) -> Field<'a> {
        Field {
            value,
            kind,
            parent: self.inner(self.message),
        }
    }
}

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = self.message.descriptor();
        match descriptor.full_name() {
            "google.protobuf.Struct" => self.write_struct(serializer),
            "google.protobuf.Value" => self.write_value(serializer),
            "google.protobuf.ListValue" => self.write_list(serializer),
            "google.protobuf.Any" => self.write_any(serializer),
            name if name.starts_with("google.protobuf.") => {
                self.message.serialize_with_options(serializer, self.options)
            }
            _ => self.write_fields(serializer),
        }
    }
}

impl<'a> Message<'a> {
    fn write_fields<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_entries(&mut map)?;
        map.end()
    }

    fn write_entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (field, value) in self.message.fields() {
            self.write_entry(map, &field, value)?;
        }
        Ok(())
    }

    fn write_entry<M: SerializeMap>(
        &self,
        map: &mut M,
        field: &FieldDescriptor,
        value: &'a Value,
    ) -> Result<(), M::Error> {
        map.serialize_entry(self.name_of(field), &self.field(value, field.kind()))
    }

    fn name_of<'f>(&self, field: &'f FieldDescriptor) -> &'f str {
        match self.names {
            super::Names::Proto => field.name(),
            super::Names::Camel => field.json_name(),
        }
    }

    /// The message inside, with its type. One without a type says that there is a setting, and not which.
    fn write_any<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let field = |name| self.message.get_field_by_name(name);
        let (url, bytes) = (field("type_url"), field("value"));
        let Some(url) = url.as_deref().and_then(Value::as_str).filter(|url| !url.is_empty()) else {
            return serializer.serialize_map(Some(0))?.end();
        };
        let known = self
            .message
            .descriptor()
            .parent_pool()
            .get_message_by_name(full_name(url));
        // Types with a form of their own are left to the library, and so is saying that a type is unknown.
        let Some(known) = known.filter(|known| !known.full_name().starts_with("google.protobuf.")) else {
            return self.message.serialize_with_options(serializer, self.options);
        };
        let bytes = bytes
            .as_deref()
            .and_then(Value::as_bytes)
            .map(AsRef::as_ref)
            .unwrap_or_default();
        let message = DynamicMessage::decode(known, bytes).map_err(S::Error::custom)?;
        let fields = Message {
            message: &message,
            options: self.options,
            names: self.names,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("@type", url)?;
        fields.write_entries(&mut map)?;
        map.end()
    }

    fn write_struct<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message.fields().next() {
            Some((field, value)) => self.field(value, field.kind()).serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }

    fn write_list<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message.fields().next() {
            Some((field, value)) => self.field(value, field.kind()).serialize(serializer),
            None => serializer.serialize_seq(Some(0))?.end(),
        }
    }

    /// A `Value` has exactly one of its fields; without any it is null.
    fn write_value<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.message.fields().next() {
            Some((field, value)) => self.field(value, field.kind()).serialize(serializer),
            None => serializer.serialize_none(),
        }
    }
}

/// A message whose elements of a repeated field stand behind it, each in a piece with the field's key and its own
/// length in front.
pub(super) struct Rope<'a> {
    pub(super) message: Message<'a>,
    pub(super) elements: Vec<&'a Arc<Piece>>,
}

impl Serialize for Rope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = match self.elements.first() {
            Some(first) => decode_key(&mut &first.bytes()[..]).map_err(S::Error::custom)?.0,
            None => return self.message.serialize(serializer),
        };
        let descriptor = self.message.message.descriptor();
        let (Some(field), Some(kind)) = (descriptor.get_field(number), self.kind(number)) else {
            return Err(S::Error::custom(format!(
                "no field {number} of {}",
                descriptor.full_name()
            )));
        };
        let elements = Elements { rope: self, kind };
        let name = self.message.name_of(&field);
        let mut map = serializer.serialize_map(None)?;
        // In the order of their numbers, as if the elements stood in the message.
        let mut behind = self.message.message.fields().peekable();
        while let Some((field, value)) = behind.next_if(|(field, _)| field.number() < number) {
            self.message.write_entry(&mut map, &field, value)?;
        }
        map.serialize_entry(name, &elements)?;
        for (field, value) in behind {
            self.message.write_entry(&mut map, &field, value)?;
        }
        map.end()
    }
}

impl Rope<'_> {
    /// The type of the elements.
    fn kind(&self, number: u32) -> Option<MessageDescriptor> {
        match self.message.message.descriptor().get_field(number)?.kind() {
            Kind::Message(kind) => Some(kind),
            _ => None,
        }
    }
}

struct Elements<'a> {
    rope: &'a Rope<'a>,
    kind: MessageDescriptor,
}

impl Serialize for Elements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.rope.elements.len()))?;
        for piece in &self.rope.elements {
            let whole = piece.bytes();
            let mut bytes = &*whole;
            decode_key(&mut bytes).map_err(S::Error::custom)?;
            decode_varint(&mut bytes).map_err(S::Error::custom)?;
            let message = DynamicMessage::decode(self.kind.clone(), bytes).map_err(S::Error::custom)?;
            list.serialize_element(&self.rope.message.inner(&message))?;
        }
        list.end()
    }
}

/// The value of a field.
struct Field<'a> {
    value: &'a Value,
    kind: Kind,
    parent: Message<'a>,
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::I32(value) => serializer.serialize_i32(*value),
            Value::U32(value) => serializer.serialize_u32(*value),
            // 64 bits don't fit the numbers of JSON readers; the protobuf mapping writes them as text.
            Value::I64(value) => serializer.collect_str(value),
            Value::U64(value) => serializer.collect_str(value),
            Value::F32(value) if value.is_finite() => serializer.serialize_f32(*value),
            Value::F64(value) if value.is_finite() => serializer.serialize_f64(*value),
            Value::F32(value) => serializer.serialize_str(not_finite(f64::from(*value))),
            Value::F64(value) => serializer.serialize_str(not_finite(*value)),
            Value::String(value) => serializer.serialize_str(value),
            Value::Bytes(value) => serializer.serialize_str(&STANDARD.encode(value)),
            Value::EnumNumber(number) => match &self.kind {
                Kind::Enum(descriptor) => write_enum(descriptor, *number, serializer),
                _ => serializer.serialize_i32(*number),
            },
            Value::Message(message) => self.parent.inner(message).serialize(serializer),
            Value::List(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&self.parent.field(value, self.kind.clone()))?;
                }
                list.end()
            }
            Value::Map(values) => {
                let kind = match &self.kind {
                    Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
                    other => other.clone(),
                };
                let sorted: BTreeMap<String, &Value> = values.iter().map(|(key, value)| (text(key), value)).collect();
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                for (key, value) in sorted {
                    map.serialize_entry(&key, &self.parent.field(value, kind.clone()))?;
                }
                map.end()
            }
        }
    }
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn write_enum<S: Serializer>(descriptor: &EnumDescriptor, number: i32, serializer: S) -> Result<S::Ok, S::Error> {
    if descriptor.full_name() == "google.protobuf.NullValue" {
        return serializer.serialize_none();
    }
    match descriptor.get_value(number) {
        Some(value) => serializer.serialize_str(value.name()),
        None => serializer.serialize_i32(number),
    }
}

fn text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::I32(value) => value.to_string(),
        MapKey::I64(value) => value.to_string(),
        MapKey::U32(value) => value.to_string(),
        MapKey::U64(value) => value.to_string(),
        MapKey::String(value) => value.clone(),
    }
}
