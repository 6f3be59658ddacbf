//! What every file holds, and what follows for the world: pure, so that every history of edits can be tested.
//!
//! Three rules:
//!
//! * What can't be read changes nothing: objects of a broken document, or of a file that can't be read, stay in force
//!   in their last good form until the text is whole again or the file is gone. Of a file that was broken before the
//!   controller began, that is the form in its text of before ([`kept`](super::kept)).
//! * Everything else follows at once: an object that a whole text doesn't hold any more is gone.
//! * Of the same object in two files, the one of the first path in order is in force.

use crate::state::SourceLocation;
use edge_translate::{
    Change,
    api::{Object, ObjectKey},
    load::{LoadFinding, Loaded, Severity, in_force_elsewhere},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// All files and what they hold.
#[derive(Debug, Default)]
pub struct Table {
    files: BTreeMap<Arc<Path>, FileEntry>,
    /// The files that hold an object, in order: the first is in force.
    holders: BTreeMap<ObjectKey, BTreeSet<Arc<Path>>>,
    /// What the world knows, with the file it is from.
    published: BTreeMap<ObjectKey, Object>,
    /// Objects to compare with `published`.
    touched: BTreeSet<ObjectKey>,
    /// Objects that came, went, or stand on another line.
    moved: BTreeSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct FileEntry {
    objects: BTreeMap<ObjectKey, LoadedEntry>,
    findings: Vec<LoadFinding>,
    /// Errors without an object that were there when nothing was missing: they hide nothing.
    harmless: BTreeSet<String>,
}

#[derive(Debug)]
struct LoadedEntry {
    object: Object,
    line: usize,
}

impl Table {
    /// A file was read. Says whether all that it has in force now stands in it, and nothing that it held before.
    pub fn load(&mut self, path: &Path, loaded: Loaded) -> bool {
        let path: Arc<Path> = path.into();
        let entry = self.files.entry(Arc::clone(&path)).or_default();
        let mut new: BTreeMap<ObjectKey, LoadedEntry> = BTreeMap::new();
        for found in loaded.objects {
            new.insert(
                found.object.key(),
                LoadedEntry {
                    object: found.object,
                    line: found.line,
                },
            );
        }
        let missing: Vec<ObjectKey> = entry
            .objects
            .keys()
            .filter(|key| !new.contains_key(*key))
            .cloned()
            .collect();
        let broken: BTreeSet<ObjectKey> = errors(&loaded.findings).filter_map(|f| f.object.clone()).collect();
        let nameless: BTreeSet<String> = errors(&loaded.findings)
            .filter(|f| f.object.is_none())
            .map(|f| f.message.clone())
            .collect();
        // A document that is so broken that its object can't be told may be any of the missing ones.
        let is_hiding = !missing.is_empty() && nameless.iter().any(|message| !entry.harmless.contains(message));
        let mut is_whole = true;
        for key in missing {
            if (is_hiding || broken.contains(&key))
                && let Some(held) = entry.objects.remove(&key)
            {
                new.insert(key, held);
                is_whole = false;
            }
        }
        if !is_hiding {
            entry.harmless = nameless;
        }
        entry.findings = loaded.findings;
        let old = std::mem::replace(&mut entry.objects, new);
        self.reindex(&path, old);
        is_whole
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
            self.touched.insert(key.clone());
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
                Some(_) => drop(self.touched.insert(key.clone())),
                None => {
                    self.holders.entry(key.clone()).or_default().insert(Arc::clone(path));
                    self.touched.insert(key.clone());
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
            self.touched.insert(key);
        }
    }

    /// What the world must be told since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let (mut changes, gone) = self.take_touched();
        for key in gone {
            self.published.remove(&key);
            changes.push(Change::Remove(key));
        }
        changes
    }

    /// The same without what is gone, which is told by another call unless it is back by then.
    pub fn take_changes_but_removals(&mut self) -> Vec<Change> {
        let (changes, gone) = self.take_touched();
        self.touched.extend(gone);
        changes
    }

    /// What is to be told, and what is gone of what was told.
    fn take_touched(&mut self) -> (Vec<Change>, Vec<ObjectKey>) {
        let (mut changes, mut gone) = (Vec::new(), Vec::new());
        for key in std::mem::take(&mut self.touched) {
            let winner = self.holders.get(&key).and_then(BTreeSet::first);
            let object = winner
                .and_then(|path| self.files.get(path)?.objects.get(&key))
                .map(|held| &held.object);
            match object {
                Some(object) if self.published.get(&key) == Some(object) => {}
                Some(object) => {
                    changes.push(Change::Put(object.clone()));
                    self.published.insert(key, object.clone());
                }
                None if self.published.contains_key(&key) => gone.push(key),
                None => {}
            }
        }
        (changes, gone)
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
        self.published.len()
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

fn errors(findings: &[LoadFinding]) -> impl Iterator<Item = &LoadFinding> {
    findings.iter().filter(|finding| finding.severity == Severity::Error)
}

#[cfg(test)]
mod tests;
