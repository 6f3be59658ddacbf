//! What one file holds, and what of it stays in force though its text doesn't say it any more.

use edge_translate::{
    api::{Object, ObjectKey},
    load::{About, Doubt, LoadFinding, Loaded, Severity},
};
use std::{collections::BTreeMap, path::Path};

/// What one file holds.
#[derive(Debug, Default)]
pub(super) struct FileEntry {
    pub(super) objects: BTreeMap<ObjectKey, LoadedEntry>,
    pub(super) findings: Vec<LoadFinding>,
    /// What is doubtful in its text.
    pub(super) doubts: Vec<Doubt>,
    /// Those that were there when nothing was missing.
    settled: Settled,
}

/// An object that a file holds.
#[derive(Clone, Debug)]
pub(super) struct LoadedEntry {
    pub(super) object: Object,
    pub(super) line: usize,
    pub(super) form: Form,
}

/// Where an object has the form from in which it is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// It stands in the text.
    Read,
    /// It stood in a text before; what stands there now can't be it.
    Held,
}

/// How many documents there are of each text that were doubtful before anything was missing: they hide nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::provider::file) struct Settled(BTreeMap<u64, usize>);

impl Settled {
    fn of(doubts: &[Doubt]) -> Self {
        let mut settled = Self::default();
        for doubt in doubts {
            *settled.0.entry(doubt.digest).or_default() += 1;
        }
        settled
    }

    /// Takes out a doubt. Says whether there was one of this text.
    pub(in crate::provider::file) fn take(&mut self, doubt: &Doubt) -> bool {
        let left = self.0.get_mut(&doubt.digest).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    }
}

impl FileEntry {
    /// Takes in a text of the file; gives back what was in force of the ones before.
    pub(super) fn take(&mut self, path: &Path, loaded: Loaded) -> BTreeMap<ObjectKey, LoadedEntry> {
        let Loaded {
            objects,
            findings,
            doubts,
        } = loaded;
        let read = objects.into_iter().map(|found| {
            let entry = LoadedEntry {
                object: found.object,
                line: found.line,
                form: Form::Read,
            };
            (entry.object.key(), entry)
        });
        let new = read.collect();
        let old = std::mem::replace(&mut self.objects, new);
        self.findings = findings;
        let mut known = self.settled.clone();
        let fresh: Vec<&Doubt> = doubts.iter().filter(|doubt| !known.take(doubt)).collect();
        let held = self.missing(&old, &doubts, &fresh);
        let aimless = fresh.iter().filter_map(|doubt| match &doubt.about {
            About::Aimless(key, _) if old.contains_key(key) => Some((key.clone(), *doubt)),
            _ => None,
        });
        let held: Vec<(ObjectKey, &Doubt)> = held.into_iter().chain(aimless).collect();
        // One that names what it holds hides nothing else.
        if held.iter().all(|(key, doubt)| doubt.names(key)) {
            self.settled = Settled::of(&doubts);
        }
        for (key, doubt) in held {
            self.findings.extend(told(path, &key, doubt));
            if let Some(held) = old.get(&key) {
                self.hold(key, held.clone());
            }
        }
        self.doubts = doubts;
        old
    }

    /// Objects that went while something came that may be one of them, each with that.
    fn missing<'a>(
        &self,
        old: &BTreeMap<ObjectKey, LoadedEntry>,
        all: &'a [Doubt],
        fresh: &[&'a Doubt],
    ) -> Vec<(ObjectKey, &'a Doubt)> {
        let is_missing = |key: &ObjectKey| old.contains_key(key) && !self.objects.contains_key(key);
        let missing = old.keys().filter(|key| is_missing(key));
        let held = missing.filter_map(|key| {
            // What an extension service reads isn't held for a kind that nobody here knows: the configuration may have
            // named that.
            let is_of_config = |doubt: &Doubt| matches!(doubt.about, About::Foreign(_)) && key.custom().is_some();
            let hides = |doubt: &&Doubt| doubt.may_be(key, is_missing) && !is_of_config(doubt);
            let by_name = all.iter().find(|doubt| doubt.names(key));
            let by = by_name.or_else(|| fresh.iter().copied().find(hides))?;
            Some((key.clone(), by))
        });
        held.collect()
    }

    /// An object stays in force as it was.
    pub(super) fn hold(&mut self, key: ObjectKey, was: LoadedEntry) {
        let form = Form::Held;
        self.objects.insert(key, LoadedEntry { form, ..was });
    }

    /// What is in force of texts before.
    pub(super) fn held(&self) -> impl Iterator<Item = &ObjectKey> {
        let held = self.objects.iter().filter(|(_, held)| held.form == Form::Held);
        held.map(|(key, _)| key)
    }

    /// What is doubtful in its text, and hides nothing.
    pub(super) fn settled(&self) -> &Settled {
        &self.settled
    }
}

/// What to say of an object that is held. An error says itself what is wrong; that a warning changes nothing is told.
fn told(path: &Path, key: &ObjectKey, doubt: &Doubt) -> Option<LoadFinding> {
    let message = match &doubt.about {
        About::Broken(_) => return None,
        About::Foreign(foreign) => format!(
            "it stood in this file before and stays in force, because {} {} of {} may be it with a slip: correct that; if it is \
             meant, save the file without it once",
            foreign.kind, foreign.name, foreign.group
        ),
        About::Aimless(_, why) => format!(
            "{why}; as an API server would refuse this, the policy stays in force as it was: correct it, or remove the policy"
        ),
    };
    Some(LoadFinding {
        severity: Severity::Error,
        file: path.display().to_string().into(),
        line: doubt.line,
        column: 1,
        object: Some(key.clone()),
        message,
    })
}
