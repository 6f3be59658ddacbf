//! Policies that protect something in a way that this version can't honour.
//!
//! A route that somebody put behind authentication must not be open because we don't know the policy yet. So the
//! targets of such policies are remembered, and what they cover answers 500. Each policy kind leaves this list when its translation arrives.

use crate::{
    api::{Kind, Object},
    name::{Id, Sym},
    world::World,
};
use serde_json::Value;

/// What a policy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// One object.
    One(Kind, Id),
    /// Chosen by labels: counted as every object of the kind in the namespace.
    All(Kind, Sym),
}

impl Guard {
    /// Kind and namespace of what is covered.
    pub(crate) fn place(self) -> (Kind, Sym) {
        match self {
            Self::One(kind, id) => (kind, id.namespace),
            Self::All(kind, namespace) => (kind, namespace),
        }
    }
}

/// What an object covers, if it is such a policy.
pub(crate) fn guards_of(world: &World, object: &Object) -> Vec<Guard> {
    let namespace = &object.metadata().namespace;
    match object {
        Object::SecurityPolicy(policy) => targets(world, namespace, &policy.spec),
        Object::ClientTrafficPolicy(policy) if policy.spec["tls"].get("clientValidation").is_some() => {
            targets(world, namespace, &policy.spec)
        }
        _ => Vec::new(),
    }
}

fn targets(world: &World, namespace: &str, spec: &Value) -> Vec<Guard> {
    let text = |v: &Value, field: &str| v[field].as_str().unwrap_or_default().to_owned();
    let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let kind = |v: &Value| Kind::of(&text(v, "group"), &text(v, "kind"));
    let named = list("targetRefs").into_iter().chain(spec.get("targetRef").cloned());
    let named = named.filter_map(|t| Some(Guard::One(kind(&t)?, world.id(namespace, &text(&t, "name")))));
    let chosen = list("targetSelectors").into_iter().filter_map(|t| {
        let group = t["group"].as_str().unwrap_or("gateway.networking.k8s.io");
        Some(Guard::All(Kind::of(group, &text(&t, "kind"))?, world.sym(namespace)))
    });
    named.chain(chosen).collect()
}
