//! Protobuf messages to and from JSON (the protobuf JSON mapping, with `Any` expanded by its `@type`).
//!
//! Two names for each field exist, `snake_case` as in the `.proto` file and `camelCase`; both are read, and [`Names`]
//! chooses what is written. Reading is strict: an unknown field, enum value or type is an error with its path.
//!
//! Conversion is driven by descriptors ([`Codec`]), not by generated code, because `Any` names types at run time. The
//! whole descriptor set takes some ten megabytes once decoded. A long-lived process with thousands of messages to
//! convert keeps it ([`Codec::cached`]); one that converts a bootstrap and goes on takes a codec of just the types it
//! needs ([`Codec::for_value`], [`Codec::for_known`]) and drops it.

mod canonical;
mod descriptors;
mod duplicates;
mod path;
mod redact;
mod value;
mod write;

#[cfg(test)]
mod tests;

use crate::snapshot::Rope;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, ReflectMessage as _, SerializeOptions,
};
use serde::{Serialize, Serializer, ser::Error};
use serde_json::Value;
use std::{borrow::Cow, sync::OnceLock};
pub(crate) use value::collect_types;

/// How field names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As in the `.proto` file: `route_config`. What people write in bootstraps.
    Proto,
    /// `routeConfig`. What dumps show.
    Camel,
}

/// Why a message could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A value is not what the message wants at this place.
    #[error("{path}: {message}")]
    Field {
        /// Where, e.g. `static_resources.listeners[0].name`; `.` for the whole.
        path: String,
        /// What was wrong and what was expected.
        message: String,
    },
    /// Nobody knows this message type.
    #[error("unknown message type `{0}`")]
    UnknownType(String),
    /// The bytes are not a message of the type.
    #[error("not a valid {name}: {message}")]
    Malformed {
        /// Full name of the type.
        name: String,
        /// What the decoder says.
        message: String,
    },
    /// The descriptor set that is compiled in can't be read.
    #[error("the descriptor set is damaged: {0}")]
    Descriptors(String),
}

/// Converts by a set of descriptors.
#[derive(Clone, Debug)]
pub struct Codec {
    pool: DescriptorPool,
}

impl Codec {
    /// A codec for every type, decoded anew; its memory is freed when it is dropped.
    pub fn new() -> Result<Self, JsonError> {
        Self::decode(descriptors::ALL)
    }

    /// A codec for a type and all types that the `@type` keys of a JSON value name. Names that nobody knows are left
    /// to the reader, who can say where they stand.
    pub fn for_value<M: Name>(value: &Value) -> Result<Self, JsonError> {
        let mut names = vec![M::full_name()];
        value::collect_types(value, &mut names);
        Self::decode(&descriptors::closure(names.iter().map(String::as_str))?)
    }

    /// A codec for those of these types (full names, no leading dot) that there are, and whatever their fields refer
    /// to. Types that stand inside an `Any` must be named too.
    pub fn for_known<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, JsonError> {
        Self::decode(&descriptors::closure(names)?)
    }

