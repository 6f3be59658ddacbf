//! What policies say that were written alike, found out once: of a thousand copies of a policy one is read.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, PoisonError, RwLock};

/// Most policies of one hash that are remembered; only whoever makes up collisions has more.
const MOST: usize = 4;

/// Policies with one hash, each with the number of what it says.
type Bucket<P, N> = SmallVec<[(Arc<P>, N); 1]>;

/// Policies of a kind, by a hash of what they say. Behind a plain lock: each is asked for once, by the unit that reads
/// it.
#[derive(Debug)]
pub(crate) struct Alike<P, N>(RwLock<FxHashMap<u64, Bucket<P, N>>>);

impl<P, N> Default for Alike<P, N> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<P, N: Copy> Alike<P, N> {
    /// How many hashes are known.
    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What a policy says that is written like one that was read before.
    pub(crate) fn find(&self, hash: u64, is_alike: impl Fn(&P) -> bool) -> Option<N> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(&hash)?.iter().find(|(policy, _)| is_alike(policy));
        known.map(|(_, number)| *number)
    }

    /// Remembers what a policy says.
    pub(crate) fn keep(&self, hash: u64, policy: &Arc<P>, number: N) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(hash).or_default();
        if known.len() < MOST {
            known.push((Arc::clone(policy), number));
        }
    }
}
