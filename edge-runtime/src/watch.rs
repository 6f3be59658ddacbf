//! Watching folders: raw events of the file system become "now is a good time to look".
//!
//! What exactly happened is of no interest, because whoever looks compares with what it knew. Events only decide
//! *when*: after 10 ms of quiet, 200 ms after the first one at the latest, and not while a file is in the middle of
//! being written. Folders are watched one by one and not recursively: the caller walks them anyway, knows symbolic
//! links and their loops, and says after each walk which folders matter.

use crate::due;
use notify::{
    Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{self, error::TrySendError};

mod patience;
mod settle;

#[cfg(test)]
pub(crate) use patience::RemovalWait;
pub(crate) use patience::{LookFindings, Patience, Waits};
pub use settle::{Settling, Timing};

/// Events that wait to be looked at. When it is full, events are dropped, and it is noted that some are missing.
const QUEUE: usize = 1024;

/// How often to look when events alone don't tell every change.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Something happened to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The path; `None`: events were lost, anything may have happened.
    pub path: Option<PathBuf>,
    /// What it means for the moment to look.
    pub stage: Stage,
}

/// Where in its life a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being written: more will follow.
    Writing,
    /// Whoever wrote it has closed it.
    Closed,
    /// It came, changed or moved as a whole.
    Whole,
    /// It is gone from this path.
    Gone,
}

/// Watches a changing set of folders.
#[derive(Debug)]
pub struct FolderWatch {
    /// None, and why, where the system can't watch at all.
    watcher: Result<RecommendedWatcher, String>,
    /// Keeps the channel open where there is no watcher.
    _events: mpsc::Sender<Touch>,
    /// Whether events were dropped because too many waited.
    dropped: Arc<AtomicBool>,
    /// Each with what it was when its watch began.
    watched: BTreeMap<PathBuf, Identity>,
    failed: BTreeMap<PathBuf, String>,
    /// Folders whose changes the system tells in part: those of other machines are missing.
    remote: BTreeSet<PathBuf>,
}

impl FolderWatch {
    /// A watch on nothing yet, and its events. Where the system can't watch, every folder is one that
    /// [has failed](Self::failed), and there are no events.
    pub fn new() -> (Self, mpsc::Receiver<Touch>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&dropped);
        let events = sender.clone();
        let watcher = RecommendedWatcher::new(
            move |event: notify::Result<Event>| {
                for touch in touches(event) {
                    // Closed: nobody looks any more.
                    if let Err(TrySendError::Full(_)) = sender.try_send(touch) {
                        full.store(true, Ordering::Relaxed);
                    }
                }
            },
            Config::default().with_follow_symlinks(false),
        );
        let watch = Self {
            watcher: watcher.map_err(|error| reason(&error)),
            _events: events,
            dropped,
            watched: BTreeMap::new(),
            failed: BTreeMap::new(),
            remote: BTreeSet::new(),
        };
        (watch, receiver)
    }

    /// Watches exactly these folders. Says whether a watch is new, in which case the caller must look again: something
    /// may have happened before it was there.
    pub fn follow(&mut self, folders: &BTreeSet<PathBuf>) -> bool {
        let gone: Vec<PathBuf> = self
            .watched
            .keys()
            .filter(|folder| !folders.contains(*folder))
            .cloned()
            .collect();
        for folder in gone {
            self.unwatch(&folder);
        }
        self.failed.retain(|folder, _| folders.contains(folder));
        let mut is_new = false;
        for folder in folders {
            if self.watched.contains_key(folder) {
                continue;
            }
            // Before the watch begins: what takes its place meanwhile is noticed later.
            let identity = identity(folder);
            let watched = match &mut self.watcher {
                Ok(watcher) => watcher
                    .watch(folder, RecursiveMode::NonRecursive)
                    .map_err(|error| reason(&error)),
                Err(reason) => Err(reason.clone()),
            };
            match watched {
                Ok(()) => {
                    self.watched.insert(folder.clone(), identity);
                    if is_remote(folder) {
                        self.remote.insert(folder.clone());
                    }
                    self.failed.remove(folder);
                    is_new = true;
                }
                Err(reason) => drop(self.failed.insert(folder.clone(), reason)),
            }
        }
        is_new
    }

    /// Forgets folders that were removed or moved in a burst, so that they are watched anew if they come back. When
    /// events were lost, that may be any of them.
    pub fn forget(&mut self, burst: &Settling) {
        let is_any = self.dropped.swap(false, Ordering::Relaxed) || burst.is_lossy();
        let is_gone = |folder: &&PathBuf| is_any || burst.gone().iter().any(|path| folder.starts_with(path));
        let lost: Vec<PathBuf> = self.watched.keys().filter(is_gone).cloned().collect();
        for folder in lost {
            self.unwatch(&folder);
        }
    }

    /// Forgets folders in whose place there is another by now, so that that is watched: something was mounted there, or
    /// isn't any more, which the system tells nobody. Says whether there is one.
    pub async fn forget_replaced(&mut self) -> bool {
        let watched = self.watched.clone();
        // The system may take its time to answer for a folder of another machine.
        let replaced = tokio::task::spawn_blocking(move || {
            let is_other = |(folder, known): &(PathBuf, Identity)| identity(folder) != *known;
            watched.into_iter().filter(is_other).map(|(folder, _)| folder).collect()
        });
        let replaced: Vec<PathBuf> = replaced.await.unwrap_or_default();
        for folder in &replaced {
            self.unwatch(folder);
        }
        !replaced.is_empty()
    }

    fn unwatch(&mut self, folder: &Path) {
        if let Ok(watcher) = &mut self.watcher {
            // A folder that was removed has no watch any more.
            let _ = watcher.unwatch(folder);
        }
        self.watched.remove(folder);
        self.remote.remove(folder);
    }

    /// Whether events alone don't tell every change, so that the caller must look from time to time.
    pub fn is_partial(&self) -> bool {
        !self.failed.is_empty() || !self.remote.is_empty()
    }

    /// Folders that can't be watched, and why.
    pub fn failed(&self) -> &BTreeMap<PathBuf, String> {
        &self.failed
    }
}

