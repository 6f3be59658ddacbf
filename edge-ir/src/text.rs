//! Texts that are short and many.

use lean_string::LeanStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor};
use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// The text of a field of an object, or of a rule that came of it. Names, paths and values are mostly short: one of up
/// to 16 bytes stands where the pointer to a longer one would (of up to 8 where pointers have four bytes), and an
/// absent one takes no more room.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(LeanStr);

impl Text {
    /// One that was known when this was written, which allocates nothing however long it is.
    pub const fn new(text: &'static str) -> Self {
        Self(LeanStr::from_static_str(text))
    }

    /// As a slice.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Text> for Arc<str> {
    fn from(text: Text) -> Self {
        text.as_str().into()
    }
}

impl From<&Text> for Arc<str> {
    fn from(text: &Text) -> Self {
        text.as_str().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().into()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Slice;
        impl Visitor<'_> for Slice {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(Slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_is_written_wherever_it_stands() {
        let long = "a text that is longer than a pointer and a length";
        assert_eq!(size_of::<Option<Text>>(), 2 * size_of::<usize>());
        for text in ["", "/api", "sixteen letters.", long] {
            let all = [Text::from(text), Text::from(text.to_owned()), Text::new(long)];
            assert_eq!(all[0], text);
            assert_eq!((&all[0], all[0].len()), (&all[1], text.len()));
            assert_eq!(all[0] == all[2], text == long);
            assert_eq!(
                (&*Arc::<str>::from(&all[0]), format!("{:?}", all[0])),
                (text, format!("{text:?}"))
            );
            let json = serde_json::to_string(&all[0]).unwrap();
            assert_eq!(json, serde_json::to_string(text).unwrap());
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), all[0]);
        }
        let mut sorted = ["b", "a", long].map(Text::from);
        sorted.sort();
        assert_eq!(sorted, ["a", long, "b"]);
        assert!(serde_json::from_str::<Text>("7").is_err());
    }
}
