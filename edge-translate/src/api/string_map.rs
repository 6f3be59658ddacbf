//! Strings by name: labels, annotations, data.

use crate::api::Text;
use edge_ir::Seldom;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{collections::BTreeMap, fmt};

/// Strings by name, in order of name. Every object has such maps, and nearly all of them have a few entries or none:
/// they stand in one row, which is a tenth of a tree's first node.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringMap(Seldom<(Text, Text)>);

impl StringMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What stands under a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.0[place].1)
    }

    /// Whether something stands under a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and what stands under them, in order of name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// All names, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// What stands under the names, in their order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(_, value)| &**value)
    }
}

impl From<BTreeMap<Text, Text>> for StringMap {
    fn from(map: BTreeMap<Text, Text>) -> Self {
        Self(map.into_iter().collect())
    }
}

impl<const N: usize> From<[(Text, Text); N]> for StringMap {
    fn from(entries: [(Text, Text); N]) -> Self {
        entries.into_iter().collect()
    }
}

/// Of entries with one name the last counts.
impl FromIterator<(Text, Text)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(entries: I) -> Self {
        entries.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_the_last_of_one_name_counts() {
        let entries = [("b", "1"), ("a", "2"), ("b", "3")];
        let map: StringMap = entries.map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!((map.get("b"), map.get("c")), (Some("3"), None));
        assert_eq!(map.keys().collect::<Vec<_>>(), ["a", "b"]);
        let text = serde_json::to_string(&map).expect("plain strings");
        assert_eq!(text, r#"{"a":"2","b":"3"}"#);
        assert_eq!(serde_json::from_str::<StringMap>(&text).expect("a map"), map);
    }
}
