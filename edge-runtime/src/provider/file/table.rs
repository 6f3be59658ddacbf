//! What every file holds, and what follows for the world: pure, so that every history of edits can be tested.
//!
//! Three rules:
//!
//! * What can't be read changes nothing: objects of a broken document, or of a file that can't be read, stay in force
//!   in their last good form until the text is whole again or the file is gone ([`entry`]). Of a file that was broken
//!   before the controller began, that is the form in its copy ([`kept`](super::kept)).
//! * Everything else follows: an object that a whole text doesn't hold any more is gone, at once or when it is sure
//!   that it hasn't moved ([`edits`](edge_translate::edits)).
//! * Of the same object in two files, the one of the first path in order is in force; one that comes in a file is no
//!   longer held for another.

use crate::state::SourceLocation;
use edge_translate::{
    Change,
    api::{Object, ObjectKey},
    edits::{Edits, Removals, Sources},
    load::{LoadFinding, Loaded, Severity, in_force_elsewhere},
};
use entry::{FileEntry, Form, LoadedEntry};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

mod entry;

pub(super) use entry::Settled;

/// All files and what they hold.
#[derive(Debug, Default)]
pub struct Table {
    files: BTreeMap<Arc<Path>, FileEntry>,
    /// The files that hold an object, in order: the first is in force.
    holders: BTreeMap<ObjectKey, BTreeSet<Arc<Path>>>,
    /// What the world knows, and what of the files it isn't told yet.
    edits: Edits<Arc<Path>>,
    /// Objects that came, went, or stand on another line.
    moved: BTreeSet<ObjectKey>,
    /// Objects that came in a file since the last look.
    arrived: BTreeSet<ObjectKey>,
    regrouped: Regrouped,
}

/// What the files hold, to be compared with what is in force.
struct Held<'a> {
    files: &'a BTreeMap<Arc<Path>, FileEntry>,
    holders: &'a BTreeMap<ObjectKey, BTreeSet<Arc<Path>>>,
}

impl Sources for Held<'_> {
    type Id = Arc<Path>;

    fn object(&self, key: &ObjectKey) -> Option<&Object> {
        let winner = self.holders.get(key)?.first()?;
        Some(&self.files.get(winner)?.objects.get(key)?.object)
    }

    fn objects_of(&self, source: &Arc<Path>) -> impl Iterator<Item = &Object> {
        let file = self.files.get(source).into_iter();
        file.flat_map(|file| file.objects.values()).map(|held| &held.object)
    }
}

/// What became of held objects in a look, beside what their own files say.
#[derive(Debug, Default)]
pub(super) struct Regrouped {
    /// Objects that a file doesn't hold any more, because they came in another.
    pub(super) dropped: BTreeMap<Arc<Path>, BTreeSet<ObjectKey>>,
    /// Files that hold an object of which they have a broken form, each with the files that held it before.
    pub(super) adopted: BTreeMap<Arc<Path>, BTreeSet<Arc<Path>>>,
}

impl Table {
    /// A file was read.
    pub fn load(&mut self, path: &Path, loaded: Loaded) {
        let path: Arc<Path> = path.into();
        let entry = self.files.entry(Arc::clone(&path)).or_default();
        let old = entry.take(&path, loaded);
        self.reindex(&path, old);
    }

    /// A file is there but can't be read: what it held stays.
    pub fn fail(&mut self, path: &Path, problem: &str) {
        let finding = of_file(path, problem);
        self.files.entry(path.into()).or_default().findings = vec![finding];
    }

    /// A file has another path now, with all that it holds.
    pub fn rename(&mut self, from: &Path, to: &Path) {
        let Some(entry) = self.files.remove(from) else { return };
        let to: Arc<Path> = to.into();
        for key in entry.objects.keys() {
            let holders = self.holders.entry(key.clone()).or_default();
            holders.remove(from);
            holders.insert(Arc::clone(&to));
            self.moved.insert(key.clone());
            self.edits.note_touched(key.clone());
        }
        self.files.insert(to, entry);
    }

