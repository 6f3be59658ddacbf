//! Edits of several sources, such as files, one after another: which of them are put in force now.
//!
//! What is gone from one source may come back in another, and an API server's users would see no gap in between. So
//! what is gone may stay for a while. An edit in which something goes and something comes is whole, though: what comes
//! may be meant for a world without the other (a Service's port without the BackendTLSPolicy, a route without its
//! namesake). So it waits too, and with it all that comes behind it, for a route must not overtake its policy. A policy
//! itself isn't kept from what came into force just before it.
//!
//! Every policy counts here as one that may keep requests away, since what it says can't be told from what it names: a
//! BackendTrafficPolicy has rate limits, a custom policy whatever its extension service makes of it.
//!
//! How long is waited is no matter of this module: whoever owns the clock says what becomes of what is gone.

use crate::{
    Change,
    api::{Object, ObjectKey},
    attached::{is_attached_to, is_policy, is_policy_for},
};
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// What becomes of objects that are gone from their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removals {
    /// They go.
    Tell,
    /// Edits have waited long enough: what is gone from their sources goes with them, but for the last policy of a kind
    /// that stands before something that stays.
    TellWithEdits,
    /// They stay for now, for they may come back elsewhere, and edits that came together with that wait too.
    Hold,
}

/// What there is to compare with what is in force.
pub trait Sources {
    /// What a source is known by.
    type Id: Clone + Ord;

    /// An object as the sources have it.
    fn object(&self, key: &ObjectKey) -> Option<&Object>;

    /// All that one source has.
    fn objects_of(&self, source: &Self::Id) -> impl Iterator<Item = &Object>;
}

/// What is in force, and what of the sources isn't yet.
#[derive(Debug)]
pub struct Edits<Id> {
    in_force: BTreeMap<ObjectKey, Object>,
    /// Objects to compare with `in_force`.
    touched: BTreeSet<ObjectKey>,
    /// Objects that left a source, each with the one that had it last.
    left: BTreeMap<ObjectKey, Id>,
    open: OpenEdits<Id>,
}

/// What happened since nothing had changed for a while.
#[derive(Debug)]
struct OpenEdits<Id> {
    /// Sources in which something came or changed that wasn't told yet.
    brought: BTreeSet<Id>,
    /// What was gone already when something was told last.
    gone: BTreeSet<ObjectKey>,
    /// What came or changed, and is in force.
    told: BTreeSet<ObjectKey>,
    /// Policies that changed or went: as they were, and as they are.
    policies: Vec<(Object, Option<Object>)>,
}

/// What is new since something was told last.
#[derive(Default)]
struct News {
    /// What came or changed.
    changes: Vec<Change>,
    /// What is gone of what is in force.
    gone: Vec<ObjectKey>,
    /// What changed: as it was, and as it is.
    replaced: Vec<(Object, Object)>,
}

impl<Id> Default for Edits<Id> {
    fn default() -> Self {
        Self {
            in_force: BTreeMap::new(),
            touched: BTreeSet::new(),
            left: BTreeMap::new(),
            open: OpenEdits {
                brought: BTreeSet::new(),
                gone: BTreeSet::new(),
                told: BTreeSet::new(),
                policies: Vec::new(),
            },
        }
    }
}

impl<Id: Clone + Ord> Edits<Id> {
    /// What is in force: all that was told.
    pub fn in_force(&self) -> &BTreeMap<ObjectKey, Object> {
        &self.in_force
    }

    /// An object came in a source, or changed there.
    pub fn note_brought(&mut self, key: &ObjectKey, source: &Id) {
        self.touched.insert(key.clone());
        if !self.open.brought.contains(source) {
            self.open.brought.insert(source.clone());
        }
    }

    /// An object left a source.
    pub fn note_left(&mut self, key: ObjectKey, source: &Id) {
        self.left.insert(key.clone(), source.clone());
        self.touched.insert(key);
    }

    /// An object may be another now, though nobody edited it: another of its sources counts.
    pub fn note_touched(&mut self, key: ObjectKey) {
        self.touched.insert(key);
    }

    /// Forgets which source an object left where that is of no interest any more; it is seen as it is in force.
    pub fn retain_left(&mut self, mut is_kept: impl FnMut(&ObjectKey, &Id, Option<&Object>) -> bool) {
        let in_force = &self.in_force;
        self.left.retain(|key, source| is_kept(key, source, in_force.get(key)));
    }

    /// Nothing has changed for a while: what comes from now on is no part of what came before.
    pub fn rest(&mut self) {
        self.open.told.clear();
        self.open.policies.clear();
    }

    /// What is gone and still in force.
    pub fn gone(&self, sources: &impl Sources<Id = Id>) -> Vec<ObjectKey> {
        let is_gone = |key: &&ObjectKey| sources.object(key).is_none() && self.in_force.contains_key(*key);
        self.touched.iter().filter(is_gone).cloned().collect()
    }

    /// The one source that had all of these last.
    pub fn left_by(&self, gone: &[ObjectKey]) -> Option<&Id> {
        let from = self.left.get(gone.first()?)?;
        let is_it = |key: &ObjectKey| self.left.get(key) == Some(from);
        gone.iter().all(is_it).then_some(from)
    }

