//! Reading: one look after another at everything that is wanted.

use super::{
    kept::Kept,
    parts::Parts,
    table::{Table, of_file},
};
use crate::{
    error::describe,
    state::{Coverage, SourceLocation},
    watch::{Removals, Waits, identity},
};
use edge_files::{Listing, Stamp, list};
use edge_translate::{
    Change,
    api::{CustomKind, ObjectKey},
    load::{Limits, LoadFinding, Loaded, Severity, Source},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is known between looks.
#[derive(Debug)]
pub(super) struct Reader {
    table: Table,
    /// The version of each file that was read last.
    pub(super) read: BTreeMap<PathBuf, Stamp>,
    parts: BTreeMap<PathBuf, Parts>,
    /// Watched paths that were folders at the last look that found them, each with its device.
    folders: BTreeMap<PathBuf, u64>,
    /// Kinds beside ours that are read.
    custom: Arc<[CustomKind]>,
    kept: Kept,
    /// Paths below which nothing can be listed, and of which the copies were read.
    recalled: BTreeSet<PathBuf>,
    /// What is to become of copies.
    copies: Copies,
}

/// What is to become of copies, behind a look.
#[derive(Debug, Default)]
struct Copies {
    /// Files to copy, in the version that was read.
    due: BTreeMap<PathBuf, Stamp>,
    /// Files that have another path now.
    renamed: Vec<(PathBuf, PathBuf)>,
    /// Files that are gone.
    gone: BTreeSet<PathBuf>,
    /// Whether those of a controller before were looked through for what has gone since.
    are_sorted: bool,
    /// Whether some of the last ones couldn't be made, which is told once.
    fail: bool,
}

/// What a look found.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) listing: Listing,
    pub(super) changes: Vec<Change>,
    /// They go with changes: alone they say nothing new about an object.
    pub(super) places: Vec<(ObjectKey, Option<SourceLocation>)>,
    pub(super) findings: Vec<LoadFinding>,
    pub(super) n_objects: usize,
    /// Files that held objects and are empty now; whether that is meant is not known yet.
    pub(super) emptied: BTreeSet<PathBuf>,
    /// Whether something couldn't be read for a reason that may pass without an event.
    pub(super) is_partial: bool,
}

impl Look {
    /// A path that isn't there, a file that can't be read and an object that is none hold who knows what.
    pub(super) fn coverage(&self) -> Coverage {
        match self.findings.iter().any(|finding| finding.severity == Severity::Error) {
            true => Coverage::Partial,
            false => Coverage::Whole,
        }
    }
}

/// Why a folder is taken for gone, and how to say that it is meant.
const MOVED: &str = "the folder is gone; what it held stays in force until it is back. To remove its objects, remove the files \
                     from it, or the folder from the configuration";
const UNMOUNTED: &str = "the folder is empty and on another device than before, as where nothing is mounted; what it held stays in \
                         force until it is back. If it is meant to be empty, put any file into it";

impl Reader {
    /// Nothing is known yet but the copies of before.
    pub(super) fn new(kept: Kept) -> Self {
        Self {
            table: Table::default(),
            read: BTreeMap::new(),
            parts: BTreeMap::new(),
            folders: BTreeMap::new(),
            custom: Arc::default(),
            kept,
            recalled: BTreeSet::new(),
            copies: Copies::default(),
        }
    }

    /// Where other kinds are wanted than before, every file may hold some that were left out.
    pub(super) fn follow_kinds(&mut self, custom: Arc<[CustomKind]>) {
        if self.custom != custom {
            self.custom = custom;
            self.read.clear();
            self.parts.clear();
        }
    }

