//! What can happen to the world.

use crate::{
    api::{Object, ObjectKey},
    fact::Fact,
};

/// One observed change of one object. A shell sends these in any order; only the last one about an object counts.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object appeared, or is now like this.
    Put(Object),
    /// The object is gone. Its key is the one that it was put with, in which `load` fills in the namespace `default`
    /// and clears that of kinds without one ([`load::key_of`](crate::load::key_of) does the same); another one names
    /// nothing, which is no error.
    Remove(ObjectKey),
    /// Something about the world outside the resources: see [`Question`](crate::Question).
    Fact(Fact),
}
