//! Why an object is refused, in the words of an API server.

use crate::path::Path;
use serde_json::Value;
use std::fmt;

/// Something for which an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where.
    pub path: Path,
    /// What, without the path.
    pub what: String,
    class: Class,
}

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A name that nobody knows.
    Name,
    /// A value by which the object is too odd for rules to be run over it.
    Shape,
    /// Any other.
    Value,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.segments() {
            [] => f.write_str(&self.what),
            _ => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

impl Refusal {
    /// Whether it is about the name of the field, not about what the field holds.
    pub fn is_of_name(&self) -> bool {
        self.class == Class::Name
    }

    /// Whether rules can't be run over such an object.
    pub(crate) fn blocks_rules(&self) -> bool {
        self.class == Class::Shape
    }

    fn new(class: Class, path: &Path, what: String) -> Self {
        Self {
            path: path.clone(),
            what,
            class,
        }
    }

    fn of_value(path: &Path, what: String) -> Self {
        Self::new(Class::Value, path, what)
    }

    fn of_shape(path: &Path, what: String) -> Self {
        Self::new(Class::Shape, path, what)
    }

    pub(crate) fn required(path: &Path) -> Self {
        Self::of_shape(path, "Required value".to_owned())
    }

    pub(crate) fn unnamed(path: &Path) -> Self {
        Self::of_shape(path, "Required value: name or generateName is required".to_owned())
    }

    /// A value that doesn't do; `shown` is how it is written in the message.
    pub(crate) fn invalid(path: &Path, shown: &Value, why: impl fmt::Display) -> Self {
        Self::of_value(path, format!("Invalid value: {shown}: {why}"))
    }

    /// A rule that is broken; what is large isn't shown.
    pub(crate) fn broken(path: &Path, value: &Value, message: &str) -> Self {
        match value {
            Value::Object(_) | Value::Array(_) => Self::of_value(path, format!("Invalid value: {message}")),
            _ => Self::invalid(path, value, message),
        }
    }

    /// None, or too many, of several schemas hold.
    pub(crate) fn junction(path: &Path, what: &str) -> Self {
        Self::of_shape(path, format!("Invalid value: \"\": \"{path}\" must {what}"))
    }

    /// A text that isn't what it should stand for.
    pub(crate) fn wrong_format(path: &Path, text: &str, format: &str) -> Self {
        let shown = Value::from(text);
        Self::of_shape(
            path,
            format!("Invalid value: {shown}: {path} in body must be of type {format}: {shown}"),
        )
    }

    pub(crate) fn wrong_type(path: &Path, found: &str, wanted: &str) -> Self {
        let what = format!("Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\"");
        Self::of_shape(path, what)
    }

    pub(crate) fn unsupported(path: &Path, value: &Value, supported: &[Value]) -> Self {
        // Quoted whatever they are: an API server lists texts.
        let quoted = |value: &Value| match value {
            Value::String(_) => value.to_string(),
            other => format!("\"{other}\""),
        };
        let supported: Vec<_> = supported.iter().map(quoted).collect();
        let what = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self::of_shape(path, what)
    }

    pub(crate) fn too_long(path: &Path, limit: u64) -> Self {
        Self::of_shape(path, format!("Too long: may not be more than {limit} bytes"))
    }

    pub(crate) fn too_many(path: &Path, count: usize, limit: u64) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        Self::of_shape(path, format!("Too many: {count}: must have at most {limit} {items}"))
    }

    pub(crate) fn duplicate(path: &Path, value: &Value) -> Self {
        Self::of_value(path, format!("Duplicate value: {value}"))
    }

    pub(crate) fn no_kind(api_version: &str, kind: &str) -> Self {
        let what = format!("no matches for kind {kind:?} in version {api_version:?}");
        Self::of_value(&Path::default(), what)
    }

    pub(crate) fn unknown(path: &Path) -> Self {
        Self::new(Class::Name, path, "unknown field".to_owned())
    }
}

/// What an API server would do with an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The object as it would be stored: with defaults, without what nobody knows.
    pub completed: Value,
    /// Why it would not be; empty if it would.
    pub refusals: Vec<Refusal>,
}
