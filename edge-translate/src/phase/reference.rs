//! References across namespaces: allowed only by a ReferenceGrant in the namespace referred to (GEP-709).

use crate::{engine::reader::Reader, name::Sym};

/// Who refers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referrer<'a> {
    /// API group.
    pub(crate) group: &'a str,
    /// Kind.
    pub(crate) kind: &'a str,
    /// Namespace.
    pub(crate) namespace: &'a str,
}

/// What is referred to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Referent<'a> {
    /// API group, empty for core.
    pub(crate) group: &'a str,
    /// Kind.
    pub(crate) kind: &'a str,
    /// Namespace.
    pub(crate) namespace: &'a str,
    /// Name.
    pub(crate) name: &'a str,
}

/// Whether the reference is allowed. Asked before whether the referent exists, so that nobody can find out by trying.
pub(crate) fn is_permitted(reader: &Reader<'_>, from: Referrer<'_>, to: Referent<'_>) -> bool {
    if from.namespace == to.namespace {
        return true;
    }
    let namespace: Sym = reader.sym(to.namespace);
    reader.grants(namespace).any(|grant| {
        let by =
            |f: &crate::api::GrantFrom| f.group == from.group && f.kind == from.kind && *f.namespace == *from.namespace;
        let of = |t: &crate::api::GrantTo| {
            t.group == to.group
                && t.kind == to.kind
                && t.name.as_deref().is_none_or(|name| name.is_empty() || name == to.name)
        };
        grant.spec.from.iter().any(by) && grant.spec.to.iter().any(of)
    })
}
