//! Ancestors of policies, as statuses write them and in their order.

use crate::{
    api::{Kind, ParentReference},
    engine::reader::Reader,
    name::{Ancestor, Id},
};
use std::sync::Arc;

/// A whole object as it is written down, one without a namespace included.
pub(super) fn whole(reader: &Reader<'_>, kind: Kind, id: Id) -> Arc<ParentReference> {
    reader.parent_reference(Ancestor::object(kind, id))
}

/// By namespace and name; interned names have no order of their own.
pub(super) fn order(parent: &ParentReference) -> (Option<&str>, &str, &str, Option<&str>, Option<u16>) {
    (
        parent.namespace.as_deref(),
        &parent.name,
        &parent.kind,
        parent.section_name.as_deref(),
        parent.port,
    )
}
