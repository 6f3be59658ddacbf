//! Lists of which it counts whether they are written.

use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// A list that may be left out. Where an object is laid over another, an empty list stands in place of what is below
/// it, and one that isn't written leaves that as it is; to whoever reads the list they are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct List<T>(Option<Box<[T]>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
