//! Where a piece of configuration came from.

use crate::api::Kind;
use edge_ir::Origin;
use std::sync::{Arc, LazyLock};

/// Names of kinds in their order, shared: every piece of a fleet carries one.
static KINDS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| {
    let all = Kind::ALL.iter().chain(&[Kind::Custom, Kind::CustomPolicy]);
    all.map(|kind| kind.as_str().into()).collect()
});

/// An object as an origin.
pub(crate) fn origin(kind: Kind, namespace: Arc<str>, name: Arc<str>) -> Origin {
    Origin {
        kind: Arc::clone(&KINDS[kind as usize]),
        namespace,
        name,
        section: None,
        annotations: Arc::default(),
    }
}

/// A part of an object as an origin.
pub(crate) fn part(kind: Kind, namespace: Arc<str>, name: Arc<str>, section: Option<Arc<str>>) -> Origin {
    Origin {
        section,
        ..origin(kind, namespace, name)
    }
}
