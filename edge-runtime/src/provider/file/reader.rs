//! Reading: one look after another at everything that is wanted.

use super::{
    kept::{Before, CopyStore, Origin},
    parts::Parts,
    table::{Table, of_file},
};
use crate::{
    error::describe,
    state::{Coverage, SourceLocation},
    watch::{LookFindings, Waits, identity},
};
use copies::Copies;
use edge_files::{Listing, Stamp, list};
use edge_translate::{
    Change,
    api::{CustomKind, ObjectKey},
    edits::Removals,
    load::{About, Limits, LoadFinding, Loaded, Source},
};
use folders::Folders;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

mod copies;
mod folders;

/// What is known between looks.
#[derive(Debug)]
pub(super) struct Reader {
    table: Table,
    /// The version of each file that was read last.
    pub(super) read: BTreeMap<PathBuf, Stamp>,
    parts: BTreeMap<PathBuf, Parts>,
    folders: Folders,
    /// Kinds beside ours that are read.
    custom: Arc<[CustomKind]>,
    copies: Copies,
    /// Paths that can't be looked at, and of which the copies were read.
    recalled: BTreeSet<PathBuf>,
    /// Files that have been broken for as long as anybody knows, so that nobody knows what they hold.
    unknown: BTreeSet<PathBuf>,
    /// Whether all was known at the last look.
    coverage: Coverage,
    is_first: bool,
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
    /// What may not be meant as it is now.
    pub(super) waiting: LookFindings,
    /// Whether something couldn't be read for a reason that may pass without an event.
    pub(super) is_partial: bool,
    pub(super) coverage: Coverage,
}

