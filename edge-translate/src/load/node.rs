//! The tree between text and types: every value remembers the byte where it stands.
//!
//! JSON's own value type forgets places, and a place is what a person needs to mend a file. Both YAML readers build
//! this tree, borrowing from the text wherever nothing was escaped.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use serde_json::Value;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'a> {
    /// Byte offset in the whole text.
    pub(crate) at: u32,
    /// The value.
    pub(crate) data: Data<'a>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(f64),
    Text(Cow<'a, str>),
    Seq(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<'a> {
    /// Byte offset of the key.
    pub(crate) at: u32,
    /// The key.
    pub(crate) key: Cow<'a, str>,
    /// The value.
    pub(crate) value: Node<'a>,
}

/// Mappings up to this size are checked for repeated keys by comparing all pairs.
const PAIRWISE: usize = 12;

/// The first entry whose key stands in the mapping already.
pub(crate) fn repeated<'n, 'a>(entries: &'n [Entry<'a>]) -> Option<&'n Entry<'a>> {
    if entries.len() <= PAIRWISE {
        return entries.iter().enumerate().find_map(|(i, entry)| {
            entries[..i]
                .iter()
                .any(|earlier| earlier.key == entry.key)
                .then_some(entry)
        });
    }
    let mut seen = FxHashSet::default();
    entries.iter().find(|entry| !seen.insert(&*entry.key))
}

impl<'a> Node<'a> {
    /// The value under a key of a mapping, unless it is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match &self.data {
            Data::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == key)
                .map(|entry| &entry.value)
                .filter(|v| v.data != Data::Null),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A tree without places, which borrows what it holds.
    pub(crate) fn from_value(value: &'a Value) -> Self {
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(flag) => Data::Bool(*flag),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Data::Int(int),
                (None, Some(int)) => Data::UInt(int),
                (None, None) => Data::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Data::Text(Cow::Borrowed(text)),
            Value::Array(items) => Data::Seq(items.iter().map(Node::from_value).collect()),
            Value::Object(map) => return Node::from_fields(map),
        };
        Node { at: 0, data }
    }

    /// The same of a mapping with these fields.
    pub(crate) fn from_fields(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Self {
        let entries = fields.into_iter().map(|(key, value)| Entry {
            at: 0,
            key: Cow::Borrowed(key),
            value: Node::from_value(value),
        });
        Node {
            at: 0,
            data: Data::Map(entries.collect()),
        }
    }

    /// The same data as JSON.
    pub(crate) fn to_value(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Int(int) => Value::from(*int),
            Data::UInt(int) => Value::from(*int),
            Data::Float(float) => Value::from(*float),
            Data::Text(text) => Value::String(text.clone().into_owned()),
            Data::Seq(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Data::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|e| (e.key.clone().into_owned(), e.value.to_value()))
                    .collect(),
            ),
        }
    }
}
