//! The route tables of one connection: which version the proxy is known to have taken, and the trials that are under
//! way.

use super::{
    Action, Stream,
    kind::KindState,
    trial::{Holds, Step, Trial},
};
use crate::{
    lookup::HostForm,
    snapshot::{Entry, ResourceType, Section},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is known of the proxy's tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The proxy takes what differs from what it has.
    pub(super) takes_parts: bool,
    /// How it is told of large hosts.
    pub(super) hosts: HostForm,
    taken: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Tables that the proxy came with in a version that isn't ours.
    brought: BTreeSet<Arc<str>>,
    trials: BTreeMap<Arc<str>, Underway>,
}

/// A trial and what it is about, for when it finds nothing.
#[derive(Debug)]
struct Underway {
    trial: Trial,
    target: Arc<Entry>,
    detail: String,
}

/// A step of a trial, or that it isn't worth one.
#[derive(Debug)]
pub(super) enum Next {
    /// Go on.
    Step(Step),
    /// The table is refused as it is.
    Refused(Arc<Entry>, String),
}

impl Tables {
    /// The proxy comes with tables in these versions.
    pub(super) fn brought(&mut self, versions: impl Iterator<Item = (Arc<str>, u64)>, section: &Section) {
        for (name, version) in versions {
            match section.get(&name) {
                Some(entry) if entry.version == version => {
                    self.taken.insert(name, Arc::clone(entry));
                }
                _ => {
                    self.brought.insert(name);
                }
            }
        }
    }

    /// What differs from this version the proxy can be told.
    pub(super) fn base(&self, name: &str, version: u64) -> Option<Arc<Entry>> {
        let taken = self.taken.get(name).filter(|taken| taken.version == version);
        taken.filter(|_| self.takes_parts).cloned()
    }

    /// The proxy took a version.
    pub(super) fn took(&mut self, entry: &Arc<Entry>) -> Option<Next> {
        self.taken.insert(Arc::clone(&entry.name), Arc::clone(entry));
        let underway = self.trials.get_mut(&entry.name)?;
        let step = underway.trial.took(entry.version);
        Some(self.end(&entry.name, step))
    }

    /// The proxy refused a version; `current` is what it is to have by now.
    pub(super) fn refused(&mut self, entry: &Arc<Entry>, current: Option<&Arc<Entry>>, detail: &str) -> Option<Next> {
        if let Some(underway) = self.trials.get_mut(&entry.name) {
            let step = underway.trial.refused(entry.version, detail);
            return Some(self.end(&entry.name, step));
        }
        let taken = self.taken.get(&entry.name);
        if current.is_none_or(|current| taken.is_some_and(|taken| taken.version == current.version)) {
            return None;
        }
        let holds = match self.taken.get(&entry.name) {
            Some(taken) => Holds::Version(Arc::clone(taken)),
            None if self.brought.contains(&entry.name) => Holds::Something,
            None => Holds::Nothing,
        };
        let Some(mut trial) = Trial::new(entry, &holds, detail) else {
            return Some(Next::Refused(Arc::clone(entry), detail.to_owned()));
        };
        let step = trial.go_on();
        let (target, detail) = (Arc::clone(entry), detail.to_owned());
        self.trials
            .insert(Arc::clone(&entry.name), Underway { trial, target, detail });
        Some(self.end(&entry.name, step))
    }

    /// Forgets a trial that has come to its end.
    fn end(&mut self, name: &str, step: Step) -> Next {
        if matches!(step, Step::Try(_)) {
            return Next::Step(step);
        }
        let underway = self.trials.remove(name);
        match (step, underway) {
            (Step::GaveUp, Some(underway)) => Next::Refused(underway.target, underway.detail),
            (step, _) => Next::Step(step),
        }
    }

    /// Follows the fleet: a table that is gone, or back to what the proxy has, needs no trial. Any other change waits
    /// for its end: the culprit is most likely still in it, and a table that is edited all the time must get somewhere.
    pub(super) fn follow(&mut self, section: &Section, state: &mut KindState) {
        let taken = &self.taken;
        self.trials.retain(|name, _| {
            let current = section.get(name);
            let goes_on = current.is_some_and(|entry| {
                taken.get(name).is_none_or(|taken| taken.version != entry.version) && state.wants(name)
            });
            if !goes_on {
                state.end_trial(name, section);
            }
            goes_on
        });
        // Without a subscription, or once it was removed, the proxy has no more of it.
        let has = |name: &Arc<str>| state.has(name);
        self.taken.retain(|name, _| has(name));
        self.brought.retain(has);
    }
}

impl Stream {
    /// Does what a trial wants.
    pub(super) fn follow_trial(&mut self, name: &Arc<str>, mut next: Option<Next>, actions: &mut Vec<Action>) {
        let state = &mut self.states[ResourceType::Routes];
        // A proxy that comes back in the middle of a trial may have what is to be tried.
        while let Some(Next::Step(Step::Try(entry))) = next {
            if !state.has_version(&entry) {
                return state.try_instead(&entry);
            }
            next = self.tables.took(&entry);
        }
        match next {
            Some(Next::Step(Step::Found(held))) => {
                state.end_trial(name, self.snapshot.section(ResourceType::Routes));
                held.iter().for_each(|held| self.quarantine.hold(held.clone()));
                self.serve();
                actions.push(Action::Quarantined(held));
            }
            Some(Next::Refused(entry, detail)) => self.reject(ResourceType::Routes, &entry, &detail, actions),
            Some(Next::Step(Step::Try(_) | Step::GaveUp)) | None => {}
        }
    }
}