impl Reader {
    /// Nothing is known yet but the copies of before.
    pub(super) fn new(kept: CopyStore) -> Self {
        Self {
            table: Table::default(),
            read: BTreeMap::new(),
            parts: BTreeMap::new(),
            folders: Folders::default(),
            custom: Arc::default(),
            coverage: match kept.before() {
                Before::Nothing => Coverage::Whole,
                Before::Proxies => Coverage::Partial,
            },
            copies: Copies::new(kept),
            recalled: BTreeSet::new(),
            unknown: BTreeSet::new(),
            is_first: true,
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
        if std::mem::replace(&mut self.is_first, false) {
            self.follow_before(roots, &listing);
        }
        let mut folders = std::mem::take(&mut self.folders);
        folders.follow(roots, &mut listing, |path| self.holds_below(path));
        self.folders = folders;
        self.recall_unlisted(&listing);
        let listed: BTreeSet<PathBuf> = listing.files.keys().cloned().collect();
        self.follow_renames(&listing, &listed);
        let gone = self.remove_vanished(&listing, &listed);
        let (mut waiting, is_partial) = self.read_changed(&listing, waits);
        waiting.changed.extend(gone);
        self.table.regroup();
        let changes = self.take_changes(&listing, waits, &waiting);
        waiting.has_removals = self.table.has_removals();
        waiting.has_edits = self.table.has_edits();
        let regrouped = self.table.take_regrouped();
        self.copies
            .make(&self.table, &regrouped, &Limits::with_kinds(Arc::clone(&self.custom)));
        let places = match changes.is_empty() {
            true => Vec::new(),
            false => self.table.take_places(),
        };
        let mut findings = self.table.findings();
        findings.extend(listing.problems.iter().map(|(path, problem)| of_file(path, problem)));
        let n_objects = self.table.n_objects();
        let coverage = self.judge_coverage(&listing);
        (
            self,
            Look {
                listing,
                changes,
                places,
                findings,
                n_objects,
                waiting,
                is_partial,
                coverage,
            },
        )
    }

    /// What the world is told now. What is gone from a file may come back in another, so that it waits, unless that
    /// file alone has changed and is there.
    fn take_changes(&mut self, listing: &Listing, waits: &Waits, found: &LookFindings) -> Vec<Change> {
        if waits.busy.is_empty() {
            self.table.rest();
        }
        let is_clear = |from: &Arc<Path>| {
            let written = waits.written.iter().filter(|path| listing.files.contains_key(*path));
            let mut busy = waits
                .busy
                .iter()
                .chain(&found.changed)
                .chain(&found.emptied)
                .chain(written);
            !waits.is_cut_short && listing.files.contains_key(&**from) && busy.all(|path| **path == **from)
        };
        let removals = match self.table.left_by().is_some_and(is_clear) {
            true => Removals::Tell,
            false => waits.removals.now(found),
        };
        self.table.take_changes(removals)
    }

    /// Forgets files that are gone, and says which.
    fn remove_vanished(&mut self, listing: &Listing, listed: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let is_hidden = |path: &PathBuf| listing.unreadable.iter().any(|problem| path.starts_with(problem));
        let mut gone = self.table.vanished(listed);
        gone.retain(|path| !is_hidden(path));
        for path in &gone {
            self.table.remove(path);
            self.read.remove(path);
            self.parts.remove(path);
            self.unknown.remove(path);
            self.copies.note_gone(path.clone());
        }
        gone
    }

    /// Reads files that are others than at the last look. Says what has to be waited for, and whether something
    /// couldn't be read for a reason that may pass without an event.
    fn read_changed(&mut self, listing: &Listing, waits: &Waits) -> (LookFindings, bool) {
        let mut found = LookFindings::default();
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
                found.emptied.insert(path.clone());
                continue;
            }
            match self.read(path, *stamp) {
                true => drop(found.changed.insert(path.clone())),
                false => is_partial = true,
            }
        }
        (found, is_partial)
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
            if self.unknown.remove(&from) {
                self.unknown.insert(to.clone());
            }
            self.copies.rename(&from, to);
        }
    }

    /// Takes over what a controller before has noted, renames that happened meanwhile included.
    fn follow_before(&mut self, roots: &[PathBuf], listing: &Listing) {
        let kept = &self.copies.kept;
        let mut vanished = Vec::new();
        for root in roots {
            self.folders.recall(kept.mounts(root));
            let known = kept.below(root).into_iter().chain([root.clone()]);
            vanished.extend(known.filter(|path| !listing.files.contains_key(path)));
        }
        let mut versions: BTreeMap<String, PathBuf> = BTreeMap::new();
        for path in vanished {
            if let Some(copy) = kept.copy(&path) {
                versions.insert(copy.version, path);
            }
        }
        if versions.is_empty() {
            return;
        }
        for (path, stamp) in &listing.files {
            if let Some(from) = versions.get(&stamp.text_id())
                && self.copies.of(path).is_none()
            {
                self.copies.rename(from, path);
            }
        }
    }

    /// Whether something at or below a path is in force, or was.
    fn holds_below(&self, path: &Path) -> bool {
        let kept = &self.copies.kept;
        let is_known = self.table.paths().any(|known| known.starts_with(path));
        is_known || kept.copy(path).is_some() || !kept.below(path).is_empty()
    }

    /// Whether what is in force is all that is there. What is broken and was read before is in force in that form; of a
    /// path that can't be used and a file that was always broken nobody knows what they hold.
    fn judge_coverage(&mut self, listing: &Listing) -> Coverage {
        let mut unusable = listing.problems.keys().filter(|path| !self.holds_below(path));
        self.coverage = match self.unknown.is_empty() && unusable.next().is_none() {
            true => Coverage::Whole,
            false => Coverage::Partial,
        };
        self.coverage
    }

    /// What lies at or below a path that can't be looked at is in force as it was kept, where this controller never saw
    /// it.
    fn recall_unlisted(&mut self, listing: &Listing) {
        self.recalled.retain(|path| listing.unreadable.contains(path));
        for unlisted in &listing.unreadable {
            if self.recalled.insert(unlisted.clone()) {
                self.recall(unlisted);
                for path in self.copies.kept.below(unlisted) {
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
        if let Some(copy) = self.copies.of(path) {
            if copy.origin == Origin::Unknown {
                self.unknown.insert(path.to_owned());
            }
            let loaded = self.parse(path, &copy.text);
            self.table.load(path, loaded);
        }
    }

    fn parse(&mut self, path: &Path, text: &str) -> Loaded {
        let name = path.display().to_string();
        let source = Source { name: &name, text };
        let parts = self.parts.entry(path.to_owned()).or_default();
        parts.load(&source, &Limits::with_kinds(Arc::clone(&self.custom)))
    }

    /// Writes copies of what was read. Takes a thread's time, as [`Self::look`] does.
    pub(super) fn keep(mut self) -> Self {
        if !self.copies.write(&self.table, &self.folders.notes()) {
            // Somebody has removed them: they are made anew, by another look.
            self.read.clear();
        }
        self
    }

    /// Whether there are copies that couldn't be written.
    pub(super) fn owes_copies(&self) -> bool {
        self.copies.are_owed()
    }

    /// Reads a file. Says whether that is settled: what can't be read now may be readable later without having changed.
    fn read(&mut self, path: &Path, stamp: Stamp) -> bool {
        let limits = Limits::default();
        let problem = match usize::try_from(stamp.len) {
            Ok(len) if len <= limits.bytes => match fs::read(path).map(edge_files::text) {
                Ok(Ok(text)) => {
                    self.take(path, stamp, text);
                    return true;
                }
                Ok(Err(problem)) => problem,
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

    /// Takes in the text of a file.
    fn take(&mut self, path: &Path, stamp: Stamp, text: String) {
        let loaded = self.parse(path, &text);
        if !loaded.doubts.is_empty() {
            self.recall(path);
        }
        let is_broken = loaded
            .doubts
            .iter()
            .any(|doubt| matches!(doubt.about, About::Broken(_)));
        let origin = match is_broken {
            true => self.origin(path),
            false => {
                self.unknown.remove(path);
                Origin::Known
            }
        };
        self.table.load(path, loaded);
        self.copies.note_read(path, stamp, text, origin);
        self.read.insert(path.to_owned(), stamp);
    }

    fn fail(&mut self, path: &Path, problem: &str) {
        self.recall(path);
        self.origin(path);
        self.table.fail(path, problem);
    }

    /// What is known of a file that is broken. One that came broken while all was known holds nothing that is in force.
    fn origin(&mut self, path: &Path) -> Origin {
        if !self.table.knows(path) && self.coverage == Coverage::Partial {
            self.unknown.insert(path.to_owned());
        }
        match self.unknown.contains(path) {
            true => Origin::Unknown,
            false => Origin::Known,
        }
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

#[cfg(test)]
mod tests;
