//! Statuses of what is told under ancestors: how these are written, and in which order.

use crate::{
    api::{Kind, ParentReference},
    engine::reader::Reader,
    name::{Ancestor, Id},
    status::{ParentStatus, Status, StatusBody},
};
use std::sync::Arc;

/// A whole object as it is written down, one without a namespace included.
pub(super) fn whole(reader: &Reader<'_>, kind: Kind, id: Id) -> Arc<ParentReference> {
    reader.parent_reference(Ancestor::object(kind, id))
}

/// What is said under each ancestor.
pub(super) fn told(
    reader: &Reader<'_>,
    observed_generation: i64,
    ancestors: impl IntoIterator<Item = ParentStatus>,
) -> Status {
    let mut ancestors: Vec<_> = ancestors.into_iter().collect();
    ancestors.sort_by(|a, b| order(&a.parent).cmp(&order(&b.parent)));
    Status {
        observed_generation,
        body: StatusBody::Ancestors {
            controller_name: reader.settings().controller_name.clone(),
            ancestors,
        },
    }
}

/// Why something is for nobody, who could be an ancestor; none where there is nothing to say.
pub(super) fn for_nobody(observed_generation: i64, reasons: Vec<String>) -> Option<Status> {
    (!reasons.is_empty()).then_some(Status {
        observed_generation,
        body: StatusBody::Unattached(reasons),
    })
}

/// By namespace and name; interned names have no order of their own.
fn order(parent: &ParentReference) -> (Option<&str>, &str, &str, Option<&str>, Option<u16>) {
    (
        parent.namespace.as_deref(),
        &parent.name,
        &parent.kind,
        parent.section_name.as_deref(),
        parent.port,
    )
}
