//! Which policies point at an object: those that name it, and those that choose it by its labels.
//!
//! Kept from both ends, so that a change costs what it touches: a policy that comes, or chooses otherwise, looks at the
//! objects where it may choose; an object that comes, goes or bears other labels is shown to the policies that choose
//! where it is; and a namespace with other labels to those that ask for these. Whether a ReferenceGrant lets a policy
//! of another namespace in is for whoever asks (`Reader::covers`).

use super::{
    Touched, World,
    policies::{Selector, Written, is_in_force, written},
};
use crate::{
    api::{Kind, Object, StringMap},
    engine::key::Key,
    name::{Id, Interner, PolicyId, RouteId, RouteKind, Sym},
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A policy over an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cover {
    /// The policy.
    pub(crate) policy: PolicyId,
    /// The listener or rule that it names; none for all of the object.
    pub(crate) section: Option<Sym>,
    /// By labels, and not by name.
    is_chosen: bool,
}

/// Something that a policy can point at.
type Target = (Kind, Id);

/// The index.
#[derive(Default)]
pub(super) struct Covers {
    /// Over each object that has any, sorted.
    over: FxHashMap<Target, SmallVec<[Cover; 2]>>,
    /// The other end.
    policies: FxHashMap<PolicyId, Pointing>,
    /// Policies that choose among objects of a kind, in a namespace or in every one.
    choosers: FxHashMap<(Kind, Option<Sym>), BTreeSet<PolicyId>>,
    /// Objects that can be chosen.
    candidates: BTreeSet<Target>,
}

/// What a policy points at. Nearly every policy names one object, which takes no allocation.
#[derive(Default)]
struct Pointing {
    selectors: Vec<Selector>,
    /// What it names, sorted.
    named: SmallVec<[(Target, Cover); 1]>,
    /// What it chooses, which may be all there is.
    chosen: BTreeSet<(Target, Cover)>,
}

impl Pointing {
    fn covers(&self) -> impl Iterator<Item = &(Target, Cover)> {
        self.named.iter().chain(&self.chosen)
    }

    fn has(&self, cover: &(Target, Cover)) -> bool {
        match cover.1.is_chosen {
            true => self.chosen.contains(cover),
            false => self.named.contains(cover),
        }
    }
}

impl Covers {
    fn add(&mut self, target: Target, cover: Cover) {
        let over = self.over.entry(target).or_default();
        if let Err(place) = over.binary_search(&cover) {
            over.insert(place, cover);
        }
    }

    fn remove(&mut self, target: Target, cover: Cover) {
        if let Some(over) = self.over.get_mut(&target) {
            over.retain(|known| *known != cover);
            if over.is_empty() {
                self.over.remove(&target);
            }
        }
    }

    /// Objects of a kind that can be chosen, in a namespace or in every one.
    fn candidates(&self, kind: Kind, within: Option<Sym>) -> impl Iterator<Item = Id> {
        let first = Id {
            namespace: within.unwrap_or(Interner::EMPTY),
            name: Interner::EMPTY,
        };
        let there = self.candidates.range((kind, first)..);
        let there = there.take_while(move |(k, id)| *k == kind && within.is_none_or(|ns| id.namespace == ns));
        there.map(|(_, id)| *id)
    }

    /// Enters, or takes out, where a policy chooses.
    fn note_chooser(&mut self, policy: PolicyId, selectors: &[Selector], enters: Presence) {
        for selector in selectors {
            let place = (selector.kind, selector.within(policy.id.namespace));
            let there = self.choosers.entry(place).or_default();
            match enters {
                Presence::Here => there.insert(policy),
                Presence::Gone => there.remove(&policy),
            };
            if there.is_empty() {
                self.choosers.remove(&place);
            }
        }
    }

    /// Policies that may choose an object.
    fn choosers_of(&self, (kind, id): Target) -> impl Iterator<Item = PolicyId> {
        let near = self.choosers.get(&(kind, Some(id.namespace)));
        let far = self.choosers.get(&(kind, None));
        near.into_iter().chain(far).flatten().copied()
    }

    fn selectors_of(&self, policy: PolicyId) -> &[Selector] {
        self.policies.get(&policy).map_or(&[], |pointing| &pointing.selectors)
    }
}

/// Whether something is there.
#[derive(Clone, Copy)]
enum Presence {
    Here,
    Gone,
}

impl World {
    /// Policies over an object, sorted: one that names several parts of it, or both names and chooses it, comes as
    /// often.
    pub(crate) fn covers(&self, kind: Kind, id: Id) -> &[Cover] {
        self.covers.over.get(&(kind, id)).map_or(&[], |over| over)
    }

    /// What a policy is over, parts of objects included, in no order.
    pub(crate) fn covered_by(&self, policy: PolicyId) -> impl Iterator<Item = (Kind, Id, Option<Sym>)> {
        let covers = self.covers.policies.get(&policy).into_iter().flat_map(Pointing::covers);
        covers.map(|((kind, id), cover)| (*kind, *id, cover.section))
    }

    /// What a policy chooses by labels, in no order.
    pub(crate) fn chosen_by(&self, policy: PolicyId) -> impl Iterator<Item = (Kind, Id)> {
        let chosen = self
            .covers
            .policies
            .get(&policy)
            .into_iter()
            .flat_map(|pointing| &pointing.chosen);
        chosen.map(|(target, _)| *target)
    }

    /// Brings the index up to date after an object came, changed or went.
    pub(super) fn turn_covers(
        &mut self,
        (kind, id): (Kind, Id),
        was: Option<&Object>,
        now: Option<&Object>,
        touched: &mut Touched,
    ) {
        let labels = |object: Option<&Object>| object.map(|object| object.metadata().labels.clone());
        let turned = if kind == Kind::Namespace {
            self.turn_namespace(id.name, labels(was).as_ref(), labels(now).as_ref())
        } else if is_choosable(kind) {
            let (was, now) = (labels(was), labels(now));
            match was == now {
                true => SmallVec::new(),
                false => self.turn_candidate((kind, id), now.as_ref()),
            }
        } else if was.or(now).and_then(written).is_some() {
            self.turn_policy(PolicyId { kind, id }, now.and_then(written))
        } else {
            SmallVec::new()
        };
        for ((kind, id), policy) in turned {
            if is_in_force(policy.kind) || policy.kind == Kind::CustomPolicy {
                // It says what becomes of each of its targets.
                touched.units.push(Key::Status(policy.kind, policy.id));
            }
            match RouteKind::of(kind) {
                Some(kind) => touched.units.push(Key::Attach(RouteId { kind, id })),
                None => touched.push(Key::Covers(kind, id)),
            }
        }
    }

    /// Takes what a policy points at; returns the objects for which that makes a difference.
    fn turn_policy(&mut self, policy: PolicyId, now: Option<Written<'_>>) -> SmallVec<[(Target, PolicyId); 1]> {
        let was = self.covers.policies.remove(&policy).unwrap_or_default();
        let pointing = now.map(|written| self.pointing(policy, written, &was));
        let is_here = pointing.is_some();
        let now = pointing.unwrap_or_default();
        let mut turned: SmallVec<[(Target, PolicyId); 1]> = SmallVec::new();
        for cover @ (target, of) in was.covers() {
            if !now.has(cover) {
                self.covers.remove(*target, *of);
                turned.push((*target, policy));
            }
        }
        for cover @ (target, of) in now.covers() {
            if !was.has(cover) {
                self.covers.add(*target, *of);
                turned.push((*target, policy));
            }
        }
        self.covers.note_chooser(policy, &was.selectors, Presence::Gone);
        self.covers.note_chooser(policy, &now.selectors, Presence::Here);
        if is_here {
            self.covers.policies.insert(policy, now);
        }
        turned.sort_unstable();
        turned.dedup();
        turned
    }

    fn pointing(&self, policy: PolicyId, written: Written<'_>, was: &Pointing) -> Pointing {
        let selectors = written.selectors();
        let chosen = match was.selectors == selectors {
            true => was.chosen.clone(),
            false => self.choose(policy, &selectors),
        };
        let named = written.named().into_iter().map(|target| {
            let id = Id {
                namespace: policy.id.namespace,
                name: self.sym(target.name),
            };
            let cover = Cover {
                policy,
                section: target.section.map(|section| self.sym(section)),
                is_chosen: false,
            };
            ((target.kind, id), cover)
        });
        let mut named: SmallVec<[(Target, Cover); 1]> = named.collect();
        named.sort_unstable();
        named.dedup();
        Pointing {
            selectors,
            named,
            chosen,
        }
    }

    /// What selectors choose among all objects.
    fn choose(&self, policy: PolicyId, selectors: &[Selector]) -> BTreeSet<(Target, Cover)> {
        let chosen = selectors.iter().flat_map(|selector| {
            let there = self
                .covers
                .candidates(selector.kind, selector.within(policy.id.namespace));
            let there = there.filter(|id| selector.looks_into(self.labels_of_namespace(id.namespace)));
            let is_chosen = |id: &Id| {
                let object = self.object(selector.kind, *id);
                object.is_some_and(|object| selector.chooses(&object.metadata().labels))
            };
            there
                .filter(is_chosen)
                .map(|id| ((selector.kind, id), choosing(policy)))
        });
        chosen.collect()
    }

    /// Takes the labels of an object, or that it is gone.
    fn turn_candidate(&mut self, target: Target, labels: Option<&StringMap>) -> SmallVec<[(Target, PolicyId); 1]> {
        match labels {
            Some(_) => self.covers.candidates.insert(target),
            None => self.covers.candidates.remove(&target),
        };
        let (kind, id) = target;
        let namespace = self.labels_of_namespace(id.namespace);
        let is_chosen = |policy: PolicyId, labels: &StringMap| {
            let home = policy.id.namespace;
            let mut selectors = self.covers.selectors_of(policy).iter();
            selectors.any(|s| {
                let looks_here = s.kind == kind && s.within(home).is_none_or(|ns| ns == id.namespace);
                looks_here && s.looks_into(namespace) && s.chooses(labels)
            })
        };
        let (choosers, others): (Vec<_>, Vec<_>) = self
            .covers
            .choosers_of(target)
            .partition(|policy| labels.is_some_and(|labels| is_chosen(*policy, labels)));
        let mut turned = SmallVec::new();
        for policy in choosers {
            let pointing = self.covers.policies.get_mut(&policy);
            if pointing.is_some_and(|p| p.chosen.insert((target, choosing(policy)))) {
                self.covers.add(target, choosing(policy));
                turned.push((target, policy));
            }
        }
        for policy in others {
            let pointing = self.covers.policies.get_mut(&policy);
            if pointing.is_some_and(|p| p.chosen.remove(&(target, choosing(policy)))) {
                self.covers.remove(target, choosing(policy));
                turned.push((target, policy));
            }
        }
        turned
    }

    /// Takes the labels of a namespace, or that we know nothing of it any more.
    fn turn_namespace(
        &mut self,
        namespace: Sym,
        was: Option<&StringMap>,
        now: Option<&StringMap>,
    ) -> SmallVec<[(Target, PolicyId); 1]> {
        let everywhere = self.covers.choosers.iter().filter(|((_, within), _)| within.is_none());
        let concerned = everywhere.filter(|((kind, _), policies)| {
            let mut selectors = policies.iter().flat_map(|policy| self.covers.selectors_of(*policy));
            selectors.any(|s| s.kind == *kind && s.looks_into(was) != s.looks_into(now))
        });
        let kinds: BTreeSet<Kind> = concerned.map(|((kind, _), _)| *kind).collect();
        let mut turned = SmallVec::new();
        for kind in kinds {
            let there: Vec<Id> = self.covers.candidates(kind, Some(namespace)).collect();
            for id in there {
                let labels = self.object(kind, id).map(|object| object.metadata().labels.clone());
                turned.extend(self.turn_candidate((kind, id), labels.as_ref()));
            }
        }
        turned
    }

    fn labels_of_namespace(&self, name: Sym) -> Option<&StringMap> {
        let namespace = Interner::EMPTY;
        let object = self.object(Kind::Namespace, Id { namespace, name })?;
        Some(&object.metadata().labels)
    }
}

fn choosing(policy: PolicyId) -> Cover {
    Cover {
        policy,
        section: None,
        is_chosen: true,
    }
}

/// Whether selectors of policies choose among objects of a kind.
fn is_choosable(kind: Kind) -> bool {
    matches!(kind, Kind::Gateway | Kind::ListenerSet) || RouteKind::of(kind).is_some()
}
