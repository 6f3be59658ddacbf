//! Edits of several files, one after another: what of them is put in force now.
//!
//! What is gone from one file may come back in another, and an API server's users would see no gap in between. So what
//! is gone may stay for a while. An edit in which something goes and something comes is whole, though: what comes may
//! be meant for a world without the other (a Service's port without the BackendTLSPolicy, a route without its
//! namesake). So it waits too, and with it all that comes behind it, for a route must not overtake its guard. A guard
//! itself isn't kept from what came into force just before it.

use super::Table;
use edge_translate::{
    Change,
    api::{Object, ObjectKey},
    guards, is_attached_to, is_guard,
};
use std::{collections::BTreeSet, path::Path, sync::Arc};

/// What happened since nothing had changed for a while.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Files in which something came or changed that wasn't told yet.
    brought: BTreeSet<Arc<Path>>,
    /// What was gone already when the world was told last.
    gone: BTreeSet<ObjectKey>,
    /// What came or changed, and is in force.
    told: BTreeSet<ObjectKey>,
    /// Policies that changed or went: as they were, and as they are.
    unguarded: Vec<(Object, Option<Object>)>,
}

/// What is new since the world was told last.
#[derive(Default)]
struct Touched {
    /// What came or changed.
    changes: Vec<Change>,
    /// What is gone of what was told.
    gone: Vec<ObjectKey>,
    /// What changed: as it was, and as it is.
    replaced: Vec<(Object, Object)>,
}

impl Burst {
    pub(super) fn note_brought(&mut self, path: &Arc<Path>) {
        if !self.brought.contains(path) {
            self.brought.insert(Arc::clone(path));
        }
    }

    /// Whether a policy has left an object. A Gateway isn't given up for that: its proxy goes with it.
    fn has_unguarded(&self, object: &Object) -> bool {
        let has_left = |(old, new): &(Object, Option<Object>)| {
            guards(old, object) && new.as_ref().is_none_or(|new| !guards(new, object))
        };
        !matches!(object, Object::Gateway(_)) && self.unguarded.iter().any(has_left)
    }
}

impl Table {
    /// Nothing has changed for a while.
    pub(in crate::provider::file) fn rest(&mut self) {
        self.burst.told.clear();
        self.burst.unguarded.clear();
    }

    /// What is gone and wasn't told.
    pub(in crate::provider::file) fn gone(&mut self) -> Vec<ObjectKey> {
        self.drop_held();
        self.adopt_broken();
        let is_gone = |key: &&ObjectKey| !self.holders.contains_key(*key) && self.published.contains_key(*key);
        self.touched.iter().filter(is_gone).cloned().collect()
    }

    /// The one file that held all of these last.
    pub(in crate::provider::file) fn left_by(&self, gone: &[ObjectKey]) -> Option<Arc<Path>> {
        let from = self.left.get(gone.first()?)?;
        let is_it = |key: &ObjectKey| self.left.get(key) == Some(from);
        gone.iter().all(is_it).then(|| Arc::clone(from))
    }

    /// Whether half an edit would be put in force without what is gone: something came together with that. But what is
    /// in force isn't left without its guard for as long.
    pub(in crate::provider::file) fn is_torn(&self, gone: &[ObjectKey]) -> bool {
        let is_of_edit = |key: &ObjectKey| {
            let brings = |from: &Arc<Path>| self.burst.brought.contains(from);
            !self.burst.gone.contains(key) || self.left.get(key).is_some_and(brings)
        };
        !self.burst.brought.is_empty() && gone.iter().any(is_of_edit) && !self.is_unguarded(gone)
    }

    /// Whether a policy waits for which something in force came just now, or something is gone that a policy has left.
    fn is_unguarded(&self, gone: &[ObjectKey]) -> bool {
        let mut gone = gone.iter().filter_map(|key| self.published.get(key));
        let told = || self.burst.told.iter().filter_map(|key| self.published.get(key));
        let comes = |key: &ObjectKey| {
            let object = self.present(key)?;
            (self.published.get(key) != Some(object)).then_some(object)
        };
        let mut coming = self.touched.iter().filter_map(comes);
        coming.any(|policy| told().any(|target| guards(policy, target)))
            || gone.any(|gone| self.burst.has_unguarded(gone))
    }

