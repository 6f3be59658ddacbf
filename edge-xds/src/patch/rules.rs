//! Which values Envoy takes: it refuses a resource with a value that the options of `protoc-gen-validate` on its
//! messages forbid, and with it all that the resource holds; with such a bootstrap it doesn't start. What a patch makes
//! is judged by the same rules.
//!
//! A message is walked with its descriptor, and with it all messages in it, those within an `Any` by their type, as the
//! extension does that reads it.

mod numbers;
mod table;
mod texts;

#[cfg(test)]
mod tests;

use crate::json::{Codec, JsonError, full_name};
use envoy_types::pb::validate::{EnumRules, FieldRules, MapRules, RepeatedRules, field_rules::Type};
use numbers::{Nanoseconds, range};
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, ReflectMessage as _, Value,
};
use std::{collections::BTreeSet, fmt::Write as _};
use table::Table;

/// Where messages stand whose type only their bytes tell.
const ANY: &str = "google.protobuf.Any";

/// A value that Envoy doesn't take.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} {expected}")]
pub(crate) struct Breach {
    /// Where, e.g. `filter_chains[0].filters[1].typed_config.stat_prefix`.
    path: String,
    /// What it must be.
    expected: String,
}

/// The first value in an encoded message of a type that Envoy doesn't take.
pub(crate) fn breach(codec: &Codec, type_url: &str, bytes: &[u8]) -> Result<Option<Breach>, JsonError> {
    let message = codec.message(type_url, bytes)?;
    let mut judge = Judge {
        pool: codec.pool(),
        table: Table::cached()?,
        path: String::new(),
    };
    let judged = judge.message(&message);
    Ok(judged.err().map(|expected| Breach {
        path: judge.path,
        expected,
    }))
}

/// What a value must be, where it isn't.
type Judged = Result<(), String>;

struct Judge<'t> {
    pool: &'t DescriptorPool,
    table: &'t Table,
    /// Where it stands; after a breach, where that is.
    path: String,
}