/// What tells a folder from another of the same path: device and number. None where there is no folder.
pub(crate) type Identity = Option<(u64, u64)>;

pub(crate) fn identity(folder: &Path) -> Identity {
    let metadata = fs::metadata(folder).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn reason(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the system's limit of watched folders is reached; raise fs.inotify.max_user_watches".into()
        }
        notify::ErrorKind::Io(error) => crate::error::describe(error),
        notify::ErrorKind::PathNotFound => "it doesn't exist".into(),
        _ => error.to_string(),
    }
}

/// File systems that other machines write to, or a program behind FUSE: what happens there causes no events here.
const REMOTE: [u32; 8] = [
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x0102_1997, // 9P
    0x00c3_6400, // Ceph
    0x5346_414f, // AFS
    0x6573_5546, // FUSE
];

#[cfg(target_os = "linux")]
fn is_remote(folder: &Path) -> bool {
    // The number has 32 bits; some systems keep it in a signed word.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the low 32 bits are the number"
    )]
    rustix::fs::statfs(folder).is_ok_and(|found| REMOTE.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_remote(_: &Path) -> bool {
    false
}

fn touches(event: notify::Result<Event>) -> Vec<Touch> {
    let lost = || {
        vec![Touch {
            path: None,
            stage: Stage::Whole,
        }]
    };
    let Ok(event) = event else { return lost() };
    if event.need_rescan() {
        return lost();
    }
    let stage = match event.kind {
        // Reading, by us above all, changes nothing.
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Stage::Closed,
        EventKind::Access(_) => return Vec::new(),
        EventKind::Modify(ModifyKind::Data(_)) => Stage::Writing,
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(notify::event::RenameMode::From)) => Stage::Gone,
        _ => Stage::Whole,
    };
    event
        .paths
        .into_iter()
        .map(|path| Touch {
            path: Some(path),
            stage,
        })
        .collect()
}

