//! Types, bounds, enums, patterns: what a structural schema asks of a value.

use crate::{path::Path, refusal::Refusal, rules::type_of};
use regex::Regex;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

/// The patterns of a schema, compiled. One that can't be compiled is matched by nothing: whoever wrote it wanted
/// something to be refused.
#[derive(Debug, Default)]
pub(crate) struct Patterns(BTreeMap<String, Option<Regex>>);

impl Patterns {
    /// Those of a schema and all in it.
    pub(crate) fn of(schema: &Value) -> Self {
        let mut patterns = Self::default();
        patterns.gather(schema);
        patterns
    }

    fn gather(&mut self, value: &Value) {
        match value {
            Value::Object(keywords) => {
                if let Some(Value::String(pattern)) = keywords.get("pattern")
                    && !self.0.contains_key(pattern)
                {
                    self.0.insert(pattern.clone(), Regex::new(pattern).ok());
                }
                keywords.values().for_each(|below| self.gather(below));
            }
            Value::Array(entries) => entries.iter().for_each(|below| self.gather(below)),
            _ => {}
        }
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        let compiled = self.0.get(pattern).and_then(Option::as_ref);
        compiled.is_some_and(|compiled| compiled.is_match(text))
    }
}

/// What a check knows and collects.
pub(crate) struct Check<'c> {
    /// Of the schema.
    pub(crate) patterns: &'c Patterns,
    /// What is wrong.
    pub(crate) refusals: &'c mut Vec<Refusal>,
}

