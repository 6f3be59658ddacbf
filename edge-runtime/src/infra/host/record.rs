//! Records of running processes, so that a controller that was killed leaves nothing behind for good.
//!
//! Every process has a file `<pid>.process` in the runtime folder with its id and the time at which it started (`/proc`, so on
//! Linux; elsewhere there are no records). The next controller with the same folder ends what is still running. The
//! folder is locked while a controller lives, so two of them can't end each other's processes.

use super::STOP_GRACE;
use crate::{
    Error,
    error::describe,
    process_name::{ProcessName, is_running, signal_process},
};
use rustix::process::Signal;
use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

const SUFFIX: &str = "process";

/// The locked folder for what lives as long as the processes.
#[derive(Debug)]
pub struct RuntimeFolder {
    path: PathBuf,
    /// Unlocked when dropped.
    _lock: File,
}

impl RuntimeFolder {
    /// Makes the folder if needed and locks it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source: io::Error, remedy: &str| Error::File {
            purpose: "runtime folder",
            path: path.to_owned(),
            remedy: format!("{remedy} provider.custom.infrastructure.host.runtimeDir"),
            source,
        };
        let lock = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            // Bootstraps may hold what only their owner should read, also in a folder that somebody else made.
            .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
            .and_then(|()| File::create(path.join("lock")))
            .map_err(|source| fail(source, "make it writable, or set"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(fail(
                io::Error::other("another edgegateway is using it"),
                "stop that one, or give this one a folder of its own by",
            )),
            Err(TryLockError::Error(source)) => Err(fail(source, "set")),
        }
    }

    /// Ends processes that a killed controller has left.
    pub(super) async fn end_leftovers(&self) {
        let records = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for path in records
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == SUFFIX))
        {
            if let Some(process) = fs::read_to_string(&path).ok().and_then(|text| text.parse().ok()) {
                end(&process).await;
            }
            remove(&path);
        }
    }
}

/// The record of one process; it goes when this does.
#[derive(Debug)]
pub(super) struct Record(Option<PathBuf>);

impl Record {
    /// Notes a process that was started.
    pub(super) fn write(folder: &Path, process: &ProcessName) -> Self {
        let path = folder.join(format!("{}.{SUFFIX}", process.pid()));
        match fs::write(&path, process.to_string()) {
            Ok(()) => Self(Some(path)),
            Err(error) => {
                let reason = describe(&error);
                tracing::warn!(path = %path.display(), reason, "can't note a process");
                Self(None)
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            remove(path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "can't remove a process record");
    }
}

async fn end(process: &ProcessName) {
    if !is_running(process) {
        return;
    }
    tracing::info!(
        pid = process.pid(),
        "ending a proxy that an earlier controller left behind"
    );
    let deadline = tokio::time::Instant::now() + STOP_GRACE;
    signal_process(process, Signal::TERM);
    // It isn't our child, so its end can only be looked for.
    let mut look = tokio::time::interval(Duration::from_millis(20));
    while is_running(process) && tokio::time::Instant::now() < deadline {
        look.tick().await;
    }
    signal_process(process, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[tokio::test]
    async fn leftovers_are_ended_but_not_a_stranger_with_their_number() {
        let folder = tempfile::tempdir().unwrap();
        let sleeper = || Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let (mut left, mut stranger) = (sleeper(), sleeper());
        // The records of a controller that was killed stay.
        std::mem::forget(Record::write(folder.path(), &ProcessName::of(left.id()).unwrap()));
        let other: ProcessName = format!("{} 1", stranger.id()).parse().unwrap();
        std::mem::forget(Record::write(folder.path(), &other));

        let runtime = RuntimeFolder::open(folder.path()).unwrap();
        let ended = tokio::task::spawn_blocking(move || left.wait().unwrap());
        runtime.end_leftovers().await;
        assert!(!ended.await.unwrap().success());
        assert!(
            stranger.try_wait().unwrap().is_none(),
            "another process of that number lives on"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the lock stays");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn a_folder_serves_one_controller() {
        let folder = tempfile::tempdir().unwrap();
        let first = RuntimeFolder::open(folder.path()).unwrap();
        let error = RuntimeFolder::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("another edgegateway is using it; stop that one"),
            "{error}"
        );
        drop(first);
        RuntimeFolder::open(folder.path()).unwrap();
    }
}