/// Waits until something relevant happened and settled. `None` when the watch is gone.
pub async fn settled(
    events: &mut mpsc::Receiver<Touch>,
    timing: Timing,
    is_relevant: impl Fn(&Path) -> bool,
) -> Option<Settling> {
    let mut settling: Option<Settling> = None;
    loop {
        let due = settling.as_ref().map(Settling::due);
        let touch = tokio::select! {
            biased;
            touch = events.recv() => touch?,
            () = due::at(due) => return settling,
        };
        if touch.path.as_deref().is_none_or(&is_relevant) {
            let now = tokio::time::Instant::now();
            settling
                .get_or_insert_with(|| Settling::new(timing, now))
                .note(touch, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_written_in_a_watched_folder_are_noticed_and_reading_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (mut watch, mut events) = FolderWatch::new();
        assert!(watch.follow(&[folder.path().to_owned()].into()));
        assert!(!watch.follow(&[folder.path().to_owned()].into()), "watched already");
        fs::write(folder.path().join("other"), "x").unwrap();
        fs::write(folder.path().join("a"), "x").unwrap();
        let settling = settled(&mut events, Timing::default(), |path| path.ends_with("a"))
            .await
            .unwrap();
        assert!(settling.gone().is_empty());
        fs::read(folder.path().join("a")).unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        let settling = settled(&mut events, Timing::default(), |path| path.ends_with("a"))
            .await
            .unwrap();
        assert_eq!(settling.gone(), &[folder.path().join("a")].into());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_watched_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (mut watch, _events) = FolderWatch::new();
        let missing = folder.path().join("missing");
        assert!(!watch.follow(&[missing.clone()].into()));
        assert_eq!(
            watch.failed().get(&missing).map(String::as_str),
            Some("it doesn't exist")
        );
        fs::create_dir(&missing).unwrap();
        assert!(watch.follow(&[missing].into()));
        assert!(watch.failed().is_empty());
    }

    #[tokio::test]
    async fn after_lost_events_every_folder_is_watched_anew() {
        let folder = tempfile::tempdir().unwrap();
        let folders: BTreeSet<PathBuf> = [folder.path().to_owned()].into();
        let (mut watch, mut events) = FolderWatch::new();
        watch.follow(&folders);
        let mut lossy = Settling::new(Timing::default(), tokio::time::Instant::now());
        watch.forget(&lossy);
        assert!(!watch.follow(&folders), "nothing was lost");
        let overflow = Touch {
            path: None,
            stage: Stage::Whole,
        };
        lossy.note(overflow, tokio::time::Instant::now());
        watch.forget(&lossy);
        assert!(watch.follow(&folders), "the system's queue was full");

        // Nobody looks while more happens than the queue holds.
        for n in 0..=QUEUE {
            fs::write(folder.path().join("a"), n.to_string()).unwrap();
        }
        while !watch.dropped.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        let burst = settled(&mut events, Timing::default(), |_| true).await.unwrap();
        assert!(burst.gone().is_empty());
        watch.forget(&burst);
        assert!(watch.follow(&folders), "our own queue was full");
    }

    #[tokio::test]
    async fn another_folder_in_the_place_of_one_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        fs::create_dir(&here).unwrap();
        fs::create_dir(&there).unwrap();
        let (mut watch, mut events) = FolderWatch::new();
        watch.follow(&[here.clone()].into());
        assert!(!watch.forget_replaced().await);
        // As by a mount: the path stays, and nobody who watches it is told.
        fs::rename(&here, folder.path().join("away")).unwrap();
        fs::rename(&there, &here).unwrap();
        assert!(watch.forget_replaced().await);
        assert!(watch.follow(&[here.clone()].into()));
        fs::write(here.join("a"), "x").unwrap();
        assert!(
            settled(&mut events, Timing::default(), |path| path.ends_with("a"))
                .await
                .is_some()
        );
        assert!(!watch.forget_replaced().await);
    }

    #[test]
    fn where_nothing_can_be_watched_every_folder_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (mut watch, _events) = FolderWatch::new();
        watch.watcher = Err("too many instances".into());
        assert!(!watch.is_partial());
        assert!(!watch.follow(&[folder.path().to_owned()].into()));
        assert!(watch.is_partial());
        assert_eq!(watch.failed().values().collect::<Vec<_>>(), ["too many instances"]);
    }
}