impl Check<'_> {
    /// Names what is wrong with a value.
    pub(crate) fn value(&mut self, schema: &Value, value: &Value, path: &Path) {
        let Value::Object(keywords) = schema else { return };
        if *value == Value::Null && schema["nullable"] == true {
            return;
        }
        if let Some(wanted) = wrong_type(schema, value) {
            // What is below can't be told either.
            self.refusals.push(Refusal::wrong_type(path, type_of(value), wanted));
            return;
        }
        if let Some(options) = schema["enum"].as_array()
            && !options.contains(value)
        {
            self.refusals.push(Refusal::unsupported(path, value, options));
        }
        match value {
            Value::String(text) => self.of_text(keywords, text, path),
            Value::Number(_) => self.of_number(keywords, value, path),
            Value::Array(entries) => self.of_list(keywords, entries, path),
            Value::Object(fields) => self.of_object(keywords, fields, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.junctions(schema, value, path);
    }

    fn of_text(&mut self, keywords: &Map<String, Value>, text: &str, path: &Path) {
        let limit = |name: &str| keywords.get(name).and_then(Value::as_u64);
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let pattern = keywords.get("pattern").and_then(Value::as_str);
        // Of one text one fault is told.
        if let Some(most) = limit("maxLength").filter(|most| length > *most) {
            self.refusals.push(Refusal::too_long(path, most));
        } else if let Some(least) = limit("minLength").filter(|least| length < *least) {
            let why = format_args!("{path} in body should be at least {least} chars long");
            self.refusals.push(Refusal::invalid(path, &text.into(), why));
        } else if let Some(pattern) = pattern.filter(|pattern| !self.patterns.matches(pattern, text)) {
            let why = format_args!("{path} in body should match '{pattern}'");
            self.refusals.push(Refusal::invalid(path, &text.into(), why));
        }
        let format = keywords.get("format").and_then(Value::as_str);
        if let Some(format) = format.filter(|format| !is_of(format, text)) {
            self.refusals.push(Refusal::wrong_format(path, text, format));
        }
    }

    fn of_number(&mut self, keywords: &Map<String, Value>, value: &Value, path: &Path) {
        let Some(number) = value.as_f64() else { return };
        let limit = |name: &str| keywords.get(name).and_then(Value::as_f64);
        if let Some(least) = limit("minimum").filter(|least| number < *least) {
            let why = format_args!("{path} in body should be greater than or equal to {least}");
            self.refusals.push(Refusal::invalid(path, value, why));
        }
        if let Some(most) = limit("maximum").filter(|most| number > *most) {
            let why = format_args!("{path} in body should be less than or equal to {most}");
            self.refusals.push(Refusal::invalid(path, value, why));
        }
    }

    fn of_list(&mut self, keywords: &Map<String, Value>, entries: &[Value], path: &Path) {
        let limit = |name: &str| keywords.get(name).and_then(Value::as_u64);
        let count = entries.len();
        let length = u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(most) = limit("maxItems").filter(|most| length > *most) {
            self.refusals.push(Refusal::too_many(path, count, most));
        }
        if let Some(least) = limit("minItems").filter(|least| length < *least) {
            let why = format_args!("{path} in body should have at least {least} items");
            self.refusals.push(Refusal::invalid(path, &count.into(), why));
        }
        if let Some(items) = keywords.get("items") {
            for (index, entry) in entries.iter().enumerate() {
                self.value(items, entry, &path.index(index));
            }
        }
    }

    fn of_object(&mut self, keywords: &Map<String, Value>, fields: &Map<String, Value>, path: &Path) {
        let limit = |name: &str| keywords.get(name).and_then(Value::as_u64);
        let count = fields.len();
        let length = u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(most) = limit("maxProperties").filter(|most| length > *most) {
            self.refusals.push(Refusal::too_many(path, count, most));
        }
        if let Some(least) = limit("minProperties").filter(|least| length < *least) {
            let why = format_args!("{path} in body should have at least {least} properties");
            self.refusals.push(Refusal::invalid(path, &count.into(), why));
        }
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                self.refusals.push(Refusal::required(&path.field(name)));
            }
        }
        let (declared, others) = (keywords.get("properties"), keywords.get("additionalProperties"));
        for (name, value) in fields {
            match (declared.and_then(|declared| declared.get(name)), others) {
                (Some(declared), _) => self.value(declared, value, &path.field(name)),
                (None, Some(others)) => self.value(others, value, &path.key(name)),
                // Unknown, which is said elsewhere, or kept as it is.
                (None, None) => {}
            }
        }
    }

    /// `oneOf`, `anyOf`, `allOf` and `not`, which hold no more than conditions in a structural schema.
    fn junctions(&mut self, schema: &Value, value: &Value, path: &Path) {
        let patterns = self.patterns;
        let holds = |schema: &Value| {
            let mut found = Vec::new();
            let mut check = Check {
                patterns,
                refusals: &mut found,
            };
            check.value(schema, value, path);
            found.is_empty()
        };
        if let Some(choices) = schema["oneOf"].as_array() {
            match choices.iter().filter(|choice| holds(choice)).count() {
                0 => self.junction(path, "validate one and only one schema (oneOf). Found none valid"),
                1 => {}
                more => self.junction(
                    path,
                    &format!("validate one and only one schema (oneOf). Found {more} valid alternatives"),
                ),
            }
        }
        if let Some(choices) = schema["anyOf"].as_array()
            && !choices.iter().any(holds)
        {
            self.junction(path, "validate at least one schema (anyOf)");
        }
        for all in schema["allOf"].as_array().into_iter().flatten() {
            self.value(all, value, path);
        }
        if let Some(not) = schema.get("not")
            && holds(not)
        {
            self.junction(path, "not validate the schema (not)");
        }
    }

    fn junction(&mut self, path: &Path, what: &str) {
        self.refusals.push(Refusal::junction(path, what));
    }
}

/// Whether a text is of a format. Those that a server doesn't know either hold nothing.
fn is_of(format: &str, text: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "byte" => is_base64(text),
        _ => true,
    }
}

/// Base64 with its padding (RFC 4648 §4); an API server doesn't take an empty text for it.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// The type that a value should have, if it has another.
fn wrong_type<'s>(schema: &'s Value, value: &Value) -> Option<&'s str> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!value.is_string() && !is_integer(value)).then_some("integer,string");
    }
    let wanted = schema["type"].as_str()?;
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    (!fits).then_some(wanted)
}

/// JSON has one kind of number: 1.0 is an integer too.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

#[cfg(test)]
mod tests {
    use super::is_base64;

    #[test]
    fn base64_is_padded_and_not_empty() {
        for text in ["AA==", "AAA=", "AAAA", "ab+/", "AAAAAA=="] {
            assert!(is_base64(text), "{text}");
        }
        for text in ["", "=", "====", "A===", "AAA", "AA-_", "AA==\n", "AA=A", "AAAA===="] {
            assert!(!is_base64(text), "{text}");
        }
    }
}
