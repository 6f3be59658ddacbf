//! The folders that one controller has for itself.
//!
//! The runtime folder: what lives as long as the processes. It holds the bootstraps of the proxies and the
//! [records](super::record) by which the next controller knows them again, so whoever can write to it decides what our
//! proxies do. It belongs to us alone. The state folder: statuses and logs. One controller at a time holds the lock of
//! each, and who comes second is told which process that is.

use super::record::Record;
use crate::Error;
use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// The locked folder for what lives as long as the processes.
#[derive(Debug)]
pub struct RuntimeFolder {
    path: PathBuf,
    /// Unlocked when dropped.
    _lock: File,
}

impl RuntimeFolder {
    /// Makes the folder if needed, makes sure that it is ours alone, and locks it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source: io::Error, remedy: &str| Error::File {
            purpose: "runtime folder",
            path: path.to_owned(),
            remedy: format!("{remedy} provider.custom.infrastructure.host.runtimeDir"),
            source,
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| fail(source, "make it writable, or set"))?;
        check_owner(path, rustix::process::geteuid().as_raw())
            .map_err(|source| fail(source, "remove it, or give the controller a folder of its own by"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))
            .map_err(|source| fail(source, "make it writable, or set"))?;
        match lock(path) {
            Ok(lock) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(Unlocked::Taken(source)) => Err(fail(source, TAKEN_REMEDY)),
            Err(Unlocked::Fault(source)) => Err(fail(source, "make it writable, or set")),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether proxies run that an earlier controller has started.
    pub fn has_proxies(&self) -> bool {
        !Record::running(&self.path).is_empty()
    }
}

/// The locked folder for statuses and logs, as long as this lives.
#[derive(Debug)]
pub struct StateFolder {
    /// None where nothing can be written: nobody else writes there then either, and whoever wants to says so.
    _lock: Option<File>,
}

impl StateFolder {
    /// Makes the folder if needed, and locks it. Only that another controller has it is an error.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let made = fs::create_dir_all(path).map_err(Unlocked::Fault);
        match made.and_then(|()| lock(path)) {
            Ok(lock) => Ok(Self { _lock: Some(lock) }),
            Err(Unlocked::Taken(source)) => Err(Error::File {
                purpose: "state folder",
                path: path.to_owned(),
                remedy: format!("{TAKEN_REMEDY} provider.custom.infrastructure.host.stateHome"),
                source,
            }),
            Err(Unlocked::Fault(error)) => {
                tracing::debug!(path = %path.display(), %error, "the state folder can't be locked");
                Ok(Self { _lock: None })
            }
        }
    }
}

const TAKEN_REMEDY: &str = "stop that one, or give this one a folder of its own by";

/// Why a folder isn't ours.
enum Unlocked {
    /// Another controller has it.
    Taken(io::Error),
    /// The system's reason.
    Fault(io::Error),
}

/// Locks a folder. The system takes the lock back when the process ends, however it does.
fn lock(folder: &Path) -> Result<File, Unlocked> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(folder.join("lock")).map_err(Unlocked::Fault)?;
    match file.try_lock() {
        Ok(()) => {
            // For whoever comes second; a lock is one without it too.
            let id = std::process::id().to_string();
            let _ = file.set_len(0).and_then(|()| file.write_all(id.as_bytes()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut id = String::new();
            let who = match file.read_to_string(&mut id) {
                Ok(length) if length > 0 => format!(" (process {id})"),
                _ => String::new(),
            };
            let taken = format!("another edgegateway{who} is using it");
            Err(Unlocked::Taken(io::Error::other(taken)))
        }
        Err(TryLockError::Error(error)) => Err(Unlocked::Fault(error)),
    }
}

/// A folder in a place where everybody may write can have been put there by anybody: then its owner could exchange
/// what lies in it, whatever its mode, and a symbolic link leads to wherever somebody wants us to write.
fn check_owner(path: &Path, user: u32) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Err(io::Error::other(
            "it is a symbolic link, and whoever made it decides where it leads",
        ));
    }
    if meta.uid() != user {
        let owner = meta.uid();
        return Err(io::Error::other(format!(
            "it belongs to user {owner} and not to user {user}, who runs the controller"
        )));
    }
    Ok(())
}

/// A folder whose controller has gone. A child that another test has forked off shares the lock until it is another
/// program.
#[cfg(test)]
pub(super) fn once_free<T>(open: impl Fn() -> Result<T, Error>) -> T {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match open() {
            Ok(opened) => return opened,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_serves_one_controller() {
        let folder = tempfile::tempdir().unwrap();
        let first = RuntimeFolder::open(folder.path()).unwrap();
        let error = RuntimeFolder::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains(&format!(
                "another edgegateway (process {}) is using it; stop that one",
                std::process::id()
            )),
            "{error}"
        );
        drop(first);
        once_free(|| RuntimeFolder::open(folder.path()));
    }

    #[test]
    fn a_state_folder_serves_one_controller_and_need_not_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = StateFolder::open(&path).unwrap();
        let error = StateFolder::open(&path).unwrap_err().to_string();
        let expected = format!("another edgegateway (process {}) is using it", std::process::id());
        assert!(
            error.contains(&expected) && error.ends_with("host.stateHome"),
            "{error}"
        );
        drop(first);
        once_free(|| StateFolder::open(&path));

        let in_the_way = folder.path().join("file");
        fs::write(&in_the_way, "").unwrap();
        StateFolder::open(&in_the_way).unwrap();
    }

    #[test]
    fn a_folder_that_somebody_else_made_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let error = RuntimeFolder::open(&link).unwrap_err().to_string();
        assert!(error.contains("link: it is a symbolic link"), "{error}");
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0, "nothing is written through it");

        let own = fs::metadata(&real).unwrap().uid();
        let error = check_owner(&real, own + 1).unwrap_err().to_string();
        assert!(
            error.contains(&format!("it belongs to user {own} and not to user")),
            "{error}"
        );
    }

    #[test]
    fn a_folder_of_ours_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let opened = RuntimeFolder::open(&path).unwrap();
        assert_eq!(fs::metadata(opened.path()).unwrap().mode() & 0o777, 0o700);
    }
}
