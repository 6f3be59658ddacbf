//! The file provider: resources from files and folders of this machine.
//!
//! [`run`] waits for the watch to settle, lists what is there, reads what changed, and sends the difference. Looking
//! is always a comparison of everything with everything (a `stat` a file), so no sequence of events can be
//! misunderstood: atomic renames, editors that save by replacing, swapped symbolic links, folders that come later.
//! Pure parts are apart: what a set of files means is [`table`], what lies below a path is [`list`].

use crate::{
    error::describe,
    state::{Batch, Findings, Input, ProviderName},
    task::Stop,
    watch::{FolderWatch, Timing, Touch, settled},
};
use edge_translate::{
    Change,
    load::{Limits, LoadFinding, Severity, Source},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

pub mod list;
pub mod parts;
pub mod table;
#[cfg(test)]
mod tests;

use list::{Listing, Stamp, list};
use parts::Parts;
use table::{Table, of_file};

/// What this provider is called.
pub const NAME: ProviderName = ProviderName("file");

/// How often everything is looked at when some folder can't be watched.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Follows the files below `paths` until asked to stop. After the first look it is synced, whatever was found.
pub async fn run(
    mut paths: watch::Receiver<Arc<[PathBuf]>>,
    world: mpsc::Sender<Input>,
    findings: watch::Sender<Findings>,
    mut stop: Stop,
) {
    let (mut folders, mut events) = match FolderWatch::new() {
        Ok(watch) => watch,
        Err(error) => {
            tracing::error!(%error, "the system can't watch files; changes of resources will not be seen");
            return;
        }
    };
    let mut reader = Reader::default();
    let mut since = Instant::now();
    let mut is_first = true;
    loop {
        let roots = Arc::clone(&paths.borrow_and_update());
        let mut look;
        (reader, look) = match tokio::task::spawn_blocking(move || reader.look(&roots)).await {
            Ok(done) => done,
            Err(error) => return tracing::error!(%error, "reading resources failed"),
        };
        let is_new = folders.follow(&look.listing.folders);
        report(&findings, &look, &folders);
        let changes = std::mem::take(&mut look.changes);
        if !changes.is_empty() {
            tracing::info!(changes = changes.len(), objects = look.n_objects, "resources were read");
            if world.send(Input::Batch(Batch { changes, since })).await.is_err() {
                return;
            }
        }
        if std::mem::take(&mut is_first) && world.send(Input::Synced(NAME)).await.is_err() {
            return;
        }
        // Something may have happened in a folder between the look and the watch.
        let next = match is_new {
            true => Some(Instant::now()),
            false => moment(&mut paths, &look.listing, &mut folders, &mut events, &mut stop).await,
        };
        match next {
            Some(seen) => since = seen,
            None => return,
        }
    }
}

/// Waits for the moment to look again and says when its reason was seen. `None`: no more looks.
async fn moment(
    paths: &mut watch::Receiver<Arc<[PathBuf]>>,
    listing: &Listing,
    folders: &mut FolderWatch,
    events: &mut mpsc::Receiver<Touch>,
    stop: &mut Stop,
) -> Option<Instant> {
    let roots = Arc::clone(&paths.borrow());
    tokio::select! {
        () = stop.requested() => None,
        changed = paths.changed() => changed.ok().map(|()| Instant::now()),
        burst = settled(events, Timing::default(), |path| listing.concerns(&roots, path)) => {
            let burst = burst?;
            folders.forget(burst.gone());
            Some(burst.first())
        }
        () = time::sleep(LOOK_EVERY), if !folders.failed().is_empty() => Some(Instant::now()),
    }
}

impl Listing {
    /// Whether an event at a path can mean something: it lies below a watched path, leads to one, or is a file that a
    /// link leads to.
    fn concerns(&self, roots: &[PathBuf], path: &Path) -> bool {
        let target = || self.targets.iter().any(|target| target.starts_with(path));
        roots
            .iter()
            .any(|root| path.starts_with(root) || root.starts_with(path))
            || target()
    }
}

/// Publishes what is wrong, and logs what is newly so.
fn report(findings: &watch::Sender<Findings>, look: &Look, folders: &FolderWatch) {
    let mut all = look.findings.clone();
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
}

/// What a look found.
#[derive(Debug)]
struct Look {
    listing: Listing,
    changes: Vec<Change>,
    findings: Vec<LoadFinding>,
    n_objects: usize,
}

impl Reader {
    /// Lists everything and reads what changed. Takes a thread's time, hence by value: it runs on one of its own.
    fn look(mut self, roots: &[PathBuf]) -> (Self, Look) {
        let listing = list(roots);
        let listed: BTreeSet<PathBuf> = listing.files.keys().cloned().collect();
        for path in self.table.vanished(&listed) {
            if !listing.unreadable.iter().any(|problem| path.starts_with(problem)) {
                self.table.remove(&path);
                self.read.remove(&path);
                self.parts.remove(&path);
            }
        }
        for (path, stamp) in &listing.files {
            if self.read.get(path) != Some(stamp) {
                self.read(path, *stamp);
            }
        }
        let changes = self.table.take_changes();
        let mut findings = self.table.findings();
        findings.extend(listing.problems.iter().map(|(path, problem)| of_file(path, problem)));
        let n_objects = self.table.n_objects();
        (
            self,
            Look {
                listing,
                changes,
                findings,
                n_objects,
            },
        )
    }

    fn read(&mut self, path: &Path, stamp: Stamp) {
        let limits = Limits::default();
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
                    return;
                }
                Ok(Err(error)) => {
                    let at = error.utf8_error().valid_up_to();
                    format!("it is no UTF-8 text (byte {at}); save it as UTF-8")
                }
                // Removed since it was listed: the event of that leads to another look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(error) => format!(
                    "it can't be read: {}; what it held before stays in force",
                    describe(&error)
                ),
            },
            _ => format!(
                "the file has {} bytes, more than the {} that are read; split it into smaller files",
                stamp.len, limits.bytes
            ),
        };
        self.table.fail(path, &problem);
        self.read.insert(path.to_owned(), stamp);
    }
}
