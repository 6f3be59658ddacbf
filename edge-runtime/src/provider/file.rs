//! The file provider: resources from files and folders of this machine.
//!
//! [`run`] waits for the watch to settle, lists what is there, reads what changed, and sends the difference. Looking
//! is always a comparison of everything with everything (a `stat` a file), so no sequence of events can be
//! misunderstood: atomic renames, editors that save by replacing, swapped symbolic links, folders that come later.
//! What doesn't look finished, or can't be read for a reason that passes, is looked at again. Pure parts are apart: what
//! a set of files means is [`table`], what lies below a path is [`edge_files`].

use crate::{
    due,
    error::describe,
    state::{Batch, Coverage, Findings, Input, ProviderName, SourceLocation},
    task::Stop,
    watch::{FolderWatch, LOOK_EVERY, Patience, Timing, Waits, settled},
};
use edge_files::{Listing, Stamp, list};
use edge_translate::{
    Change,
    api::{CustomKind, ObjectKey},
    load::{Limits, LoadFinding, Severity, Source},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

mod judgement;
pub mod parts;
pub mod table;
#[cfg(test)]
mod tests;

use judgement::Judgement;
use parts::Parts;
use table::{Table, of_file};

/// What this provider is called.
pub const NAME: ProviderName = ProviderName("file");

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSources {
    /// Files, and folders.
    pub paths: Arc<[PathBuf]>,
    /// Kinds beside ours.
    pub custom: Arc<[CustomKind]>,
}

/// Follows the files that are wanted until asked to stop. After the first look it is synced, whatever was found; when
/// something can't be read it says so, and again when everything can.
pub async fn run(
    mut wanted: watch::Receiver<FileSources>,
    world: mpsc::Sender<Input>,
    findings: watch::Sender<Findings>,
    mut stop: Stop,
) {
    let (mut folders, mut events) = FolderWatch::new();
    let mut reader = Reader::default();
    let mut patience = Patience::default();
    let mut judgement = Judgement::default();
    let mut since = Instant::now();
    let mut told = None;
    loop {
        let FileSources { paths: roots, custom } = wanted.borrow_and_update().clone();
        reader.follow_kinds(custom);
        let mut look;
        let waits = patience.waits(Instant::now());
        let looked_at = Arc::clone(&roots);
        (reader, look) = match tokio::task::spawn_blocking(move || reader.look(&looked_at, &waits)).await {
            Ok(done) => done,
            Err(error) => return tracing::error!(%error, "reading resources failed"),
        };
        let is_new = folders.follow(&look.listing.folders);
        report(&findings, &look, &folders, &judgement);
        patience.note_emptied(std::mem::take(&mut look.emptied), Instant::now());
        let changes = std::mem::take(&mut look.changes);
        if !changes.is_empty() {
            tracing::info!(changes = changes.len(), objects = look.n_objects, "resources were read");
            let batch = Batch {
                changes,
                places: std::mem::take(&mut look.places),
                since,
            };
            if world.send(Input::Batch(batch)).await.is_err() {
                return;
            }
        }
        let coverage = look.coverage();
        if told.replace(coverage) != Some(coverage) && world.send(Input::Synced(NAME, coverage)).await.is_err() {
            return;
        }
        judgement.follow(&look.listing.files);
        // Something may have happened in a folder between the look and the watch.
        if is_new {
            since = Instant::now();
            continue;
        }
        let is_partial = folders.is_partial() || look.is_partial;
        let relevant = |path: &Path| concerns(&look.listing, &roots, path);
        let mut burst = pin!(settled(&mut events, Timing::default(), relevant));
        loop {
            tokio::select! {
                () = stop.requested() => return,
                changed = wanted.changed() => match changed {
                    Ok(()) => since = Instant::now(),
                    Err(_) => return,
                },
                burst = &mut burst => {
                    let Some(burst) = burst else { return };
                    folders.forget(&burst);
                    patience.note(&burst, Instant::now());
                    since = burst.first();
                }
                () = due::at(patience.next()) => since = Instant::now(),
                () = time::sleep(LOOK_EVERY), if is_partial => since = Instant::now(),
                // Says nothing of the files themselves, which may just be written: no reason to look.
                () = judgement.made() => {
                    report(&findings, &look, &folders, &judgement);
                    judgement.follow(&look.listing.files);
                    continue;
                }
            }
            break;
        }
    }
}

/// Whether an event at a path can mean something: it lies below a watched path, or below what a link leads to, or leads to
/// one.
fn concerns(listing: &Listing, roots: &[PathBuf], path: &Path) -> bool {
    let mut places = roots.iter().chain(&listing.targets);
    places.any(|place| path.starts_with(place) || place.starts_with(path))
}

/// Publishes what is wrong, and logs what is newly so.
fn report(findings: &watch::Sender<Findings>, look: &Look, folders: &FolderWatch, judgement: &Judgement) {
    let mut all = look.findings.clone();
    all.extend(judgement.findings(&look.findings));
    for (folder, reason) in folders.failed() {
        all.push(of_file(
            folder,
            &format!("the folder can't be watched ({reason}); it is looked at every 2 s instead"),
        ));
    }
    findings.send_if_modified(|known| {
        if **known == all {
            return false;
        }
        for finding in all.iter().filter(|finding| !known.contains(finding)) {
            match finding.severity {
                Severity::Error => tracing::error!("{finding}"),
                Severity::Warning => tracing::warn!("{finding}"),
            }
        }
        *known = Arc::new(all);
        true
    });
}

/// What is known between looks.
#[derive(Debug, Default)]
struct Reader {
    table: Table,
    /// The version of each file that was read last.
    read: BTreeMap<PathBuf, Stamp>,
    parts: BTreeMap<PathBuf, Parts>,
    /// Watched paths that were folders at the last look that found them.
    folders: BTreeSet<PathBuf>,
    /// Kinds beside ours that are read.
    custom: Arc<[CustomKind]>,
}

/// What a look found.
#[derive(Debug)]
struct Look {
    listing: Listing,
    changes: Vec<Change>,
    /// They go with changes: alone they say nothing new about an object.
    places: Vec<(ObjectKey, Option<SourceLocation>)>,
    findings: Vec<LoadFinding>,
    n_objects: usize,
    /// Files that held objects and are empty now; whether that is meant is not known yet.
    emptied: BTreeSet<PathBuf>,
    /// Whether something couldn't be read for a reason that may pass without an event.
    is_partial: bool,
}

impl Look {
    /// A path that isn't there, a file that can't be read and an object that is none hold who knows what.
    fn coverage(&self) -> Coverage {
        match self.findings.iter().any(|finding| finding.severity == Severity::Error) {
            true => Coverage::Partial,
            false => Coverage::Whole,
        }
    }
}

impl Reader {
    /// Where other kinds are wanted than before, every file may hold some that were left out.
    fn follow_kinds(&mut self, custom: Arc<[CustomKind]>) {
        if self.custom != custom {
            self.custom = custom;
            self.read.clear();
            self.parts.clear();
        }
    }

    /// Lists everything and reads what changed. Takes a thread's time, hence by value: it runs on one of its own.
    fn look(mut self, roots: &[PathBuf], waits: &Waits) -> (Self, Look) {
        let mut listing = list(roots);
        self.keep_vanished(roots, &mut listing);
        let listed: BTreeSet<PathBuf> = listing.files.keys().cloned().collect();
        for path in self.table.vanished(&listed) {
            if !listing.unreadable.iter().any(|problem| path.starts_with(problem)) {
                self.table.remove(&path);
                self.read.remove(&path);
                self.parts.remove(&path);
            }
        }
        let mut emptied = BTreeSet::new();
        let mut is_partial = listing.is_partial;
        for (path, stamp) in &listing.files {
            if self.read.get(path) == Some(stamp) || waits.is_written(path) {
                continue;
            }
            if stamp.len == 0 && self.table.holds_something(path) && !waits.empty.contains(path) {
                emptied.insert(path.clone());
                continue;
            }
            is_partial |= !self.read(path, *stamp);
        }
        let changes = self.table.take_changes();
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

    /// A watched folder that is gone is most likely moved, or not mounted: its files aren't taken for removed.
    fn keep_vanished(&mut self, roots: &[PathBuf], listing: &mut Listing) {
        self.folders.retain(|folder| roots.contains(folder));
        for root in roots {
            // It may be named by a link, or with dots in it.
            if root.canonicalize().is_ok_and(|real| listing.folders.contains(&real)) {
                self.folders.insert(root.clone());
            } else if listing.problems.contains_key(root) && self.folders.contains(root) {
                let problem = "the folder is gone; what it held stays in force until it is back. To remove its objects, \
                               remove the files from it, or the folder from the configuration";
                listing.problems.insert(root.clone(), problem.into());
                listing.unreadable.insert(root.clone());
            }
        }
    }

    /// Reads a file. Says whether that is settled: what can't be read now may be readable later without having changed.
    fn read(&mut self, path: &Path, stamp: Stamp) -> bool {
        let limits = Limits::with_kinds(Arc::clone(&self.custom));
        let problem = match usize::try_from(stamp.len) {
            Ok(len) if len <= limits.bytes => match fs::read(path).map(String::from_utf8) {
                Ok(Ok(text)) => {
                    let name = path.display().to_string();
                    let source = Source {
                        name: &name,
                        text: &text,
                    };
                    let parts = self.parts.entry(path.to_owned()).or_default();
                    self.table.load(path, parts.load(&source, &limits));
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
                    self.table.fail(path, &problem);
                    return false;
                }
            },
            _ => format!(
                "the file has {} bytes, more than the {} that are read; split it into smaller files",
                stamp.len, limits.bytes
            ),
        };
        self.table.fail(path, &problem);
        self.read.insert(path.to_owned(), stamp);
        true
    }
}