    /// A file is gone.
    pub fn remove(&mut self, path: &Path) {
        if let Some((path, entry)) = self.files.remove_entry(path) {
            self.reindex(&path, entry.objects);
        }
    }

    /// Whether a file is known to hold objects.
    pub fn holds_something(&self, path: &Path) -> bool {
        self.files.get(path).is_some_and(|entry| !entry.objects.is_empty())
    }

    /// Whether a file is known.
    pub fn knows(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Files that are known.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.keys().map(|path| &**path)
    }

    /// Brings `holders` in line after the objects of a file changed from `old`. Most are the same and cost a look.
    fn reindex(&mut self, path: &Arc<Path>, old: BTreeMap<ObjectKey, LoadedEntry>) {
        let new = self.files.get(path).map(|entry| &entry.objects);
        for (key, held) in new.into_iter().flatten() {
            if old.get(key).is_none_or(|before| before.line != held.line) {
                self.moved.insert(key.clone());
            }
            match old.get(key) {
                Some(before) if before.object == held.object => {}
                Some(_) => self.edits.note_brought(key, path),
                None => {
                    self.holders.entry(key.clone()).or_default().insert(Arc::clone(path));
                    self.arrived.insert(key.clone());
                    self.edits.note_brought(key, path);
                }
            }
        }
        for key in old
            .into_keys()
            .filter(|key| !new.is_some_and(|new| new.contains_key(key)))
        {
            if let Some(holders) = self.holders.get_mut(&key) {
                holders.remove(path);
                if holders.is_empty() {
                    self.holders.remove(&key);
                }
            }
            self.moved.insert(key.clone());
            self.edits.note_left(key, path);
        }
    }

    /// What is held for a broken file, and has come in another, stands there now.
    fn drop_held(&mut self) {
        for key in std::mem::take(&mut self.arrived) {
            let Some(holders) = self.holders.get_mut(&key).filter(|holders| holders.len() > 1) else {
                continue;
            };
            let is_held = |path: &Arc<Path>| {
                let held = self.files.get(path).and_then(|entry| entry.objects.get(&key));
                held.is_some_and(|held| held.form == Form::Held)
            };
            let (held, read): (BTreeSet<_>, BTreeSet<_>) = holders.iter().cloned().partition(is_held);
            // Nothing was known before, so that nobody knows what came.
            if read.is_empty() || self.edits.in_force().is_empty() {
                continue;
            }
            *holders = read;
            for path in held {
                if let Some(entry) = self.files.get_mut(&path) {
                    entry.objects.remove(&key);
                }
                self.regrouped.dropped.entry(path).or_default().insert(key.clone());
            }
            self.moved.insert(key.clone());
            self.edits.note_touched(key);
        }
    }

    /// What went from one file and stands broken in another is held there.
    fn adopt_broken(&mut self) {
        let (files, holders, regrouped) = (&mut self.files, &mut self.holders, &mut self.regrouped);
        self.edits.retain_left(|key, from, in_force| {
            if holders.contains_key(key) {
                return false;
            }
            let named = |entry: &FileEntry| Some(entry.doubts.iter().find(|doubt| doubt.names(key))?.line);
            let adopter = files
                .iter_mut()
                .find_map(|(path, entry)| Some((path, named(entry)?, entry)));
            let (Some((path, line, entry)), Some(object)) = (adopter, in_force) else {
                // It may still come.
                return true;
            };
            let was = LoadedEntry {
                object: object.clone(),
                line,
                form: Form::Held,
            };
            entry.hold(key.clone(), was);
            let adopted = regrouped.adopted.entry(Arc::clone(path)).or_default();
            adopted.insert(Arc::clone(from));
            holders.entry(key.clone()).or_default().insert(Arc::clone(path));
            false
        });
    }

