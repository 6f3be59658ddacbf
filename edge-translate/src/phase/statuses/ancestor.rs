//! Ancestors of policies, as statuses write them and in their order.

use crate::{
    api::{Kind, ParentReference, text::Symbol},
    engine::reader::Reader,
    name::{Ancestor, Id},
};

/// A whole object as it is written down, one without a namespace included.
pub(super) fn whole(reader: &Reader<'_>, kind: Kind, id: Id) -> ParentReference {
    let ancestor = Ancestor {
        kind,
        id,
        section: None,
        port: None,
    };
    written(reader, ancestor)
}

/// An ancestor as it is written down.
pub(super) fn written(reader: &Reader<'_>, ancestor: Ancestor) -> ParentReference {
    let Ancestor {
        kind,
        id,
        section,
        port,
    } = ancestor;
    let namespace = reader.text(id.namespace);
    ParentReference {
        group: Symbol::new(kind.group()),
        kind: Symbol::new(kind.as_str()),
        namespace: (!namespace.is_empty()).then(|| (&*namespace).into()),
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