    /// Lists everything and reads what changed. Takes a thread's time, hence by value: it runs on one of its own.
    pub(super) fn look(mut self, roots: &[PathBuf], waits: &Waits) -> (Self, Look) {
        let mut listing = list_at_rest(roots);
        self.keep_vanished(roots, &mut listing);
        self.recall_unlisted(&listing);
        let listed: BTreeSet<PathBuf> = listing.files.keys().cloned().collect();
        self.follow_renames(&listing, &listed);
        for path in self.table.vanished(&listed) {
            if !listing.unreadable.iter().any(|problem| path.starts_with(problem)) {
                self.table.remove(&path);
                self.read.remove(&path);
                self.parts.remove(&path);
                self.copies.gone.insert(path);
            }
        }
        let mut emptied = BTreeSet::new();
        let mut is_partial = listing.is_partial;
        for (path, stamp) in &listing.files {
            if self.read.get(path) == Some(stamp) || waits.is_written(path) {
                continue;
            }
            if stamp.len == 0 {
                // Whoever saves by truncating first may do so at the start, too.
                self.recall(path);
            }
            if stamp.len == 0 && self.table.holds_something(path) && !waits.empty.contains(path) {
                emptied.insert(path.clone());
                continue;
            }
            is_partial |= !self.read(path, *stamp);
        }
        let changes = match waits.removals {
            Removals::Told => self.table.take_changes(),
            Removals::Wait => self.table.take_changes_but_removals(),
        };
        let places = match changes.is_empty() {
            true => Vec::new(),
            false => self.table.take_places(),
        };
        let mut findings = self.table.findings();
        findings.extend(listing.problems.iter().map(|(path, problem)| of_file(path, problem)));
        let n_objects = self.table.n_objects();
        (
            self,
            Look {
                listing,
                changes,
                places,
                findings,
                n_objects,
                emptied,
                is_partial,
            },
        )
    }

    /// A file that was renamed is the same file, which counts where it can't be read now.
    fn follow_renames(&mut self, listing: &Listing, listed: &BTreeSet<PathBuf>) {
        let vanished = self.table.vanished(listed);
        if vanished.is_empty() {
            return;
        }
        let mut new: Vec<_> = listing
            .files
            .iter()
            .filter(|(path, _)| !self.table.knows(path))
            .collect();
        for from in vanished {
            let Some(old) = self.read.get(&from) else { continue };
            let Some(at) = new.iter().position(|(_, stamp)| stamp.is_of_same_text(old)) else {
                continue;
            };
            let (to, _) = new.swap_remove(at);
            self.table.rename(&from, to);
            self.read.remove(&from);
            if let Some(parts) = self.parts.remove(&from) {
                self.parts.insert(to.clone(), parts);
            }
            self.copies.renamed.push((from, to.clone()));
        }
    }

    /// A watched folder that is gone is most likely moved, or not mounted: its files aren't taken for removed. Where it
    /// isn't mounted there is often an empty folder, of another device.
    fn keep_vanished(&mut self, roots: &[PathBuf], listing: &mut Listing) {
        self.folders.retain(|folder, _| roots.contains(folder));
        for root in roots {
            let is_held = self.holds_below(root);
            let before = self.folders.get(root).copied();
            let before = before.or_else(|| self.kept.device(root).filter(|_| is_held));
            // It may be named by a link, or with dots in it.
            let is_there = root.canonicalize().is_ok_and(|real| listing.folders.contains(&real));
            let problem = match (before, fs::metadata(root)) {
                (_, Ok(now)) if !now.is_dir() => {
                    self.folders.remove(root);
                    continue;
                }
                (Some(before), Ok(now)) if is_there && is_held && before != now.dev() && is_empty(root) => UNMOUNTED,
                (_, Ok(now)) if is_there => {
                    self.folders.insert(root.clone(), now.dev());
                    continue;
                }
                (Some(_), _) if listing.problems.contains_key(root) => MOVED,
                _ => continue,
            };
            self.folders.extend(before.map(|device| (root.clone(), device)));
            listing.problems.insert(root.clone(), problem.into());
            listing.unreadable.insert(root.clone());
        }
    }

    /// Whether something below a folder is in force, or was.
    fn holds_below(&self, folder: &Path) -> bool {
        self.table.paths().any(|path| path.starts_with(folder)) || !self.kept.below(folder).is_empty()
    }

    /// What lies at or below a path that can't be listed is in force as it was kept, where this controller never saw
    /// it.
    fn recall_unlisted(&mut self, listing: &Listing) {
        self.recalled.retain(|path| listing.unreadable.contains(path));
        for unlisted in &listing.unreadable {
            if self.recalled.insert(unlisted.clone()) {
                self.recall(unlisted);
                for path in self.kept.below(unlisted) {
                    self.recall(&path);
                }
            }
        }
    }

