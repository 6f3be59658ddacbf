//! The runtime folder: what lives as long as the processes.
//!
//! It holds the bootstraps of the proxies and the [records](super::record) by which the next controller knows them
//! again, so whoever can write to it decides what our proxies do. It belongs to us alone, and one controller at a time
//! holds its lock.

use crate::Error;
use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
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
        let lock = fs::set_permissions(path, fs::Permissions::from_mode(0o700))
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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

#[cfg(test)]
mod tests {
    use super::*;

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
