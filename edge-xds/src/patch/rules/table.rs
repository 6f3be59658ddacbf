//! The rules of all messages, as `cargo xtask gen` cuts them out of Envoy's descriptors.

use crate::json::JsonError;
use envoy_types::pb::validate::FieldRules;
use prost::Message as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

/// A descriptor set of which packages, names, numbers and rules are left.
const ENCODED: &[u8] = include_bytes!("envoy.rules");

/// What is asked of messages, by their full names.
pub(super) struct Table {
    messages: BTreeMap<String, MessageRules>,
}

/// What is asked of a message.
#[derive(Default)]
pub(super) struct MessageRules {
    /// By the number of the field.
    pub(super) fields: BTreeMap<u32, FieldRules>,
    /// Those of which a field must be set.
    pub(super) oneofs: BTreeSet<String>,
}

impl Table {
    /// The table, which lives as long as the process once somebody patches.
    pub(super) fn cached() -> Result<&'static Self, JsonError> {
        static TABLE: OnceLock<Result<Table, JsonError>> = OnceLock::new();
        TABLE.get_or_init(Self::read).as_ref().map_err(Clone::clone)
    }

    fn read() -> Result<Self, JsonError> {
        let set = Set::decode(ENCODED).map_err(|error| JsonError::Descriptors(error.to_string()))?;
        let mut messages = BTreeMap::new();
        for file in set.files {
            let within = file.messages.into_iter();
            within.for_each(|message| message.enter(&file.package, &mut messages));
        }
        Ok(Self { messages })
    }

    /// The rules of a message; none where it takes everything.
    pub(super) fn get(&self, full_name: &str) -> Option<&MessageRules> {
        self.messages.get(full_name)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &FieldRules> {
        self.messages.values().flat_map(|message| message.fields.values())
    }
}

/// `google.protobuf.FileDescriptorSet`, and so on, with the option of `protoc-gen-validate`.
#[derive(Clone, PartialEq, prost::Message)]
struct Set {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "4")]
    messages: Vec<Definition>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Definition {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<Definition>,
    #[prost(message, repeated, tag = "8")]
    oneofs: Vec<Oneof>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Field {
    #[prost(uint32, tag = "3")]
    number: u32,
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldOptions {
    #[prost(message, optional, tag = "1071")]
    rules: Option<FieldRules>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Oneof {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    options: Option<OneofOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OneofOptions {
    #[prost(bool, tag = "1071")]
    required: bool,
}

impl Definition {
    /// Enters what it says of itself, and what is defined in it.
    fn enter(self, scope: &str, messages: &mut BTreeMap<String, MessageRules>) {
        let full_name = format!("{scope}.{}", self.name);
        let nested = self.nested.into_iter();
        nested.for_each(|message| message.enter(&full_name, messages));
        let rules = |field: Field| Some((field.number, field.options?.rules?));
        let is_required = |oneof: &Oneof| oneof.options.as_ref().is_some_and(|options| options.required);
        let rules = MessageRules {
            fields: self.fields.into_iter().filter_map(rules).collect(),
            oneofs: self
                .oneofs
                .into_iter()
                .filter(is_required)
                .map(|oneof| oneof.name)
                .collect(),
        };
        messages.insert(full_name, rules);
    }
}
