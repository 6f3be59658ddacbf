//! Rules of single values: texts, numbers, enums, durations.

use super::rules::sub_rules;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

/// What a check says.
pub(super) enum Check {
    /// Nothing is wrong.
    Passed,
    /// What is wanted.
    Failed(String),
    /// It depends on whether the pattern matches the text.
    Pattern(String, String),
}

/// Checks a value by the rules of its kind.
pub(super) fn check_scalar(rules: &DynamicMessage, value: &Value) -> Check {
    let by = |name: &str| sub_rules(rules, name);
    let failed = match value {
        Value::String(text) => return by("string").map_or(Check::Passed, |rules| check_string(&rules, text)),
        Value::Bytes(bytes) => by("bytes").and_then(|rules| check_len(&rules, "min_len", "max_len", bytes.len())),
        Value::Bool(found) => by("bool").and_then(|rules| {
            let wanted = get(&rules, "const")?.as_bool()?;
            (*found != wanted).then(|| format!("must be {wanted}"))
        }),
        Value::U32(_) | Value::U64(_) | Value::I32(_) | Value::I64(_) | Value::F32(_) | Value::F64(_) => {
            let kinds = [
                "uint32", "uint64", "int32", "int64", "float", "double", "fixed32", "fixed64", "sint32", "sint64",
            ];
            kinds
                .into_iter()
                .find_map(by)
                .and_then(|rules| check_number(&rules, number(value)?))
        }
        Value::EnumNumber(number) => {
            by("enum").and_then(|rules| check_allowed(&rules, |value| value.as_i32() == Some(*number)))
        }
        Value::Message(message) if message.descriptor().full_name() == "google.protobuf.Duration" => {
            by("duration").and_then(|rules| check_duration(&rules, seconds(message)))
        }
        _ => None,
    };
    failed.map_or(Check::Passed, Check::Failed)
}

fn check_string(rules: &DynamicMessage, text: &str) -> Check {
    if text.is_empty() && flag(rules, "ignore_empty") {
        return Check::Passed;
    }
    let lengths = check_len(rules, "min_len", "max_len", text.chars().count())
        .or_else(|| check_len(rules, "min_bytes", "max_bytes", text.len()));
    if let Some(failed) = lengths {
        return Check::Failed(failed);
    }
    let wanted = |name: &str| get(rules, name).and_then(|value| value.as_str().map(str::to_owned));
    let affixes = [
        (
            "prefix",
            "must start with",
            (|text, part| text.starts_with(part)) as fn(&str, &str) -> bool,
        ),
        ("suffix", "must end in", |text, part| text.ends_with(part)),
        ("contains", "must contain", |text, part| text.contains(part)),
        ("const", "must be", |text, part| text == part),
    ];
    for (rule, words, holds) in affixes {
        if let Some(part) = wanted(rule).filter(|part| !holds(text, part)) {
            return Check::Failed(format!("{words} `{part}`"));
        }
    }
    let allowed = list(rules, "in");
    if !allowed.is_empty() && !allowed.iter().any(|value| value.as_str() == Some(text)) {
        return Check::Failed("is not one of the allowed values".to_owned());
    }
    if let Some(failed) = check_well_known(rules, text) {
        return Check::Failed(failed);
    }
    wanted("pattern").map_or(Check::Passed, |pattern| Check::Pattern(pattern, text.to_owned()))
}

/// HTTP header names (1) and values (2). Unless strict, only what would break the framing is refused.
fn check_well_known(rules: &DynamicMessage, text: &str) -> Option<String> {
    let breaks = |character: char| matches!(character, '\0' | '\r' | '\n');
    let token = |character: char| character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character);
    let strict = get(rules, "strict").is_none_or(|strict| strict.as_bool() != Some(false));
    let kind = get(rules, "well_known_regex")?.as_enum_number()?;
    let holds = match (kind, strict) {
        (1, true) => !text.is_empty() && text.strip_prefix(':').unwrap_or(text).chars().all(token),
        (2, true) => !text
            .chars()
            .any(|character| character.is_control() && character != '\t'),
        (1 | 2, false) => !text.chars().any(breaks),
        _ => true,
    };
    let what = if kind == 1 { "name" } else { "value" };
    (!holds).then(|| format!("is no valid header {what}"))
}

