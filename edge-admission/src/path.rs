//! Paths of fields, as an API server writes them.

use serde_json::Value;
use std::fmt;

/// One step from a value to one below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// A field that the schema names.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An entry of a list, from 0.
    Index(usize),
}

/// Where a value stands in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

impl Path {
    /// The steps from the object down.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The path of a field below.
    pub(crate) fn field(&self, name: &str) -> Self {
        self.with(Segment::Field(name.to_owned()))
    }

    /// The path of a key below.
    pub(crate) fn key(&self, name: &str) -> Self {
        self.with(Segment::Key(name.to_owned()))
    }

    /// The path of an entry below.
    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    pub(crate) fn with(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The path that a text means in an object. Keys may hold dots, so each step takes the longest one that is there; a
    /// step that isn't there is a field.
    pub(crate) fn resolve(text: &str, object: &Value) -> Self {
        let mut path = Self::default();
        let (mut rest, mut value) = (text, Some(object));
        loop {
            rest = rest.trim_start_matches('.');
            if rest.is_empty() {
                return path;
            }
            if let Some((inner, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                path.0.push(match inner.parse() {
                    Ok(index) => Segment::Index(index),
                    Err(_) => Segment::Key(inner.trim_matches('"').to_owned()),
                });
                value = value.and_then(|value| match inner.parse::<usize>() {
                    Ok(index) => value.get(index),
                    Err(_) => value.get(inner.trim_matches('"')),
                });
                rest = after;
                continue;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let keys = value.and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
            let ends = |key: &&String| {
                rest.strip_prefix(key.as_str())
                    .is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
            };
            let longest = keys.filter(ends).max_by_key(|key| key.len());
            let name = longest.map_or(&rest[..end], |key| key.as_str());
            path.0.push(Segment::Field(name.to_owned()));
            value = value.and_then(|value| value.get(name));
            rest = &rest[name.len()..];
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) | Segment::Key(name) if i == 0 => f.write_str(name)?,
                Segment::Field(name) | Segment::Key(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_read_by_what_is_there() {
        let object = json!({"spec": {"rules": [{"a.b/c": {"d": 1}}]}});
        let path = Path::resolve(".spec.rules[0].a.b/c.d", &object);
        let field = |name: &str| Segment::Field(name.to_owned());
        assert_eq!(
            path.segments(),
            [
                field("spec"),
                field("rules"),
                Segment::Index(0),
                field("a.b/c"),
                field("d")
            ]
        );
        assert_eq!(path.to_string(), "spec.rules[0].a.b/c.d");
        assert_eq!(Path::resolve("spec.gone.far", &object).to_string(), "spec.gone.far");
        assert_eq!(Path::resolve("", &object), Path::default());
    }
}
