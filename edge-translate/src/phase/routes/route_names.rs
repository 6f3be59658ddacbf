//! Names of the routes of an object, as proxies have them, begin with its kind, namespace and name.

use crate::{name::RouteKind, phase::precedence::Seniority};
use std::sync::Arc;

/// What names of the routes of an object begin with.
pub(super) fn beginning(kind: RouteKind, route: &Seniority) -> Arc<str> {
    let kind = kind.kind().as_str();
    let mut text = String::with_capacity(kind.len() + route.namespace.len() + route.name.len() + 2);
    text.push_str(kind);
    text.make_ascii_lowercase();
    for part in ["/", &*route.namespace, "/", &*route.name] {
        text.push_str(part);
    }
    text.into()
}