    /// The codec for every type that lives as long as the process.
    pub fn cached() -> Result<&'static Self, JsonError> {
        static CODEC: OnceLock<Result<Codec, JsonError>> = OnceLock::new();
        CODEC.get_or_init(Self::new).as_ref().map_err(Clone::clone)
    }

    fn decode(set: &[u8]) -> Result<Self, JsonError> {
        // The first well-known type that prost-reflect meets makes it keep the descriptors of all of them for ever. Met
        // here they stand below the pool; met within it they would keep its memory from the system after it is dropped.
        ().descriptor();
        let pool = DescriptorPool::decode(set).map_err(|error| JsonError::Descriptors(error.to_string()))?;
        Ok(Self { pool })
    }

    /// The descriptors themselves.
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// A typed message as JSON.
    pub fn to_json<M: Message + Name>(&self, message: &M, names: Names) -> Result<Value, JsonError> {
        self.bytes_to_json(&M::full_name(), &message.encode_to_vec(), names)
    }

    /// A typed message from JSON.
    pub fn from_json<M: Message + Name + Default>(&self, value: Value) -> Result<M, JsonError> {
        let name = M::full_name();
        let bytes = self.bytes_from_json(&name, value)?;
        M::decode(bytes.as_slice()).map_err(|error| JsonError::Malformed {
            name,
            message: error.to_string(),
        })
    }

    /// An encoded message of a type, given by full name or type URL, as JSON.
    pub fn bytes_to_json(&self, name: &str, bytes: &[u8], names: Names) -> Result<Value, JsonError> {
        self.serialize(name, bytes, names, serde_json::value::Serializer)
    }

    /// An `Any` as JSON, its type in `@type`.
    pub fn any_to_json(&self, any: &Any, names: Names) -> Result<Value, JsonError> {
        let mut value = self.bytes_to_json(&any.type_url, &any.value, names)?;
        if let Value::Object(fields) = &mut value {
            fields.insert("@type".to_owned(), any.type_url.clone().into());
            return Ok(value);
        }
        // Types with a JSON form of their own (Duration, wrappers) stand beside their type.
        Ok(serde_json::json!({ "@type": any.type_url, "value": value }))
    }

    /// Messages without what Envoy's API marks as sensitive: `[redacted]` stands in its place.
    pub fn redacted(&self, messages: &[Any]) -> Result<Vec<Any>, JsonError> {
        let redaction = redact::Redaction::new(&self.pool);
        let one = |any: &Any| {
            let mut message = self.message(&any.type_url, &any.value)?;
            redaction.apply(&mut message);
            Ok(Any {
                type_url: any.type_url.clone(),
                value: message.encode_to_vec(),
            })
        };
        messages.iter().map(one).collect()
    }

    /// An encoded message of a type, given by full name or type URL, from JSON. A top-level `@type` is allowed and
    /// must then agree. A field that is written by both of its names is an error. Equal values give equal bytes.
    pub fn bytes_from_json(&self, name: &str, mut value: Value) -> Result<Vec<u8>, JsonError> {
        let descriptor = self.descriptor(name)?;
        if let Some(found) = value.as_object_mut().and_then(|fields| fields.remove("@type")) {
            let agrees = found
                .as_str()
                .is_some_and(|url| full_name(url) == descriptor.full_name());
            if !agrees {
                let message = format!("expected the type `{}`, found {found}", descriptor.full_name());
                return Err(JsonError::Field {
                    path: "@type".to_owned(),
                    message,
                });
            }
        }
        if let Some(error) = duplicates::named_twice(&self.pool, &descriptor, &value) {
            return Err(error);
        }
        match read(&descriptor, &value) {
            Ok(message) => canonical::sort_maps(&self.pool, &descriptor, &message.encode_to_vec()).map_err(|error| {
                JsonError::Malformed {
                    name: descriptor.full_name().to_owned(),
                    message: error.to_string(),
                }
            }),
            Err(error) => Err(value::innermost(&self.pool, &value).unwrap_or(error)),
        }
    }

    /// An encoded message with the entries of its maps in one order; everything else keeps its bytes.
    pub(crate) fn with_sorted_maps(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, JsonError> {
        let descriptor = self.descriptor(name)?;
        canonical::sort_maps(&self.pool, &descriptor, bytes).map_err(|error| JsonError::Malformed {
            name: descriptor.full_name().to_owned(),
            message: error.to_string(),
        })
    }

    /// An encoded message of a type, given by full name or type URL, to look into.
    pub(crate) fn message(&self, name: &str, bytes: &[u8]) -> Result<DynamicMessage, JsonError> {
        self.named(name, bytes, None)
    }

    /// Writes an encoded message to a serializer, without a value in between.
    pub fn serialize<S: Serializer>(
        &self,
        name: &str,
        bytes: &[u8],
        names: Names,
        serializer: S,
    ) -> Result<S::Ok, JsonError> {
        let descriptor = self.descriptor(name)?;
        let malformed = |message: String| JsonError::Malformed {
            name: full_name(name).to_owned(),
            message,
        };
        let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| malformed(error.to_string()))?;
        let form = write::Message {
            message: &message,
            options: &options(names),
            names,
        };
        form.serialize(serializer).map_err(|error| malformed(error.to_string()))
    }

    /// Writes an encoded message with its type in `@type`, like an `Any`. A new name replaces its field `name`, for
    /// readers who know it by another one.
    pub fn serialize_any<S: Serializer>(
        &self,
        type_url: &str,
        bytes: &[u8],
        names: Names,
        rename: Option<&str>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let message = self.named(type_url, bytes, rename).map_err(S::Error::custom)?;
        let fields = write::Message {
            message: &message,
            options: &options(names),
            names,
        };
        value::Typed { type_url, fields }.serialize(serializer)
    }

    /// The same for a message in pieces: a header, and in each piece behind it one element of a repeated field.
    /// Elements are decoded one by one as they are written, because decoded they take many times their bytes, and a
    /// table may have ten thousand hosts.
    pub fn serialize_rope<S: Serializer>(
        &self,
        type_url: &str,
        rope: &Rope,
        names: Names,
        rename: &str,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut elements = rope.pieces();
        let header = elements
            .next()
            .map_or(Cow::Borrowed([].as_slice()), |header| header.bytes());
        let header = self.named(type_url, &header, Some(rename)).map_err(S::Error::custom)?;
        let message = write::Message {
            message: &header,
            options: &options(names),
            names,
        };
        let elements = elements.collect();
        let fields = write::Rope { message, elements };
        value::Typed { type_url, fields }.serialize(serializer)
    }

    fn named(&self, type_url: &str, bytes: &[u8], name: Option<&str>) -> Result<DynamicMessage, JsonError> {
        let mut message =
            DynamicMessage::decode(self.descriptor(type_url)?, bytes).map_err(|error| JsonError::Malformed {
                name: full_name(type_url).to_owned(),
                message: error.to_string(),
            })?;
        if let Some(name) = name {
            message.set_field_by_name("name", prost_reflect::Value::String(name.to_owned()));
        }
        Ok(message)
    }

    fn descriptor(&self, name: &str) -> Result<MessageDescriptor, JsonError> {
        let name = full_name(name);
        self.pool
            .get_message_by_name(name)
            .ok_or_else(|| JsonError::UnknownType(name.to_owned()))
    }
}

/// A typed message as JSON, by the cached codec.
pub fn to_json<M: Message + Name>(message: &M, names: Names) -> Result<Value, JsonError> {
    Codec::cached()?.to_json(message, names)
}

/// A typed message from JSON, by the cached codec.
pub fn from_json<M: Message + Name + Default>(value: Value) -> Result<M, JsonError> {
    Codec::cached()?.from_json(value)
}

/// The full name in a type URL; a name without slash is one already.
pub fn full_name(type_url: &str) -> &str {
    type_url.rsplit_once('/').map_or(type_url, |(_, name)| name)
}

fn options(names: Names) -> SerializeOptions {
    SerializeOptions::new()
        .skip_default_fields(true)
        .use_proto_field_name(names == Names::Proto)
}

fn read(descriptor: &MessageDescriptor, value: &Value) -> Result<DynamicMessage, JsonError> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(value, &mut track);
    DynamicMessage::deserialize_with_options(descriptor.clone(), deserializer, &options).map_err(|error| {
        JsonError::Field {
            path: track.path().to_string(),
            message: error.to_string(),
        }
    })
}