    /// Takes a file that isn't known yet as it was kept.
    fn recall(&mut self, path: &Path) {
        if self.table.knows(path) {
            return;
        }
        if let Some(text) = self.kept.text(path) {
            let loaded = self.parse(path, &text);
            self.table.load(path, loaded);
        }
    }

    fn parse(&mut self, path: &Path, text: &str) -> Loaded {
        let name = path.display().to_string();
        let source = Source { name: &name, text };
        let parts = self.parts.entry(path.to_owned()).or_default();
        parts.load(&source, &Limits::with_kinds(Arc::clone(&self.custom)))
    }

    /// Brings copies in line with what was read. Takes a thread's time, as [`Self::look`] does.
    pub(super) fn keep(mut self) -> Self {
        let Copies {
            due,
            renamed,
            gone,
            are_sorted,
            ..
        } = &mut self.copies;
        let (due, renamed, gone) = (std::mem::take(due), std::mem::take(renamed), std::mem::take(gone));
        for (from, to) in &renamed {
            self.kept.rename(from, to);
        }
        for path in gone.iter().filter(|path| !self.table.knows(path)) {
            self.kept.forget(path);
        }
        if !std::mem::replace(are_sorted, true) {
            let folders = self.folders.keys().map(PathBuf::as_path);
            self.kept.retain(self.table.paths(), folders);
        }
        let mut failure = None;
        for (path, stamp) in due {
            match self.kept.keep(&path, stamp) {
                // It is gone again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    failure = failure.or(Some(error));
                    self.copies.due.insert(path, stamp);
                }
                Ok(()) => {}
            }
        }
        for (folder, device) in &self.folders {
            failure = failure.or(self.kept.note_device(folder, *device).err());
        }
        if let Some(error) = &failure
            && !self.copies.fail
        {
            let cause = describe(error);
            tracing::warn!(%cause, "files that can be read can't be kept for a controller that begins beside broken ones");
        }
        self.copies.fail = failure.is_some();
        self
    }

    /// Reads a file. Says whether that is settled: what can't be read now may be readable later without having changed.
    fn read(&mut self, path: &Path, stamp: Stamp) -> bool {
        let limits = Limits::default();
        let problem = match usize::try_from(stamp.len) {
            Ok(len) if len <= limits.bytes => match fs::read(path).map(String::from_utf8) {
                Ok(Ok(text)) => {
                    let loaded = self.parse(path, &text);
                    if loaded
                        .findings
                        .iter()
                        .any(|finding| finding.severity == Severity::Error)
                    {
                        self.recall(path);
                    }
                    if self.table.load(path, loaded) {
                        self.copies.due.insert(path.to_owned(), stamp);
                    }
                    self.read.insert(path.to_owned(), stamp);
                    return true;
                }
                Ok(Err(error)) => {
                    let at = error.utf8_error().valid_up_to();
                    format!("it is no UTF-8 text (byte {at}); save it as UTF-8")
                }
                // Removed since it was listed: the event of that leads to another look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                Err(error) => {
                    let cause = describe(&error);
                    let problem = format!("it can't be read: {cause}; what it held before stays in force");
                    self.fail(path, &problem);
                    return false;
                }
            },
            _ => format!(
                "the file has {} bytes, more than the {} that are read; split it into smaller files",
                stamp.len, limits.bytes
            ),
        };
        self.fail(path, &problem);
        self.read.insert(path.to_owned(), stamp);
        true
    }

    fn fail(&mut self, path: &Path, problem: &str) {
        self.recall(path);
        self.table.fail(path, problem);
    }
}

/// Lists what is there, again where something is mounted meanwhile: half of it would be the folder below.
fn list_at_rest(roots: &[PathBuf]) -> Listing {
    let identities = || roots.iter().map(|root| identity(root)).collect::<Vec<_>>();
    let mut before = identities();
    loop {
        let listing = list(roots);
        let now = identities();
        if now == before {
            return listing;
        }
        before = now;
    }
}

/// Whether there is nothing at all in a folder.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}
