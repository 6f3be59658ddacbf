//! Values of expressions, and how they compare.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;

use crate::expression::{Constant, Failed};

/// What filters have found out about a request, each by its name.
pub type Metadata = BTreeMap<Arc<str>, Json>;

/// A value, borrowed where it can be.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number that isn't below zero.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A time that passes.
    Duration(SignedDuration),
    /// A point in time.
    Timestamp(Timestamp),
    /// A list.
    List(Rc<[Value<'a>]>),
    /// A map.
    Map(Rc<[[Value<'a>; 2]]>),
    /// What filters have found out, by their names.
    Found(&'a Metadata),
    /// A list that a filter has found.
    FoundList(&'a [Json]),
    /// A map that a filter has found.
    FoundMap(&'a serde_json::Map<String, Json>),
}

impl<'a> Value<'a> {
    /// A text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// What a filter has found.
    fn found(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            // Envoy keeps all numbers so.
            Json::Number(number) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            Json::String(text) => Self::text(text.as_str()),
            Json::Array(list) => Self::FoundList(list),
            Json::Object(map) => Self::FoundMap(map),
        }
    }

    /// The elements of a list.
    pub(super) fn elements(&self) -> Option<Rc<[Value<'a>]>> {
        match self {
            Self::List(list) => Some(Rc::clone(list)),
            Self::FoundList(list) => Some(list.iter().map(Self::found).collect()),
            _ => None,
        }
    }

    /// The entry of a map; fails for what is no map, and for a key that no map has.
    pub(super) fn entry(&self, key: &Value<'_>) -> Result<Option<Value<'a>>, Failed> {
        use Value::{Bool, Double, Int, Text, Uint};
        if !matches!(key, Bool(_) | Int(_) | Uint(_) | Double(_) | Text(_)) {
            return Err(Failed);
        }
        let name = match key {
            Text(text) => Some(&**text),
            _ => None,
        };
        match self {
            Self::Map(entries) => {
                let found = entries.iter().find(|[known, _]| known.equals(key));
                Ok(found.map(|[_, value]| value.clone()))
            }
            Self::Found(metadata) => Ok(name.and_then(|name| metadata.get(name)).map(Self::found)),
            Self::FoundMap(map) => Ok(name.and_then(|name| map.get(name)).map(Self::found)),
            _ => Err(Failed),
        }
    }

    /// The element of a list, or the entry of a map.
    pub(super) fn at(&self, key: &Value<'_>) -> Result<Value<'a>, Failed> {
        let Some(elements) = self.elements() else {
            return self.entry(key)?.ok_or(Failed);
        };
        let place = match key {
            Value::Int(place) => usize::try_from(*place).ok(),
            Value::Uint(place) => usize::try_from(*place).ok(),
            Value::Double(place) if place.fract() == 0.0 && *place >= 0.0 => Some(*place as usize),
            _ => None,
        };
        place.and_then(|place| elements.get(place)).cloned().ok_or(Failed)
    }

    /// Whether a list holds it, or a map has such an entry.
    pub(super) fn is_in(&self, container: &Value<'_>) -> Result<bool, Failed> {
        match container.elements() {
            Some(elements) => Ok(elements.iter().any(|element| element.equals(self))),
            None => Ok(container.entry(self)?.is_some()),
        }
    }

    /// How many elements, entries, characters or bytes it has.
    pub(super) fn size(&self) -> Result<usize, Failed> {
        Ok(match self {
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            Self::Found(metadata) => metadata.len(),
            Self::FoundList(list) => list.len(),
            Self::FoundMap(map) => map.len(),
            _ => return Err(Failed),
        })
    }

    fn entries(&self) -> Option<Vec<[Value<'a>; 2]>> {
        Some(match self {
            Self::Map(map) => map.to_vec(),
            Self::Found(metadata) => {
                let entries = metadata.iter();
                entries
                    .map(|(name, value)| [Self::text(&**name), Self::found(value)])
                    .collect()
            }
            Self::FoundMap(map) => {
                let entries = map.iter();
                entries
                    .map(|(name, value)| [Self::text(name.as_str()), Self::found(value)])
                    .collect()
            }
            _ => return None,
        })
    }

    /// Equality: of numbers by what they are, whatever their types; of values that can't be compared none.
    pub(super) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Null, Value::Null) => return true,
            (Self::Bool(one), Value::Bool(other)) => return one == other,
            (Self::Text(one), Value::Text(other)) => return one == other,
            (Self::Bytes(one), Value::Bytes(other)) => return one == other,
            _ => {}
        }
        if let (Some(ones), Some(others)) = (self.elements(), other.elements()) {
            return ones.len() == others.len() && ones.iter().zip(others.iter()).all(|(a, b)| a.equals(b));
        }
        if let (Some(ones), Some(others)) = (self.entries(), other.entries()) {
            let is_there = |[key, value]: &[Value<'_>; 2]| {
                let found = other.entry(key).ok().flatten();
                found.is_some_and(|found| found.equals(value))
            };
            return ones.len() == others.len() && ones.iter().all(is_there);
        }
        matches!(self.order(other), Ok(Some(Ordering::Equal)))
    }

    /// Which one is less; `None` beside what is no number. Fails for what has no order.
    pub(super) fn order(&self, other: &Value<'_>) -> Result<Option<Ordering>, Failed> {
        use Value::{Bool, Bytes, Double, Duration, Int, Text, Timestamp, Uint};
        Ok(match (self, other) {
            (Bool(one), Bool(other)) => Some(one.cmp(other)),
            (Text(one), Text(other)) => Some(one.cmp(other)),
            (Bytes(one), Bytes(other)) => Some(one.cmp(other)),
            (Duration(one), Duration(other)) => Some(one.cmp(other)),
            (Timestamp(one), Timestamp(other)) => Some(one.cmp(other)),
            (Double(one), Double(other)) => one.partial_cmp(other),
            (Int(_) | Uint(_), Int(_) | Uint(_)) => self.whole().zip(other.whole()).map(|(a, b)| a.cmp(&b)),
            // As in Envoy, as doubles.
            (Int(_) | Uint(_), Double(other)) => self.whole().and_then(|whole| (whole as f64).partial_cmp(other)),
            (Double(one), Int(_) | Uint(_)) => other.whole().and_then(|whole| one.partial_cmp(&(whole as f64))),
            _ => return Err(Failed),
        })
    }

    fn whole(&self) -> Option<i128> {
        match self {
            Self::Int(number) => Some((*number).into()),
            Self::Uint(number) => Some((*number).into()),
            _ => None,
        }
    }
}

impl Constant {
    /// As a value.
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Text(text) => Value::text(&**text),
            Self::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
        }
    }
}
