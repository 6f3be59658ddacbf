//! Rules of a field: on its presence, on lists and maps, and on what stands in it.

use super::{
    Outcome, Validator, Violation,
    scalar::{Check, check_scalar, flag, unsigned},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

/// Checks a field. `present` is its value if it is set; `value` is that or the default.
pub(super) fn check_field(
    validator: &mut Validator<'_>,
    field: &FieldDescriptor,
    rules: &DynamicMessage,
    present: Option<&Value>,
    value: &Value,
    path: &str,
) -> Outcome {
    let part = |name: &str| sub_rules(rules, name);
    // Of a oneof only the field that is set counts; whether one must be is a rule of the oneof.
    if present.is_none() && field.containing_oneof().is_some() {
        return Ok(());
    }
    let required = ["message", "any", "duration", "timestamp"];
    if present.is_none()
        && required
            .into_iter()
            .filter_map(part)
            .any(|rules| flag(&rules, "required"))
    {
        return Err(violation(path, "must be set"));
    }
    match value {
        Value::List(items) => match part("repeated") {
            Some(rules) => check_list(validator, &rules, items, path),
            None => Ok(()),
        },
        Value::Map(entries) => match part("map") {
            Some(rules) => check_map(&rules, entries.len(), path),
            None => Ok(()),
        },
        // A message that isn't set has nothing to check.
        Value::Message(_) if present.is_none() => Ok(()),
        Value::EnumNumber(number) => match (field.kind(), part("enum")) {
            (Kind::Enum(values), Some(rules))
                if flag(&rules, "defined_only") && values.get_value(*number).is_none() =>
            {
                Err(violation(path, "is no value of its enumeration"))
            }
            _ => check_value(validator, rules, value, path),
        },
        value => check_value(validator, rules, value, path),
    }
}

/// Checks a single value: of a field, or of a list.
fn check_value(validator: &mut Validator<'_>, rules: &DynamicMessage, value: &Value, path: &str) -> Outcome {
    // A wrapper stands for what it wraps.
    let wrapped = match value {
        Value::Message(message) if is_wrapper(message) => {
            message.get_field_by_name("value").map(|value| value.into_owned())
        }
        _ => None,
    };
    match check_scalar(rules, wrapped.as_ref().unwrap_or(value)) {
        Check::Passed => Ok(()),
        Check::Failed(message) => Err(violation(path, &message)),
        Check::Pattern(pattern, text) if validator.matches(&pattern, &text) => Ok(()),
        Check::Pattern(pattern, _) => Err(violation(path, &format!("must match `{pattern}`"))),
    }
}

fn check_list(validator: &mut Validator<'_>, rules: &DynamicMessage, items: &[Value], path: &str) -> Outcome {
    let len = items.len() as u64;
    if len == 0 && flag(rules, "ignore_empty") {
        return Ok(());
    }
    if let Some(min) = unsigned(rules, "min_items").filter(|min| len < *min) {
        return Err(violation(path, &format!("needs at least {min} elements")));
    }
    if let Some(max) = unsigned(rules, "max_items").filter(|max| len > *max) {
        return Err(violation(path, &format!("takes at most {max} elements")));
    }
    if flag(rules, "unique") && items.iter().enumerate().any(|(n, item)| items[..n].contains(item)) {
        return Err(violation(path, "must not repeat an element"));
    }
    let Some(each) = sub_rules(rules, "items") else {
        return Ok(());
    };
    let mut items = items.iter().enumerate();
    items.try_for_each(|(n, item)| check_value(validator, &each, item, &format!("{path}[{n}]")))
}

fn check_map(rules: &DynamicMessage, len: usize, path: &str) -> Outcome {
    match unsigned(rules, "min_pairs") {
        Some(min) if (len as u64) < min => Err(violation(path, &format!("needs at least {min} entries"))),
        _ => Ok(()),
    }
}

/// A message of rules inside rules, if set.
pub(super) fn sub_rules(rules: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    let field = rules.descriptor().get_field_by_name(name)?;
    if rules.has_field(&field) {
        rules.get_field(&field).as_message().cloned()
    } else {
        None
    }
}

fn is_wrapper(message: &DynamicMessage) -> bool {
    message.descriptor().parent_file().name() == "google/protobuf/wrappers.proto"
}

fn violation(path: &str, message: &str) -> Violation {
    Violation {
        path: path.to_owned(),
        message: message.to_owned(),
    }
}
