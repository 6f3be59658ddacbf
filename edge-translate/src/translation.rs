//! What a translation gives: fleets, infrastructure, and the statuses that changed.

use crate::{api::ObjectKey, fact::QuestionChanges, status::Status};
use edge_ir::{Fleet, FleetKey, Infra};
use std::{collections::BTreeMap, sync::Arc};

/// The state of the world after the last change. Cheap to clone; unchanged parts are the same allocations as before.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Translation {
    /// What each fleet must do.
    pub fleets: BTreeMap<FleetKey, Arc<Fleet>>,
    /// What must exist around each fleet. A fleet without an entry asks for something that can't be used: what exists
    /// for it stays as it is.
    pub infra: BTreeMap<FleetKey, Arc<Infra>>,
    /// Statuses that differ from the previous translation, sorted by object. `None`: the object is gone, or no longer
    /// ours, and our entries in its status go.
    pub statuses: Vec<(ObjectKey, Option<Arc<Status>>)>,
    /// What translation wants to know of the outside, and no longer wants.
    pub wanted: QuestionChanges,
    /// Bugs of our own that stand, sorted: units of work that panicked. What they made before stays in force.
    pub faults: Vec<Fault>,
    /// What it cost: units of work that ran, by name. A change runs what read it and nothing else.
    pub runs: Vec<(&'static str, u32)>,
}

/// A unit of work that panicked over an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The object that it worked for.
    pub object: ObjectKey,
    /// The unit's name.
    pub unit: &'static str,
    /// What the panic said.
    pub message: String,
}