    /// An object as the files hold it.
    fn present(&self, key: &ObjectKey) -> Option<&Object> {
        let winner = self.holders.get(key)?.first()?;
        Some(&self.files.get(winner)?.objects.get(key)?.object)
    }

    /// What the world must be told since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let Touched { mut changes, gone, .. } = self.take_touched();
        changes.extend(gone.into_iter().map(|key| self.let_go(key)));
        self.burst.gone.clear();
        changes
    }

    /// The same without what is gone, which is told by another call unless it is back by then. What something was
    /// attached to that has left it goes with that: a route must not stay without the policy that guarded it, nor a
    /// Gateway keep the ports of the one to which its routes have moved.
    pub fn take_changes_but_removals(&mut self) -> Vec<Change> {
        let touched = self.take_touched();
        self.tell(touched, &BTreeSet::new())
    }

    /// The same, and what is gone from files in which something came goes with that. But no guard of what stays, unless
    /// the file brought another one.
    pub fn take_edits(&mut self) -> Vec<Change> {
        let edited = std::mem::take(&mut self.burst.brought);
        let touched = self.take_touched();
        let all: BTreeSet<&ObjectKey> = touched.gone.iter().collect();
        let of_edit = |key: &&ObjectKey| self.left.get(*key).is_some_and(|from| edited.contains(from));
        let is_safe = |key: &&ObjectKey| !self.is_last_guard(key, &all);
        let going = touched.gone.iter().filter(of_edit).filter(is_safe);
        let going: BTreeSet<ObjectKey> = going.cloned().collect();
        self.tell(touched, &going)
    }

    /// Whether something that stays would be left without a policy of this kind.
    fn is_last_guard(&self, key: &ObjectKey, gone: &BTreeSet<&ObjectKey>) -> bool {
        let Some(policy) = self.published.get(key) else {
            return false;
        };
        let file = self.left.get(key).and_then(|from| self.files.get(from));
        let others = file.iter().flat_map(|file| file.objects.values());
        let others: Vec<&Object> = others
            .map(|held| &held.object)
            .filter(|other| other.kind() == policy.kind())
            .collect();
        let mut staying = self.published.iter().filter(|(key, _)| !gone.contains(key));
        staying.any(|(_, target)| guards(policy, target) && !others.iter().any(|other| guards(other, target)))
    }

    /// Tells what is new, and of what is gone what goes, or was left.
    fn tell(&mut self, touched: Touched, going: &BTreeSet<ObjectKey>) -> Vec<Change> {
        let Touched {
            mut changes,
            gone,
            replaced,
        } = touched;
        for key in gone {
            let is_left = self.published.get(&key).is_some_and(|gone| {
                let mut replaced = replaced.iter();
                replaced.any(|(old, new)| is_attached_to(old, gone) && !is_attached_to(new, gone))
                    || self.burst.has_unguarded(gone)
            });
            match is_left || going.contains(&key) {
                true => changes.push(self.let_go(key)),
                false => drop(self.touched.insert(key)),
            }
        }
        self.burst.gone = self.touched.clone();
        changes
    }

    fn let_go(&mut self, key: ObjectKey) -> Change {
        if let Some(object) = self.published.remove(&key)
            && is_guard(&object)
        {
            self.burst.unguarded.push((object, None));
        }
        self.left.remove(&key);
        Change::Remove(key)
    }

    /// Whether something is gone and wasn't told yet.
    pub(in crate::provider::file) fn has_removals(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether something came and wasn't told yet.
    pub(in crate::provider::file) fn has_edits(&self) -> bool {
        !self.burst.brought.is_empty()
    }

    fn take_touched(&mut self) -> Touched {
        self.drop_held();
        self.adopt_broken();
        self.burst.brought.clear();
        let mut out = Touched::default();
        for key in std::mem::take(&mut self.touched) {
            match self.present(&key).cloned() {
                Some(object) if self.published.get(&key) == Some(&object) => {}
                Some(object) => {
                    out.changes.push(Change::Put(object.clone()));
                    self.burst.told.insert(key.clone());
                    let before = self.published.insert(key, object.clone());
                    if let Some(before) = before {
                        if is_guard(&before) {
                            self.burst.unguarded.push((before.clone(), Some(object.clone())));
                        }
                        out.replaced.push((before, object));
                    }
                }
                None if self.published.contains_key(&key) => out.gone.push(key),
                None => drop(self.left.remove(&key)),
            }
        }
        out
    }
}
