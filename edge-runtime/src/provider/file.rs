//! The file provider: resources from files and folders of this machine.
//!
//! [`run`] waits for the watch to settle, lists what is there, reads what changed, and sends the difference. Looking
//! is always a comparison of everything with everything (a `stat` a file), so no sequence of events can be
//! misunderstood: atomic renames, editors that save by replacing, swapped symbolic links, folders that come later.
//! What doesn't look finished, or can't be read for a reason that passes, is looked at again. Parts are apart: what a
//! set of files means is [`table`], what lies below a path is [`edge_files`], reading is [`reader`], and what the next
//! controller is to know of a file that is broken is [`kept`].

use crate::{
    due,
    state::{Batch, Findings, Input, ProviderName},
    task::Stop,
    watch::{FolderWatch, LOOK_EVERY, Patience, Timing, settled},
};
use edge_files::Listing;
use edge_translate::{
    api::CustomKind,
    load::{LoadFinding, Severity},
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

mod judgement;
pub mod kept;
pub mod parts;
mod reader;
pub mod table;
#[cfg(test)]
mod tests;

use judgement::Judgement;
use kept::CopyStore;
use reader::{Look, Reader};
use table::of_file;

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
/// something can't be read it says so, and again when everything can. Of what can be read a copy is `kept`.
pub async fn run(
    mut wanted: watch::Receiver<FileSources>,
    kept: CopyStore,
    world: mpsc::Sender<Input>,
    findings: watch::Sender<Findings>,
    mut stop: Stop,
) {
    let (mut folders, mut events) = FolderWatch::new();
    let mut reader = Reader::new(kept);
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
        patience.note_found(std::mem::take(&mut look.waiting), Instant::now());
        if tell(&world, &mut look, since).await.is_err() {
            return;
        }
        let coverage = look.coverage;
        if told.replace(coverage) != Some(coverage) && world.send(Input::Synced(NAME, coverage)).await.is_err() {
            return;
        }
        judgement.follow(&look.listing.files);
        // Behind what was sent: nobody waits for copies.
        reader = match tokio::task::spawn_blocking(move || reader.keep()).await {
            Ok(reader) => reader,
            Err(error) => return tracing::error!(%error, "keeping resources failed"),
        };
        // Something may have happened in a folder between the look and the watch.
        if is_new {
            since = Instant::now();
            continue;
        }
        let is_partial = folders.is_partial() || look.is_partial || reader.owes_copies();
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
                // What is mounted, or isn't any more, causes no event.
                () = time::sleep(LOOK_EVERY) => match is_partial || folders.forget_replaced().await {
                    true => since = Instant::now(),
                    false => continue,
                },
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

/// Tells the world what a look has found. An error: nobody listens any more.
async fn tell(
    world: &mpsc::Sender<Input>,
    look: &mut Look,
    since: Instant,
) -> Result<(), mpsc::error::SendError<Input>> {
    let changes = std::mem::take(&mut look.changes);
    if changes.is_empty() {
        return Ok(());
    }
    tracing::info!(changes = changes.len(), objects = look.n_objects, "resources were read");
    let batch = Batch {
        changes,
        places: std::mem::take(&mut look.places),
        since,
    };
    world.send(Input::Batch(batch)).await
}

/// Whether an event at a path can mean something: it lies below a watched path, or below what a link leads to, or leads
/// to one.
fn concerns(listing: &Listing, roots: &[PathBuf], path: &Path) -> bool {
    let mut places = roots.iter().chain(&listing.targets);
    places.any(|place| path.starts_with(place) || place.starts_with(path))
}

/// Publishes what is wrong, and logs what is newly so.
fn report(findings: &watch::Sender<Findings>, look: &Look, folders: &FolderWatch, judgement: &Judgement) {
    let known = Arc::clone(&findings.borrow());
    let mut all = look.findings.clone();
    all.extend(judgement.findings(&look.findings, &look.listing.files, &known));
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
        let is_error = |finding: &&LoadFinding| finding.severity == Severity::Error;
        let files = |list: &[LoadFinding]| -> BTreeSet<Arc<str>> {
            list.iter()
                .filter(is_error)
                .map(|finding| Arc::clone(&finding.file))
                .collect()
        };
        // Of what is gone, nothing has become good.
        let is_there = |file: &&Arc<str>| {
            let path = Path::new(&***file);
            look.listing.files.contains_key(path) || look.listing.folders.contains(path)
        };
        for file in files(known).difference(&files(&all)).filter(is_there) {
            tracing::info!("{file}: all right again");
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