impl Judge<'_> {
    fn message(&mut self, message: &DynamicMessage) -> Judged {
        let descriptor = message.descriptor();
        if descriptor.full_name() == ANY {
            return self.within_any(message);
        }
        let rules = self.table.get(descriptor.full_name());
        for oneof in descriptor.oneofs() {
            let is_required = rules.is_some_and(|rules| rules.oneofs.contains(oneof.name()));
            if is_required && !oneof.fields().any(|field| message.has_field(&field)) {
                let names: Vec<String> = oneof.fields().map(|field| field.name().to_owned()).collect();
                return self.at(oneof.name(), |_| {
                    Err(format!("must be set, as one of {}", names.join(", ")))
                });
            }
        }
        for field in descriptor.fields() {
            let rules = rules.and_then(|rules| rules.fields.get(&field.number()));
            if rules.is_some() || message.has_field(&field) {
                self.at(field.name(), |judge| judge.field(message, &field, rules))?;
            }
        }
        Ok(())
    }

    /// The message in an `Any`. That its type is known, reading has told.
    fn within_any(&mut self, any: &DynamicMessage) -> Judged {
        let bytes = any.get_field_by_name("value");
        let bytes = bytes.as_deref().and_then(Value::as_bytes);
        let message = self.pool.get_message_by_name(full_name(&type_url(any)));
        let (Some(bytes), Some(message)) = (bytes, message) else {
            return Ok(());
        };
        let message = DynamicMessage::decode(message, bytes.clone()).map_err(|error| error.to_string())?;
        self.message(&message)
    }

    fn field(&mut self, message: &DynamicMessage, field: &FieldDescriptor, rules: Option<&FieldRules>) -> Judged {
        let is_there = message.has_field(field);
        if !is_there && field.supports_presence() {
            // Which of a oneof is set is for the oneof to say.
            let is_one_of_several = field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
            return match rules.is_some_and(is_required) && !is_one_of_several {
                true => Err("must be set".to_owned()),
                false => Ok(()),
            };
        }
        let value = message.get_field(field);
        match (&*value, rules.and_then(|rules| rules.r#type.as_ref())) {
            (Value::List(items), Some(Type::Repeated(rules))) => self.list(items, &field.kind(), Some(rules)),
            (Value::List(items), _) => self.list(items, &field.kind(), None),
            (Value::Map(_), Some(Type::Map(rules))) => self.map(&value, field, Some(rules)),
            (Value::Map(_), _) => self.map(&value, field, None),
            (value, _) => self.value(value, &field.kind(), rules),
        }
    }

    fn list(&mut self, items: &[Value], kind: &Kind, rules: Option<&RepeatedRules>) -> Judged {
        let of_items = rules.and_then(|rules| rules.items.as_deref());
        if let Some(rules) = rules.filter(|rules| !(rules.ignore_empty() && items.is_empty())) {
            count(items.len(), rules.min_items, rules.max_items, "items")?;
            let mut seen = BTreeSet::new();
            if rules.unique() && !items.iter().all(|item| seen.insert(format!("{item:?}"))) {
                return Err("must have no item twice".to_owned());
            }
        }
        for (n, item) in items.iter().enumerate() {
            self.at(&format!("[{n}]"), |judge| judge.value(item, kind, of_items))?;
        }
        Ok(())
    }

    fn map(&mut self, map: &Value, field: &FieldDescriptor, rules: Option<&MapRules>) -> Judged {
        let (Value::Map(entries), Kind::Message(entry)) = (map, field.kind()) else {
            return Ok(());
        };
        if let Some(rules) = rules.filter(|rules| !(rules.ignore_empty() && entries.is_empty())) {
            count(entries.len(), rules.min_pairs, rules.max_pairs, "entries")?;
        }
        let of_keys = rules.and_then(|rules| rules.keys.as_deref());
        let of_values = rules.and_then(|rules| rules.values.as_deref());
        let keys = entry.map_entry_key_field().kind();
        let values = entry.map_entry_value_field().kind();
        let mut entries: Vec<_> = entries.iter().collect();
        // The same breach is told each time.
        entries.sort_by_key(|(key, _)| *key);
        for (key, value) in entries {
            let key = Value::from(key.clone());
            self.at(&format!("[{}]", shown(&key)), |judge| {
                let judged = judge.value(&key, &keys, of_keys);
                judged.map_err(|expected| format!("has a key that {expected}"))?;
                judge.value(value, &values, of_values)
            })?;
        }
        Ok(())
    }

    /// One value that is there.
    fn value(&mut self, value: &Value, kind: &Kind, rules: Option<&FieldRules>) -> Judged {
        let of_type = rules.and_then(|rules| rules.r#type.as_ref());
        match (value, of_type) {
            (Value::Message(message), Some(rule)) => self.known(message, rule),
            (Value::Message(message), None) => {
                let skips = rules.and_then(|rules| rules.message).is_some_and(|rules| rules.skip());
                if skips { Ok(()) } else { self.message(message) }
            }
            (Value::EnumNumber(number), Some(Type::Enum(rules))) => match kind {
                Kind::Enum(descriptor) => enumeration(*number, descriptor, rules),
                _ => Ok(()),
            },
            (value, Some(rule)) => scalar(value, rule),
            (_, None) => Ok(()),
        }
    }

    /// A message that protobuf itself defines, by a rule for what it stands for.
    fn known(&mut self, message: &DynamicMessage, rule: &Type) -> Judged {
        match rule {
            Type::Any(rules) => {
                texts::one_of(&type_url(message), &rules.r#in, &rules.not_in)?;
                self.message(message)
            }
            Type::Duration(rules) => numbers::duration(Nanoseconds::of(message), rules),
            rule => match message.get_field_by_name("value") {
                Some(value) => scalar(&value, rule),
                None => Ok(()),
            },
        }
    }

    /// Judges what stands one step further in.
    fn at(&mut self, step: &str, judge: impl FnOnce(&mut Self) -> Judged) -> Judged {
        let length = self.path.len();
        if !self.path.is_empty() && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        judge(self)?;
        self.path.truncate(length);
        Ok(())
    }
}

fn is_required(rules: &FieldRules) -> bool {
    let by_type = match &rules.r#type {
        Some(Type::Any(rules)) => rules.required(),
        Some(Type::Duration(rules)) => rules.required(),
        Some(Type::Timestamp(rules)) => rules.required(),
        _ => false,
    };
    by_type || rules.message.is_some_and(|rules| rules.required())
}

fn type_url(any: &DynamicMessage) -> String {
    let url = any.get_field_by_name("type_url");
    url.as_deref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn shown(key: &Value) -> String {
    match key {
        Value::String(key) => format!("{key:?}"),
        key => key.to_string(),
    }
}

fn count(found: usize, min: Option<u64>, max: Option<u64>, what: &str) -> Judged {
    let found = u64::try_from(found).unwrap_or(u64::MAX);
    match (min, max) {
        (Some(min), _) if found < min => Err(format!("must have at least {min} {what}")),
        (_, Some(max)) if found > max => Err(format!("must have at most {max} {what}")),
        _ => Ok(()),
    }
}

fn scalar(value: &Value, rule: &Type) -> Judged {
    match (value, rule) {
        (Value::String(text), Type::String(rules)) => texts::text(text, rules),
        (Value::Bytes(bytes), Type::Bytes(rules)) => texts::bytes(bytes, rules),
        (Value::Bool(value), Type::Bool(rules)) => match rules.r#const {
            Some(wanted) if wanted != *value => Err(format!("must be {wanted}")),
            _ => Ok(()),
        },
        (Value::U32(value), Type::Uint32(rules)) => range!(rules).judge(*value),
        (Value::U64(value), Type::Uint64(rules)) => range!(rules).judge(*value),
        (Value::I32(value), Type::Int32(rules)) => range!(rules).judge(*value),
        (Value::I64(value), Type::Int64(rules)) => range!(rules).judge(*value),
        (Value::F32(value), Type::Float(rules)) => range!(rules).judge(*value),
        (Value::F64(value), Type::Double(rules)) => range!(rules).judge(*value),
        _ => Ok(()),
    }
}

fn enumeration(number: i32, descriptor: &EnumDescriptor, rules: &EnumRules) -> Judged {
    let name = |number: i32| {
        let value = descriptor.get_value(number);
        value.map_or_else(|| number.to_string(), |value| value.name().to_owned())
    };
    if rules.defined_only() && descriptor.get_value(number).is_none() {
        return Err("must be a value that is defined".to_owned());
    }
    let is_wrong = rules.r#const.is_some_and(|wanted| wanted != number)
        || (!rules.r#in.is_empty() && !rules.r#in.contains(&number))
        || rules.not_in.contains(&number);
    if !is_wrong {
        return Ok(());
    }
    let mut expected = String::from("must be");
    let wanted = rules.r#const.iter().chain(&rules.r#in).map(|number| name(*number));
    for (n, wanted) in wanted.enumerate() {
        // Writing to a text can't fail.
        let _ = write!(expected, "{}{wanted}", if n == 0 { " " } else { " or " });
    }
    let unwanted: Vec<String> = rules.not_in.iter().map(|number| name(*number)).collect();
    if !unwanted.is_empty() {
        let _ = write!(expected, " other than {}", unwanted.join(", "));
    }
    Err(expected)
}
