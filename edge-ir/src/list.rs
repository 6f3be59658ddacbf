//! Lists in chunks, which are shared with the lists that they come from.
//!
//! A fleet may have ten thousand virtual hosts in one table. A list that differs in one of them copies the chunk that
//! it stands in, and a pointer for each other chunk; and whoever compares two lists needn't look into chunks that both
//! have. How a list is cut tells nothing: lists of equal elements are equal.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{cmp::Ordering, fmt, sync::Arc};

/// How many elements a chunk has when a list is cut anew.
const CHUNK: usize = 128;

/// A run of a list, shared by all lists that have it.
pub type Chunk<T> = Arc<[T]>;

/// A list in chunks. None of them is empty.
#[derive(Clone)]
pub struct List<T> {
    chunks: Arc<[Chunk<T>]>,
    len: usize,
}

impl<T> List<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The chunks in order.
    pub fn chunks(&self) -> &[Chunk<T>] {
        &self.chunks
    }

    /// Whether it is the very same list, and not one of equal elements.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    /// The element that compares as equal, in a list that is sorted by that.
    pub fn find_by(&self, compare: impl Fn(&T) -> Ordering) -> Option<&T> {
        let behind = |chunk: &Chunk<T>| chunk.first().is_some_and(|first| compare(first) != Ordering::Greater);
        let chunk = self.chunks.partition_point(behind).checked_sub(1)?;
        let chunk = self.chunks.get(chunk)?;
        chunk.get(chunk.binary_search_by(compare).ok()?)
    }
}

impl<T: Clone> List<T> {
    /// A list of chunks, which keep being shared. Small neighbours become one, so that many edits don't leave a list of
    /// crumbs.
    pub fn of_chunks(chunks: impl IntoIterator<Item = Chunk<T>>) -> Self {
        let mut all: Vec<Chunk<T>> = Vec::new();
        for chunk in chunks {
            match all.last_mut() {
                _ if chunk.is_empty() => {}
                Some(last) if last.len() + chunk.len() <= CHUNK / 2 => {
                    *last = last.iter().chain(chunk.iter()).cloned().collect();
                }
                _ => all.push(chunk),
            }
        }
        Self {
            len: all.iter().map(|chunk| chunk.len()).sum(),
            chunks: all.into(),
        }
    }

    /// As few chunks as may be, of the same size.
    pub fn cut(elements: &[T]) -> impl Iterator<Item = Chunk<T>> {
        let count = elements.len().div_ceil(CHUNK).max(1);
        elements.chunks(elements.len().div_ceil(count).max(1)).map(Arc::from)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<T: Clone> From<Vec<T>> for List<T> {
    fn from(elements: Vec<T>) -> Self {
        Self::of_chunks(Self::cut(&elements))
    }
}

impl<T: Clone> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len == other.len && self.iter().eq(other.iter()))
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de> + Clone> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(numbers: std::ops::Range<u32>) -> List<u32> {
        numbers.collect()
    }

    #[test]
    fn how_a_list_is_cut_tells_nothing() {
        let whole = list(0..1000);
        let halves = List::of_chunks(
            [list(0..300), list(300..1000)]
                .iter()
                .flat_map(|half| half.chunks().to_vec()),
        );
        assert_ne!(whole.chunks().len(), halves.chunks().len());
        assert_eq!(whole, halves);
        assert_ne!(whole, list(0..999));
        assert_eq!(format!("{whole:?}"), format!("{halves:?}"));
        let text = serde_json::to_string(&halves).unwrap();
        assert_eq!(text, serde_json::to_string(&whole).unwrap());
        assert_eq!(serde_json::from_str::<List<u32>>(&text).unwrap(), whole);
    }

    #[test]
    fn chunks_stay_shared_and_crumbs_become_one() {
        let whole = list(0..1000);
        let chunks = whole.chunks();
        let edited = List::of_chunks([Arc::from([7]), Arc::clone(&chunks[1]), Arc::from([8]), Arc::from([9])]);
        assert_eq!(edited.len(), 1 + 125 + 2);
        assert!(Arc::ptr_eq(&edited.chunks()[1], &chunks[1]));
        assert_eq!(
            edited.chunks().iter().map(|chunk| chunk.len()).collect::<Vec<_>>(),
            [1, 125, 2]
        );
    }

    #[test]
    fn what_is_sorted_is_found() {
        let even: List<u32> = (0..1000).map(|n| 2 * n).collect();
        for n in 0..2001 {
            assert_eq!(even.find_by(|one| one.cmp(&n)), (n % 2 == 0 && n < 2000).then_some(&n));
        }
        assert_eq!(List::<u32>::default().find_by(|one| one.cmp(&1)), None);
    }
}
