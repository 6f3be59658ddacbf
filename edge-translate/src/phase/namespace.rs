//! Namespaces as selectors choose them.

use crate::{
    api::{LabelSelector, StringMap},
    engine::reader::Reader,
    name::{Id, Interner},
};

/// Whether a selector chooses a namespace by its labels. One that has a fault chooses none, whatever the rest of it
/// says.
pub(crate) fn is_selected(reader: &Reader<'_>, selector: &LabelSelector, namespace: &str) -> bool {
    let empty = StringMap::new();
    let id = Id {
        namespace: Interner::EMPTY,
        name: reader.sym(namespace),
    };
    let labels = reader.namespace(id).map_or(&empty, |n| &n.metadata.labels);
    selector.matches(labels) == Some(true) && selector.fault().is_none()
}
