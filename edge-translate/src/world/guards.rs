//! Policies that protect something in a way that this version can't honour.
//!
//! A route that somebody put behind authentication must not be open because we don't know the policy yet. So the
//! targets of such policies are remembered, and what they cover answers 500. Each policy kind leaves this list when its translation arrives.

use crate::{
    api::{Kind, Object},
    name::{Id, Sym},
    world::World,
};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a policy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// One object.
    One(Kind, Id),
    /// Chosen by labels: counted as every object of the kind in the namespace.
    All(Kind, Sym),
    /// Chosen by labels in other namespaces too: counted as every object of the kind, wherever a ReferenceGrant lets the
    /// policy in.
    Beyond(Reach),
}

/// How far a policy looks for what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reach {
    /// The kind that it looks for. First, so that those of a kind stand together.
    pub(crate) target: Kind,
    /// The policy's own kind.
    pub(crate) policy: Kind,
    /// The policy's namespace.
    pub(crate) from: Sym,
}

/// What policies cover, and how many of them.
#[derive(Default)]
pub(crate) struct Guards {
    near: FxHashMap<Guard, u32>,
    beyond: BTreeMap<Reach, u32>,
}

impl Guards {
    /// A policy begins (1) or ceases (-1) to cover something.
    pub(crate) fn step(&mut self, guard: Guard, step: i32) {
        let rest = |count: u32| Some(count.saturating_add_signed(step)).filter(|n| *n > 0);
        match guard {
            Guard::Beyond(reach) => match rest(self.beyond.get(&reach).copied().unwrap_or_default()) {
                Some(n) => drop(self.beyond.insert(reach, n)),
                None => drop(self.beyond.remove(&reach)),
            },
            near => match rest(self.near.get(&near).copied().unwrap_or_default()) {
                Some(n) => drop(self.near.insert(near, n)),
                None => drop(self.near.remove(&near)),
            },
        }
    }

    /// Whether a policy of its own namespace covers an object.
    pub(crate) fn covers(&self, kind: Kind, id: Id) -> bool {
        self.near.contains_key(&Guard::One(kind, id)) || self.near.contains_key(&Guard::All(kind, id.namespace))
    }

    /// Policies that look for a kind in other namespaces than their own.
    pub(crate) fn beyond(&self, kind: Kind) -> impl Iterator<Item = Reach> {
        let reaches = self.beyond.keys().copied();
        reaches.filter(move |reach| reach.target == kind)
    }
}

/// What an object covers, if it is such a policy.
pub(crate) fn guards_of(world: &World, object: &Object) -> Vec<Guard> {
    let namespace = &object.metadata().namespace;
    match object {
        Object::SecurityPolicy(policy) => targets(world, object.kind(), namespace, &policy.spec),
        Object::ClientTrafficPolicy(policy) if policy.spec["tls"].get("clientValidation").is_some() => {
            targets(world, object.kind(), namespace, &policy.spec)
        }
        _ => Vec::new(),
    }
}

fn targets(world: &World, policy: Kind, namespace: &str, spec: &Value) -> Vec<Guard> {
    let text = |v: &Value, field: &str| v[field].as_str().unwrap_or_default().to_owned();
    let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let kind = |v: &Value| Kind::of(&text(v, "group"), &text(v, "kind"));
    let named = list("targetRefs").into_iter().chain(spec.get("targetRef").cloned());
    let named = named.filter_map(|t| Some(Guard::One(kind(&t)?, world.id(namespace, &text(&t, "name")))));
    let chosen = list("targetSelectors").into_iter().flat_map(|t| {
        let group = t["group"].as_str().unwrap_or("gateway.networking.k8s.io");
        let target = Kind::of(group, &text(&t, "kind"));
        let is_near = matches!(t["namespaces"]["from"].as_str(), None | Some("Same"));
        let from = world.sym(namespace);
        let near = target.map(|kind| Guard::All(kind, from));
        let beyond = target
            .filter(|_| !is_near)
            .map(|target| Guard::Beyond(Reach { target, policy, from }));
        near.into_iter().chain(beyond)
    });
    named.chain(chosen).collect()
}
