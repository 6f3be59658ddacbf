//! Tables that keep no keys: these stand where whoever looks for them goes anyway.

use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash};

/// A place in a list, and the hash of what stands there, by which most others are told apart without a look at them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) hash: u32,
    pub(crate) number: u32,
}

impl Place {
    /// The hash as tables want it.
    pub(crate) fn spread(&self) -> u64 {
        spread(self.hash)
    }
}

/// The hash of a key.
pub(crate) fn hash_of(key: &(impl Hash + ?Sized)) -> u32 {
    FxBuildHasher.hash_one(key) as u32
}

/// A hash as tables want it: they take bits from both ends.
pub(crate) fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
