//! What is mounted where a path leads.

use std::{fs::Metadata, os::unix::fs::MetadataExt as _, path::Path};

/// What a path lies on. What is mounted there, or isn't any more, changes it, though the path stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device.
    pub device: u64,
    /// The system's number of the mount: those of one device, as of folders that are bound elsewhere, differ in it. It
    /// means nothing after a restart of the machine.
    pub id: u64,
}

impl Mount {
    /// That of a path that is there.
    pub fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self::with(path, &meta))
    }

    pub(crate) fn with(path: &Path, meta: &Metadata) -> Self {
        let device = meta.dev();
        Self {
            device,
            id: number(path).unwrap_or(device),
        }
    }

    /// That of the nearest folder around a path, or of the path itself.
    pub fn around(path: &Path) -> Option<Self> {
        path.ancestors().find_map(Self::of)
    }
}

#[cfg(target_os = "linux")]
fn number(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    // Older systems leave it out.
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn number(_: &Path) -> Option<u64> {
    None
}