    /// All files are read: what came in one and is held for another, or stands broken there, is held by one of them.
    pub(super) fn regroup(&mut self) {
        self.drop_held();
        self.adopt_broken();
    }

    /// Nothing has changed for a while.
    pub(super) fn rest(&mut self) {
        self.edits.rest();
    }

    /// The one file that held last all that is gone, if anything is.
    pub(super) fn left_by(&self) -> Option<&Arc<Path>> {
        let held = Held {
            files: &self.files,
            holders: &self.holders,
        };
        self.edits.left_by(&self.edits.gone(&held))
    }

    /// What the world must be told since the last call.
    pub(super) fn take_changes(&mut self, removals: Removals) -> Vec<Change> {
        let held = Held {
            files: &self.files,
            holders: &self.holders,
        };
        self.edits.tell(&held, removals)
    }

    /// Whether something is gone and wasn't told yet.
    pub(super) fn has_removals(&self) -> bool {
        self.edits.has_removals()
    }

    /// Whether something came and wasn't told yet.
    pub(super) fn has_edits(&self) -> bool {
        self.edits.has_edits()
    }

    /// What became of held objects since the last call.
    pub(super) fn take_regrouped(&mut self) -> Regrouped {
        std::mem::take(&mut self.regrouped)
    }

    /// What is in force of a file though it doesn't stand in it.
    pub(super) fn held(&self, path: &Path) -> BTreeSet<ObjectKey> {
        let entry = self.files.get(path);
        entry.into_iter().flat_map(FileEntry::held).cloned().collect()
    }

    /// What is doubtful in a file and hides nothing.
    pub(super) fn settled(&self, path: &Path) -> Settled {
        self.files
            .get(path)
            .map(|entry| entry.settled().clone())
            .unwrap_or_default()
    }

    /// Where the objects are that came, went, or stand on another line since the last call.
    pub fn take_places(&mut self) -> Vec<(ObjectKey, Option<SourceLocation>)> {
        let moved = std::mem::take(&mut self.moved).into_iter();
        let placed = moved.map(|key| {
            let place = self.place(&key);
            (key, place)
        });
        placed.collect()
    }

    fn place(&self, key: &ObjectKey) -> Option<SourceLocation> {
        let path = self.holders.get(key)?.first()?;
        let line = self.files.get(path)?.objects.get(key)?.line;
        let file = path.display().to_string().into();
        Some(SourceLocation { file, line })
    }

    /// Everything wrong or odd, by file.
    pub fn findings(&self) -> Vec<LoadFinding> {
        let mut all: Vec<LoadFinding> = self
            .files
            .values()
            .flat_map(|entry| entry.findings.iter().cloned())
            .collect();
        for (key, holders) in self.holders.iter().filter(|(_, holders)| holders.len() > 1) {
            let mut places = holders.iter().filter_map(|path| {
                let line = self.files.get(path)?.objects.get(key)?.line;
                Some((path, line))
            });
            let Some((first, line)) = places.next() else { continue };
            for (path, own_line) in places {
                let message = in_force_elsewhere(&first.display().to_string(), line);
                all.push(LoadFinding {
                    severity: Severity::Warning,
                    file: path.display().to_string().into(),
                    line: own_line,
                    column: 1,
                    object: Some(key.clone()),
                    message,
                });
            }
        }
        all.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        all
    }

    /// How many objects are in force.
    pub fn n_objects(&self) -> usize {
        self.edits.in_force().len()
    }

    /// The paths of known files that aren't in `listed`.
    pub fn vanished(&self, listed: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        self.paths()
            .filter(|path| !listed.contains(*path))
            .map(Path::to_owned)
            .collect()
    }
}

/// A finding about a file or folder as a whole.
pub fn of_file(path: &Path, problem: &str) -> LoadFinding {
    LoadFinding {
        severity: Severity::Error,
        file: path.display().to_string().into(),
        line: 1,
        column: 1,
        object: None,
        message: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests;
