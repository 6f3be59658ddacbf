//! The CEL rules of a kind.

use crate::{path::Path, refusal::Refusal};
use kube_cel::{CompiledSchema, ErrorKind, Validator};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// Rules, compiled.
pub(crate) struct Rules {
    compiled: CompiledSchema,
    /// What each rule says when it is broken.
    messages: BTreeMap<String, String>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// Those of a schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let mut messages = BTreeMap::new();
        gather(schema, &mut messages);
        Self {
            compiled: kube_cel::compile_schema(schema),
            messages,
        }
    }

    /// Names every rule that an object breaks. One that can't be run counts as broken, as with an API server.
    pub(crate) fn run(&self, object: &Value, refusals: &mut Vec<Refusal>) {
        let Err(errors) = Validator::new().validate_compiled(&self.compiled, object, None) else {
            return;
        };
        for error in errors.as_slice() {
            let path = Path::resolve(&error.field_path, object);
            let value = value_at(object, &path);
            refusals.push(match (&error.kind, self.messages.get(&error.rule)) {
                (ErrorKind::ValidationFailure, _) => Refusal::broken(&path, value, &error.message),
                // A rule that asks for what isn't there is broken. What it wanted to say helps more than where it
                // stopped.
                (_, message) => {
                    let message = message.unwrap_or(&error.message);
                    let kind = Value::from(type_of(value));
                    Refusal::invalid(&path, &kind, format_args!("evaluating rule: {message}"))
                }
            });
        }
    }
}

fn gather(schema: &Value, messages: &mut BTreeMap<String, String>) {
    match schema {
        Value::Object(keywords) => {
            let rules = keywords.get("x-kubernetes-validations").and_then(Value::as_array);
            for rule in rules.into_iter().flatten() {
                if let (Some(text), Some(message)) = (rule["rule"].as_str(), rule["message"].as_str()) {
                    messages.insert(text.to_owned(), message.to_owned());
                }
            }
            keywords.values().for_each(|below| gather(below, messages));
        }
        Value::Array(entries) => entries.iter().for_each(|below| gather(below, messages)),
        _ => {}
    }
}

fn value_at<'v>(object: &'v Value, path: &Path) -> &'v Value {
    use crate::path::Segment;
    path.segments().iter().fold(object, |value, segment| match segment {
        Segment::Field(name) | Segment::Key(name) => &value[name.as_str()],
        Segment::Index(index) => &value[*index],
    })
}

/// A type as schemas call it.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
