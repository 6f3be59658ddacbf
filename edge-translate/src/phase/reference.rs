//! References across namespaces: allowed only by a ReferenceGrant in the namespace referred to (GEP-709).

use crate::{
    api::{Kind, ObjectRef, SecretRef},
    engine::reader::Reader,
    name::{Id, Sym},
};

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

impl<'a> Referrer<'a> {
    /// An object of one of our kinds.
    pub(crate) fn of(kind: Kind, namespace: &'a str) -> Self {
        Self {
            group: kind.group(),
            kind: kind.as_str(),
            namespace,
        }
    }
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

impl<'a> Referent<'a> {
    /// What an object of a namespace names.
    pub(crate) fn of_object(reference: &'a ObjectRef, own: &'a str) -> Self {
        Self {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref().unwrap_or(own),
            name: &reference.name,
        }
    }

    /// What an object of a namespace names.
    pub(crate) fn of_secret(reference: &'a SecretRef, own: &'a str) -> Self {
        Self {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref().unwrap_or(own),
            name: &reference.name,
        }
    }
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

/// Why a reference to a Secret isn't followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretRefusal {
    /// It names something other than a Secret.
    Kind,
    /// No ReferenceGrant lets it.
    NotPermitted,
}

/// The Secret that an object of a kind and namespace names, whether or not it exists.
pub(crate) fn secret(reader: &Reader<'_>, from: Kind, own: &str, reference: &SecretRef) -> Result<Id, SecretRefusal> {
    if !reference.group.is_empty() || reference.kind != "Secret" {
        return Err(SecretRefusal::Kind);
    }
    let to = Referent::of_secret(reference, own);
    match is_permitted(reader, Referrer::of(from, own), to) {
        true => Ok(reader.id(to.namespace, to.name)),
        false => Err(SecretRefusal::NotPermitted),
    }
}
