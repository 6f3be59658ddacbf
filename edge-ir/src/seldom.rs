//! Lists that are mostly empty.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, ops::Deref, slice};

/// A list that is mostly empty, and takes no more room than a pointer then.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seldom<T>(Option<Box<Box<[T]>>>);

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for Seldom<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0.as_deref().map_or(&[], |list| list)
    }
}

impl<T> From<Vec<T>> for Seldom<T> {
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(list.into())))
    }
}

impl<T, const N: usize> From<[T; N]> for Seldom<T> {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T> FromIterator<T> for Seldom<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<T>>().into()
    }
}

impl<'a, T> IntoIterator for &'a Seldom<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: Serialize> Serialize for Seldom<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Seldom<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_takes_a_pointer_and_others_are_read_as_written() {
        assert_eq!(size_of::<Seldom<String>>(), size_of::<usize>());
        for list in [vec![], vec![1], vec![2, 1]] {
            let seldom = Seldom::from(list.clone());
            assert_eq!(*seldom, *list);
            assert_eq!(seldom, list.iter().copied().collect());
            assert_eq!(format!("{seldom:?}"), format!("{list:?}"));
            let json = serde_json::to_string(&seldom).unwrap();
            assert_eq!(json, serde_json::to_string(&list).unwrap());
            assert_eq!(serde_json::from_str::<Seldom<u8>>(&json).unwrap(), seldom);
        }
        assert!(Seldom::from([1]) < Seldom::from([2]) && Seldom::default() < Seldom::from([1]));
    }
}
