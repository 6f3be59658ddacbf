//! Ancestors of policies, as statuses write them and in their order.

use crate::{
    api::{ParentReference, text::Symbol},
    engine::reader::Reader,
    name::Ancestor,
};

/// An ancestor as it is written down.
pub(super) fn written(reader: &Reader<'_>, ancestor: Ancestor) -> ParentReference {
    let Ancestor {
        kind,
        id,
        section,
        port,
    } = ancestor;
    ParentReference {
        group: Symbol::new(kind.group()),
        kind: Symbol::new(kind.as_str()),
        namespace: Some((&*reader.text(id.namespace)).into()),
        name: (&*reader.text(id.name)).into(),
        section_name: section.map(|section| (&*reader.text(section)).into()),
        port,
    }
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
