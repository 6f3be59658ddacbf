//! What is made once for each of many, while units run on however many threads.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::{
    hash::{BuildHasher, Hash},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Locks of a table: what two make at a time is seldom behind the same.
const LOCKS: usize = 16;

/// What was made for each key. As in [`super::numbered`], what was there when units began is read without a lock.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    settled: FxHashMap<K, V>,
    fresh: [Mutex<FxHashMap<K, V>>; LOCKS],
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            settled: FxHashMap::default(),
            fresh: Default::default(),
        }
    }
}

impl<K: Eq + Hash, V: Clone> Table<K, V> {
    /// How much there is.
    pub(crate) fn len(&self) -> usize {
        let fresh = self.fresh.iter().map(|part| lock(part).len());
        self.settled.len() + fresh.sum::<usize>()
    }

    /// Where a key that is new stands.
    fn fresh(&self, key: &K) -> MutexGuard<'_, FxHashMap<K, V>> {
        let hash = FxBuildHasher.hash_one(key);
        lock(&self.fresh[(hash >> 32) as usize % LOCKS])
    }

    /// What was made for a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let settled = self.settled.get(key).cloned();
        settled.or_else(|| self.fresh(key).get(key).cloned())
    }

    /// The same, made now if it wasn't. Of two who make it at a time both get what the first did.
    pub(crate) fn get_or_make(&self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(made) = self.get(&key) {
            return made;
        }
        // Not under the lock: it may ask other tables.
        let made = make();
        self.fresh(&key).entry(key).or_insert(made).clone()
    }

    /// Moves what is new to where no lock is needed. The room that it took isn't kept: of a whole world that is much,
    /// and never needed again.
    pub(crate) fn settle(&mut self) {
        for part in &mut self.fresh {
            let part = part.get_mut().unwrap_or_else(PoisonError::into_inner);
            if !part.is_empty() {
                self.settled.extend(std::mem::take(part));
            }
        }
    }
}

/// Nothing that holds a lock leaves a table half done.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what threads share is tried on threads")]
mod tests {
    use super::*;
    use std::{sync::Arc, thread};

    #[test]
    fn what_two_make_at_a_time_is_one() {
        let mut table: Table<u32, Arc<u32>> = Table::default();
        for last in [100, 200] {
            let all = || -> Vec<Arc<u32>> { (0..last).map(|n| table.get_or_make(n, || Arc::new(n))).collect() };
            let (mine, theirs) = thread::scope(|scope| {
                let other = scope.spawn(all);
                (all(), other.join().unwrap())
            });
            assert!(mine.iter().zip(&theirs).all(|(mine, theirs)| Arc::ptr_eq(mine, theirs)));
            table.settle();
            assert!(Arc::ptr_eq(&table.get(&7).unwrap(), &mine[7]));
            assert_eq!(table.len(), mine.len());
        }
        assert_eq!(table.get(&1000), None);
    }
}
