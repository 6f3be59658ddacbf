//! What becomes of copies: collected while files are read, and written behind that, for nobody waits for them.

use crate::error::describe;
use crate::provider::file::{
    kept::{Copy, CopyStore, InForce, Origin},
    table::{Regrouped, Table},
};
use edge_files::Stamp;
use edge_translate::load::Limits;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The copies, and what is to become of them.
#[derive(Debug)]
pub(super) struct Copies {
    pub(super) kept: CopyStore,
    /// What was read in this look, whole.
    read: BTreeMap<PathBuf, Copy>,
    /// Copies that aren't written yet.
    due: BTreeMap<PathBuf, Copy>,
    /// Files that are gone.
    gone: BTreeSet<PathBuf>,
    /// Whether those of a controller before were looked through for what has gone since.
    are_sorted: bool,
    /// The first that couldn't be written last, which is told once.
    failed: Option<PathBuf>,
}

impl Copies {
    pub(super) fn new(kept: CopyStore) -> Self {
        Self {
            kept,
            read: BTreeMap::new(),
            due: BTreeMap::new(),
            gone: BTreeSet::new(),
            are_sorted: false,
            failed: None,
        }
    }

    /// A file was read.
    pub(super) fn note_read(&mut self, path: &Path, stamp: Stamp, text: String, origin: Origin) {
        let version = stamp.text_id();
        self.read.insert(path.to_owned(), Copy { version, origin, text });
    }

    /// A file has another path now, and its copy with it.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(copy) = self.due.remove(from) {
            self.due.insert(to.to_owned(), copy);
        }
        self.kept.rename(from, to);
    }

    /// A file is gone.
    pub(super) fn note_gone(&mut self, path: PathBuf) {
        self.due.remove(&path);
        self.gone.insert(path);
    }

    /// The copy of a file, written or not.
    pub(super) fn of(&self, path: &Path) -> Option<Copy> {
        self.due.get(path).cloned().or_else(|| self.kept.copy(path))
    }

    /// Makes copies of what was read since the last call, and of what is held elsewhere now, by what is in force of it.
    pub(super) fn make(&mut self, table: &Table, regrouped: &Regrouped, limits: &Limits) {
        let mut whole = std::mem::take(&mut self.read);
        for path in regrouped.dropped.keys().chain(regrouped.adopted.keys()) {
            if !whole.contains_key(&**path)
                && let Some(copy) = self.of(path)
            {
                whole.insert(path.to_path_buf(), copy);
            }
        }
        let made = whole.into_iter().map(|(path, whole)| {
            let text = self.in_force(&path, &whole.text, table, regrouped).copy(limits);
            (path, Copy { text, ..whole })
        });
        let made: Vec<_> = made.collect();
        self.due.extend(made);
    }

    /// What is in force of a file with this text.
    fn in_force<'a>(&self, path: &Path, text: &'a str, table: &Table, regrouped: &Regrouped) -> InForce<'a> {
        let held = table.held(path);
        let others = regrouped.adopted.get(path).into_iter().flatten();
        let before = match held.is_empty() {
            true => Vec::new(),
            false => std::iter::once(path)
                .chain(others.map(|other| &**other))
                .filter_map(|path| Some(self.of(path)?.text))
                .collect(),
        };
        InForce {
            text,
            before,
            held,
            dropped: regrouped.dropped.get(path).cloned().unwrap_or_default(),
            settled: table.settled(path),
        }
    }

    /// Whether some couldn't be written, so that it has to be tried again.
    pub(super) fn are_owed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes what is to be written, and forgets what is gone. Takes a thread's time. Says whether all those of before
    /// are there.
    pub(super) fn write(&mut self, table: &Table, folders: &BTreeMap<PathBuf, String>) -> bool {
        let are_there = !self.are_sorted || self.kept.is_there() || table.paths().next().is_none();
        for path in std::mem::take(&mut self.gone) {
            if !table.knows(&path) {
                self.kept.forget(&path);
            }
        }
        if !std::mem::replace(&mut self.are_sorted, true) {
            self.kept.retain(table.paths(), folders.keys().map(PathBuf::as_path));
        }
        let mut failure = None;
        for (path, copy) in std::mem::take(&mut self.due) {
            if let Err(error) = self.kept.keep(&path, &copy) {
                failure.get_or_insert((path.clone(), error));
                self.due.insert(path, copy);
            }
        }
        for (folder, mount) in folders {
            if let Err(error) = self.kept.note_mount(folder, mount) {
                failure.get_or_insert((folder.clone(), error));
            }
        }
        match (&self.failed, &failure) {
            (None, Some((path, error))) => {
                let (file, cause) = (path.display(), describe(error));
                tracing::warn!(
                    %file, %cause,
                    "files that can be read can't be kept for a controller that begins beside broken ones; it is tried again"
                );
            }
            (Some(_), None) => {
                tracing::info!("all files are kept again for a controller that begins beside broken ones")
            }
            _ => {}
        }
        self.failed = failure.map(|(path, _)| path);
        are_there
    }
}
