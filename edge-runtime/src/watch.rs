//! Watching folders: raw events of the file system become "now is a good time to look".
//!
//! What exactly happened is of no interest, because whoever looks compares with what it knew. Events only decide
//! *when*: after 10 ms of quiet, 200 ms after the first one at the latest, and not while a file is in the middle of
//! being written. Folders are watched one by one and not recursively: the caller walks them anyway, knows symbolic
//! links and their loops, and says after each walk which folders matter.

use notify::{
    Config, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use tokio::sync::mpsc;

mod settle;

pub use settle::{Settling, Timing};

/// Events that wait to be looked at. When it is full, events are dropped: those that wait lead to a look anyway.
const QUEUE: usize = 1024;

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
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    failed: BTreeMap<PathBuf, String>,
}

impl FolderWatch {
    /// A watch on nothing yet, and its events.
    pub fn new() -> notify::Result<(Self, mpsc::Receiver<Touch>)> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let watcher = RecommendedWatcher::new(
            move |event: notify::Result<Event>| {
                for touch in touches(event) {
                    // Full: see QUEUE. Closed: nobody looks any more.
                    let _ = sender.try_send(touch);
                }
            },
            Config::default().with_follow_symlinks(false),
        )?;
        Ok((
            Self {
                watcher,
                watched: BTreeSet::new(),
                failed: BTreeMap::new(),
            },
            receiver,
        ))
    }

    /// Watches exactly these folders. Says whether a watch is new, in which case the caller must look again: something
    /// may have happened before it was there.
    pub fn follow(&mut self, folders: &BTreeSet<PathBuf>) -> bool {
        let gone: Vec<PathBuf> = self.watched.difference(folders).cloned().collect();
        for folder in gone {
            // A folder that was removed has no watch any more.
            let _ = self.watcher.unwatch(&folder);
            self.watched.remove(&folder);
        }
        self.failed.retain(|folder, _| folders.contains(folder));
        let mut is_new = false;
        for folder in folders {
            if self.watched.contains(folder) {
                continue;
            }
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder.clone());
                    self.failed.remove(folder);
                    is_new = true;
                }
                Err(error) => drop(self.failed.insert(folder.clone(), reason(&error))),
            }
        }
        is_new
    }

    /// Forgets folders that were removed or moved, so that they are watched anew if they come back.
    pub fn forget(&mut self, gone: &BTreeSet<PathBuf>) {
        let lost: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|folder| gone.iter().any(|path| folder.starts_with(path)))
            .cloned()
            .collect();
        for folder in lost {
            let _ = self.watcher.unwatch(&folder);
            self.watched.remove(&folder);
        }
    }

    /// Folders that can't be watched, and why.
    pub fn failed(&self) -> &BTreeMap<PathBuf, String> {
        &self.failed
    }
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
            () = at(due) => return settling,
        };
        if touch.path.as_deref().is_none_or(&is_relevant) {
            let now = tokio::time::Instant::now();
            settling
                .get_or_insert_with(|| Settling::new(timing, now))
                .note(touch, now);
        }
    }
}

async fn at(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn files_written_in_a_watched_folder_are_noticed_and_reading_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (mut watch, mut events) = FolderWatch::new().unwrap();
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
        let (mut watch, _events) = FolderWatch::new().unwrap();
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
}
