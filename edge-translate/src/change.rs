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
    /// The object is gone.
    Remove(ObjectKey),
    /// Something about the world outside the resources: see [`Question`](crate::Question).
    Fact(Fact),
}