fn check_len(rules: &DynamicMessage, min: &str, max: &str, len: usize) -> Option<String> {
    if let Some(min) = unsigned(rules, min).filter(|min| (len as u64) < *min) {
        return Some(format!("needs a length of at least {min}"));
    }
    let max = unsigned(rules, max).filter(|max| len as u64 > *max)?;
    Some(format!("takes a length of at most {max}"))
}

fn check_number(rules: &DynamicMessage, found: f64) -> Option<String> {
    let bound = |name: &str| get(rules, name).and_then(|value| number(&value));
    let holds = [
        (
            "const",
            "must be",
            (|found, bound| found == bound) as fn(f64, f64) -> bool,
        ),
        ("lt", "must be less than", |found, bound| found < bound),
        ("lte", "must be at most", |found, bound| found <= bound),
        ("gt", "must be more than", |found, bound| found > bound),
        ("gte", "must be at least", |found, bound| found >= bound),
    ];
    let broken = holds.into_iter().find_map(|(rule, words, holds)| {
        bound(rule)
            .filter(|bound| !holds(found, *bound))
            .map(|bound| format!("{words} {bound}"))
    });
    broken.or_else(|| check_allowed(rules, |value| number(value) == Some(found)))
}

fn check_allowed(rules: &DynamicMessage, is: impl Fn(&Value) -> bool) -> Option<String> {
    let allowed = list(rules, "in");
    if !allowed.is_empty() && !allowed.iter().any(&is) {
        return Some("is not one of the allowed values".to_owned());
    }
    list(rules, "not_in")
        .iter()
        .any(is)
        .then(|| "is one of the values that are not allowed".to_owned())
}

fn check_duration(rules: &DynamicMessage, found: f64) -> Option<String> {
    let bound = |name: &str| sub_rules(rules, name).map(|bound| seconds(&bound));
    let holds = [
        (
            "lt",
            "must be less than",
            (|found, bound| found < bound) as fn(f64, f64) -> bool,
        ),
        ("lte", "must be at most", |found, bound| found <= bound),
        ("gt", "must be more than", |found, bound| found > bound),
        ("gte", "must be at least", |found, bound| found >= bound),
    ];
    holds.into_iter().find_map(|(rule, words, holds)| {
        bound(rule)
            .filter(|bound| !holds(found, *bound))
            .map(|bound| format!("{words} {bound}s"))
    })
}

fn seconds(duration: &DynamicMessage) -> f64 {
    let part = |name: &str| {
        duration
            .get_field_by_name(name)
            .and_then(|value| number(&value))
            .unwrap_or(0.0)
    };
    part("seconds") + part("nanos") / 1e9
}

/// A number for comparison. 64-bit integers lose precision above 2^53, far from any bound in the API.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::U32(n) => Some(f64::from(*n)),
        Value::I32(n) => Some(f64::from(*n)),
        Value::F32(n) => Some(f64::from(*n)),
        Value::U64(n) => Some(*n as f64),
        Value::I64(n) => Some(*n as f64),
        Value::F64(n) => Some(*n),
        _ => None,
    }
}

/// The value of a rule, if it is set.
fn get(rules: &DynamicMessage, name: &str) -> Option<Value> {
    let field = rules.descriptor().get_field_by_name(name)?;
    if rules.has_field(&field) {
        Some(rules.get_field(&field).into_owned())
    } else {
        None
    }
}

/// Whether a rule is switched on.
pub(super) fn flag(rules: &DynamicMessage, name: &str) -> bool {
    get(rules, name).is_some_and(|value| value.as_bool() == Some(true))
}

/// A bound that can't be negative.
pub(super) fn unsigned(rules: &DynamicMessage, name: &str) -> Option<u64> {
    get(rules, name)?.as_u64()
}

fn list(rules: &DynamicMessage, name: &str) -> Vec<Value> {
    get(rules, name)
        .and_then(|value| value.as_list().map(<[Value]>::to_vec))
        .unwrap_or_default()
}
