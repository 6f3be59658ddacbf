//! Taking out of a message what nobody may see who may look at it: the fields that Envoy's API marks as sensitive
//! (`udpa.annotations.sensitive`), as its own dumps do. Where something is to be read from is no secret.

use super::full_name;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value};
use std::collections::BTreeSet;

/// Number of the option in a field's options.
const SENSITIVE: u32 = 76_569_463;
/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";
/// Fields of a `DataSource` that say where a secret is.
const PLACES: [&str; 2] = [
    "envoy.config.core.v3.DataSource.filename",
    "envoy.config.core.v3.DataSource.environment_variable",
];

/// Which fields are sensitive, by their full names.
pub(super) struct Redaction<'a> {
    pool: &'a DescriptorPool,
    sensitive: BTreeSet<String>,
}

/// Whether what is looked at stands in a sensitive field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Plain,
    Sensitive,
}

impl<'a> Redaction<'a> {
    pub(super) fn new(pool: &'a DescriptorPool) -> Self {
        let messages = pool.all_messages();
        let sensitive = messages.flat_map(|message| {
            let fields = message.fields().filter(is_sensitive);
            fields.map(|field| field.full_name().to_owned()).collect::<Vec<_>>()
        });
        Self {
            pool,
            sensitive: sensitive.collect(),
        }
    }

    /// Takes the secrets out of a message, and of the messages in it.
    pub(super) fn apply(&self, message: &mut DynamicMessage) {
        self.message(message, Within::Plain);
    }

    fn message(&self, message: &mut DynamicMessage, within: Within) {
        if message.descriptor().full_name() == "google.protobuf.Any" {
            return self.any(message, within);
        }
        let mut numbers = Vec::new();
        for (field, value) in message.fields_mut() {
            let within = match self.sensitive.contains(field.full_name()) {
                true => Within::Sensitive,
                false => within,
            };
            if within == Within::Plain || holds_texts(&field) {
                self.value(value, within, &field);
            } else {
                numbers.push(field);
            }
        }
        numbers.iter().for_each(|field| message.clear_field(field));
    }

    fn value(&self, value: &mut Value, within: Within, field: &FieldDescriptor) {
        match value {
            Value::Message(message) => self.message(message, within),
            Value::List(items) => items.iter_mut().for_each(|item| self.value(item, within, field)),
            Value::Map(entries) => entries.values_mut().for_each(|entry| self.value(entry, within, field)),
            _ if within == Within::Plain || PLACES.contains(&field.full_name()) => {}
            Value::String(text) => REDACTED.clone_into(text),
            Value::Bytes(bytes) => *bytes = REDACTED.into(),
            _ => {}
        }
    }

    /// What is in an `Any` is looked at by its type. What nobody knows can't be told apart.
    fn any(&self, any: &mut DynamicMessage, within: Within) {
        let url = any.get_field_by_name("type_url");
        let known = url
            .as_deref()
            .and_then(Value::as_str)
            .and_then(|url| self.pool.get_message_by_name(full_name(url)));
        let bytes = any.get_field_by_name("value");
        let bytes = bytes.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        let content = known.and_then(|known| DynamicMessage::decode(known, bytes).ok());
        let redacted = match (content, within) {
            (Some(mut content), _) => {
                self.message(&mut content, within);
                content.encode_to_vec()
            }
            (None, Within::Sensitive) => Vec::new(),
            (None, Within::Plain) => return,
        };
        any.set_field_by_name("value", Value::Bytes(redacted.into()));
    }
}

fn is_sensitive(field: &FieldDescriptor) -> bool {
    let options = field.options();
    options.unknown_fields().any(|option| option.number() == SENSITIVE)
}

/// Whether texts can stand in a field, or in the messages of it.
fn holds_texts(field: &FieldDescriptor) -> bool {
    let kind = match field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
        kind => kind,
    };
    matches!(kind, Kind::Message(_) | Kind::String | Kind::Bytes)
}