    /// Whether something is gone and wasn't told yet.
    pub fn has_removals(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether something came and wasn't told yet.
    pub fn has_edits(&self) -> bool {
        !self.open.brought.is_empty()
    }

    /// Puts in force what is new, as far as it may be, and says what that is.
    ///
    /// What something was attached to that has left it goes with that, whatever becomes of the rest: a route must not
    /// stay without the policy that stood before it, nor a Gateway keep the ports of the one to which its routes have
    /// moved.
    pub fn tell(&mut self, sources: &impl Sources<Id = Id>, removals: Removals) -> Vec<Change> {
        if removals == Removals::Hold && self.is_torn(sources) {
            return Vec::new();
        }
        let edited = std::mem::take(&mut self.open.brought);
        let news = self.take_news(sources);
        let going = match removals {
            Removals::Tell => news.gone.iter().cloned().collect(),
            Removals::TellWithEdits => self.gone_with(&edited, &news.gone, sources),
            Removals::Hold => BTreeSet::new(),
        };
        self.let_go(news, &going)
    }

    /// Whether half an edit would be put in force without what is gone: something came together with that. But what is
    /// in force isn't left without its policy for as long.
    fn is_torn(&self, sources: &impl Sources<Id = Id>) -> bool {
        let gone = self.gone(sources);
        let is_of_edit = |key: &ObjectKey| {
            let brings = |from: &Id| self.open.brought.contains(from);
            !self.open.gone.contains(key) || self.left.get(key).is_some_and(brings)
        };
        self.has_edits() && gone.iter().any(is_of_edit) && !self.is_bared(&gone, sources)
    }

    /// Whether a policy waits for which something in force came just now, or something is gone that a policy has left.
    fn is_bared(&self, gone: &[ObjectKey], sources: &impl Sources<Id = Id>) -> bool {
        let mut gone = gone.iter().filter_map(|key| self.in_force.get(key));
        let told = || self.open.told.iter().filter_map(|key| self.in_force.get(key));
        let comes = |key: &ObjectKey| {
            let object = sources.object(key)?;
            (self.in_force.get(key) != Some(object)).then_some(object)
        };
        let mut coming = self.touched.iter().filter_map(comes);
        coming.any(|policy| told().any(|target| is_policy_for(policy, target)))
            || gone.any(|gone| self.open.has_lost_policy(gone))
    }

    /// What is gone from sources in which something came. But no policy of what stays, unless the source brought
    /// another one of its kind.
    fn gone_with(
        &self,
        edited: &BTreeSet<Id>,
        gone: &[ObjectKey],
        sources: &impl Sources<Id = Id>,
    ) -> BTreeSet<ObjectKey> {
        let all: BTreeSet<&ObjectKey> = gone.iter().collect();
        let of_edit = |key: &&ObjectKey| self.left.get(*key).is_some_and(|from| edited.contains(from));
        let is_safe = |key: &&ObjectKey| !self.is_last_policy(key, &all, sources);
        gone.iter().filter(of_edit).filter(is_safe).cloned().collect()
    }

    /// Whether something that stays would be left without a policy of this kind.
    fn is_last_policy(&self, key: &ObjectKey, gone: &BTreeSet<&ObjectKey>, sources: &impl Sources<Id = Id>) -> bool {
        let Some(policy) = self.in_force.get(key) else {
            return false;
        };
        let source = self.left.get(key).into_iter();
        let others: Vec<&Object> = source
            .flat_map(|from| sources.objects_of(from))
            .filter(|other| other.kind() == policy.kind())
            .collect();
        let mut staying = self.in_force.iter().filter(|(key, _)| !gone.contains(key));
        staying.any(|(_, target)| {
            is_policy_for(policy, target) && !others.iter().any(|other| is_policy_for(other, target))
        })
    }

    /// Puts in force all that came or changed.
    fn take_news(&mut self, sources: &impl Sources<Id = Id>) -> News {
        let mut news = News::default();
        for key in std::mem::take(&mut self.touched) {
            match sources.object(&key) {
                Some(object) if self.in_force.get(&key) == Some(object) => {}
                Some(object) => {
                    news.changes.push(Change::Put(object.clone()));
                    self.open.told.insert(key.clone());
                    if let Some(before) = self.in_force.insert(key, object.clone()) {
                        if is_policy(&before) {
                            self.open.policies.push((before.clone(), Some(object.clone())));
                        }
                        news.replaced.push((before, object.clone()));
                    }
                }
                None if self.in_force.contains_key(&key) => news.gone.push(key),
                None => drop(self.left.remove(&key)),
            }
        }
        news
    }

    /// Of what is gone lets go what goes, or was left by what was attached to it; the rest is looked at again.
    fn let_go(&mut self, news: News, going: &BTreeSet<ObjectKey>) -> Vec<Change> {
        let mut changes = news.changes;
        for key in news.gone {
            let is_left = |gone: &Object| {
                let mut replaced = news.replaced.iter();
                replaced.any(|(old, new)| is_attached_to(old, gone) && !is_attached_to(new, gone))
                    || self.open.has_lost_policy(gone)
            };
            if !going.contains(&key) && !self.in_force.get(&key).is_some_and(is_left) {
                self.touched.insert(key);
                continue;
            }
            if let Some(object) = self.in_force.remove(&key)
                && is_policy(&object)
            {
                self.open.policies.push((object, None));
            }
            self.left.remove(&key);
            changes.push(Change::Remove(key));
        }
        self.open.gone.clone_from(&self.touched);
        changes
    }
}

impl<Id> OpenEdits<Id> {
    /// Whether a policy has left an object. A Gateway isn't given up for that: its proxy goes with it.
    fn has_lost_policy(&self, object: &Object) -> bool {
        let has_left = |(old, new): &(Object, Option<Object>)| {
            is_policy_for(old, object) && new.as_ref().is_none_or(|new| !is_policy_for(new, object))
        };
        !matches!(object, Object::Gateway(_)) && self.policies.iter().any(has_left)
    }
}
