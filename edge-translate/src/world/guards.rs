//! Policies that protect something in a way that this version can't honour.
//!
//! A route that somebody put behind authentication must not be open because we don't know the policy yet. So the
//! targets of such policies are remembered, and what they cover answers 500. Each policy kind leaves this list when its
//! translation arrives.

use crate::{
    api::{Kind, Object},
    name::{Id, Sym},
    world::World,
};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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

/// What policies cover, and which they are.
#[derive(Default)]
pub(crate) struct Guards {
    near: FxHashMap<Guard, BTreeSet<(Kind, Id)>>,
    beyond: BTreeMap<Reach, BTreeSet<Id>>,
}

impl Guards {
    /// A policy begins to cover something.
    pub(crate) fn add(&mut self, guard: Guard, (kind, id): (Kind, Id)) {
        match guard {
            Guard::Beyond(reach) => self.beyond.entry(reach).or_default().insert(id),
            near => self.near.entry(near).or_default().insert((kind, id)),
        };
    }

    /// A policy ceases to cover something.
    pub(crate) fn remove(&mut self, guard: Guard, (kind, id): (Kind, Id)) {
        match guard {
            Guard::Beyond(reach) => {
                let ids = self.beyond.entry(reach).or_default();
                ids.remove(&id);
                if ids.is_empty() {
                    self.beyond.remove(&reach);
                }
            }
            near => {
                let policies = self.near.entry(near).or_default();
                policies.remove(&(kind, id));
                if policies.is_empty() {
                    self.near.remove(&near);
                }
            }
        }
    }

    /// Policies of its own namespace that cover an object.
    pub(crate) fn near(&self, kind: Kind, id: Id) -> impl Iterator<Item = (Kind, Id)> {
        let places = [Guard::One(kind, id), Guard::All(kind, id.namespace)];
        let policies = places.into_iter().filter_map(|place| self.near.get(&place));
        policies.flatten().copied()
    }

    /// Policies that look for a kind in other namespaces than their own.
    pub(crate) fn beyond(&self, kind: Kind) -> impl Iterator<Item = (Reach, &BTreeSet<Id>)> {
        let reaches = self.beyond.iter().map(|(reach, ids)| (*reach, ids));
        reaches.filter(move |(reach, _)| reach.target == kind)
    }
}

/// Whether an object is a policy that protects what it covers, so that this must be closed.
pub(crate) fn protects(object: &Object) -> bool {
    match object {
        Object::SecurityPolicy(_) => true,
        Object::ClientTrafficPolicy(policy) => policy.spec["tls"].get("clientValidation").is_some(),
        _ => false,
    }
}

/// What an object covers, if it is such a policy.
pub(crate) fn guards_of(world: &World, object: &Object) -> Vec<Guard> {
    match object {
        Object::SecurityPolicy(policy) | Object::ClientTrafficPolicy(policy) if protects(object) => {
            targets(world, object.kind(), &policy.metadata.namespace, &policy.spec)
        }
        _ => Vec::new(),
    }
}

/// A target as a policy names it, in its own namespace.
pub(crate) struct NamedTarget<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its name.
    pub(crate) name: &'a str,
    /// A listener or rule of it.
    pub(crate) section: Option<&'a str>,
}

/// The targets that a policy names; kinds that we don't read are left out.
pub(crate) fn named_targets(spec: &Value) -> impl Iterator<Item = NamedTarget<'_>> {
    let list = spec["targetRefs"].as_array().into_iter().flatten();
    list.chain(spec.get("targetRef")).filter_map(|target| {
        let text = |field: &str| target[field].as_str();
        Some(NamedTarget {
            kind: Kind::of(text("group").unwrap_or_default(), text("kind")?)?,
            name: text("name")?,
            section: text("sectionName"),
        })
    })
}

fn targets(world: &World, policy: Kind, namespace: &str, spec: &Value) -> Vec<Guard> {
    let named = named_targets(spec).map(|target| Guard::One(target.kind, world.id(namespace, target.name)));
    let selectors = spec["targetSelectors"].as_array().into_iter().flatten();
    let chosen = selectors.flat_map(|selector| {
        let group = selector["group"].as_str().unwrap_or("gateway.networking.k8s.io");
        let target = Kind::of(group, selector["kind"].as_str().unwrap_or_default());
        let is_near = matches!(selector["namespaces"]["from"].as_str(), None | Some("Same"));
        let from = world.sym(namespace);
        let near = target.map(|kind| Guard::All(kind, from));
        let beyond = target
            .filter(|_| !is_near)
            .map(|target| Guard::Beyond(Reach { target, policy, from }));
        near.into_iter().chain(beyond)
    });
    named.chain(chosen).collect()
}
