//! Finds out whether a proxy would refuse a resource, before it is sent.
//!
//! Envoy's API carries its constraints as options of its fields (protoc-gen-validate), and the proxy checks them when
//! it takes a resource. The same rules are evaluated here on the encoded message, through every `Any` in it, so that a
//! resource that can't be accepted is kept back alone instead of being rejected along with others.
//!
//! Absent: what only the proxy can know, such as whether an expression compiles or a cluster exists.

mod admit;
mod rules;
mod scalar;

#[cfg(test)]
mod tests;

pub use admit::Quarantined;

use crate::json::{Codec, full_name};
use prost_reflect::{DynamicMessage, ExtensionDescriptor, FieldDescriptor, MessageDescriptor, ReflectMessage, Value};
use regex::Regex;
use std::{collections::BTreeMap, sync::Arc};

/// A constraint that a message breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Violation {
    /// The field, e.g. `virtual_hosts[0].domains`.
    pub path: String,
    /// What is wanted of it.
    pub message: String,
}

/// Evaluates constraints. Remembers the rules of the types it has met.
#[derive(Debug)]
pub struct Validator<'a> {
    codec: &'a Codec,
    fields: Option<ExtensionDescriptor>,
    oneofs: Option<ExtensionDescriptor>,
    messages: BTreeMap<String, Arc<MessageRules>>,
    patterns: BTreeMap<String, Option<Regex>>,
}

/// The rules of one message type.
#[derive(Debug, Default)]
struct MessageRules {
    /// Fields with rules, or with messages inside that may have some.
    fields: Vec<(FieldDescriptor, Option<DynamicMessage>)>,
    /// Oneofs of which one field must be set.
    required: Vec<prost_reflect::OneofDescriptor>,
}

/// Where the walk is: the path is built up only as far as it goes.
pub(super) type Outcome = Result<(), Violation>;

impl<'a> Validator<'a> {
    /// A validator by the rules in a codec's descriptors.
    pub fn new(codec: &'a Codec) -> Self {
        let pool = codec.pool();
        Self {
            codec,
            fields: pool.get_extension_by_name("validate.rules"),
            oneofs: pool.get_extension_by_name("validate.required"),
            messages: BTreeMap::new(),
            patterns: BTreeMap::new(),
        }
    }

    /// Checks an encoded message of a type, given by full name or type URL, and stops at the first violation.
    pub fn validate(&mut self, type_url: &str, bytes: &[u8]) -> Outcome {
        self.any(type_url, bytes, "")
    }

    fn any(&mut self, type_url: &str, bytes: &[u8], path: &str) -> Outcome {
        let failed = |message: String| Violation {
            path: path.to_owned(),
            message,
        };
        let name = full_name(type_url);
        let descriptor = self.codec.pool().get_message_by_name(name);
        let descriptor = descriptor.ok_or_else(|| failed(format!("unknown message type `{name}`")))?;
        let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| failed(error.to_string()))?;
        self.message(&message, path)
    }

    fn message(&mut self, message: &DynamicMessage, path: &str) -> Outcome {
        let descriptor = message.descriptor();
        if descriptor.full_name() == "google.protobuf.Any" {
            let (url, value) = (
                message.get_field_by_name("type_url"),
                message.get_field_by_name("value"),
            );
            let url = url.as_deref().and_then(Value::as_str).unwrap_or_default();
            let value = value.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
            return if url.is_empty() {
                Ok(())
            } else {
                self.any(url, &value, path)
            };
        }
        let rules = self.rules_of(&descriptor);
        for oneof in &rules.required {
            if !oneof.fields().any(|field| message.has_field(&field)) {
                let message = format!("one of {} is required", field_names(oneof));
                return Err(Violation {
                    path: join(path, oneof.name()),
                    message,
                });
            }
        }
        for (field, rules) in &rules.fields {
            let path = join(path, field.name());
            let present = message.has_field(field);
            let value = message.get_field(field);
            if let Some(rules) = rules {
                rules::check_field(self, field, rules, present.then_some(&*value), &value, &path)?;
            }
            if present {
                self.inside(&value, &path)?;
            }
        }
        Ok(())
    }

    /// Checks the messages in a value.
    fn inside(&mut self, value: &Value, path: &str) -> Outcome {
        match value {
            Value::Message(message) => self.message(message, path),
            Value::List(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(n, item)| match item {
                    Value::Message(message) => self.message(message, &format!("{path}[{n}]")),
                    _ => Ok(()),
                })
            }
            Value::Map(entries) => {
                // In the order of the keys, so that the same violation is found each time.
                let sorted: BTreeMap<String, &Value> =
                    entries.iter().map(|(key, value)| (format!("{key:?}"), value)).collect();
                sorted.into_values().try_for_each(|value| match value {
                    Value::Message(message) => self.message(message, path),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        }
    }

    fn rules_of(&mut self, descriptor: &MessageDescriptor) -> Arc<MessageRules> {
        if let Some(rules) = self.messages.get(descriptor.full_name()) {
            return Arc::clone(rules);
        }
        let rules = Arc::new(MessageRules {
            fields: descriptor
                .fields()
                .filter_map(|field| self.rules_of_field(field))
                .collect(),
            required: descriptor.oneofs().filter(|oneof| self.is_required(oneof)).collect(),
        });
        self.messages
            .insert(descriptor.full_name().to_owned(), Arc::clone(&rules));
        rules
    }

    fn rules_of_field(&self, field: FieldDescriptor) -> Option<(FieldDescriptor, Option<DynamicMessage>)> {
        let options = field.options();
        let rules = self.fields.as_ref().filter(|rules| options.has_extension(rules));
        let rules = rules.and_then(|rules| options.get_extension(rules).as_message().cloned());
        let nested = matches!(field.kind(), prost_reflect::Kind::Message(_));
        (nested || rules.is_some()).then_some((field, rules))
    }

    fn is_required(&self, oneof: &prost_reflect::OneofDescriptor) -> bool {
        let options = oneof.options();
        let required = self.oneofs.as_ref().map(|required| options.get_extension(required));
        required.is_some_and(|required| required.as_bool() == Some(true))
    }

    /// Whether a text matches a pattern; one that doesn't compile here is left to the proxy.
    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        let compiled = self
            .patterns
            .entry(pattern.to_owned())
            .or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

fn field_names(oneof: &prost_reflect::OneofDescriptor) -> String {
    let names: Vec<String> = oneof.fields().map(|field| field.name().to_owned()).collect();
    names.join(", ")
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
