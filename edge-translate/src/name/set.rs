//! Several backends that are one to whoever sends to them.

use super::{BackendPort, Sym, Table};
use std::sync::Arc;

/// Backends that make up one cluster, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendSet {
    /// Which ones; none of them is a set itself.
    pub(crate) members: Box<[SetMember]>,
}

/// A backend of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetMember {
    /// Which one.
    pub(crate) port: BackendPort,
    /// Its share among those of its priority.
    pub(crate) weight: u32,
    /// How far behind others it stands: those of 0 are used first.
    pub(crate) priority: u32,
}

/// All sets that there were, by the words that name them. Like names they only grow.
pub(crate) type BackendSets = Table<Sym, Arc<BackendSet>>;
