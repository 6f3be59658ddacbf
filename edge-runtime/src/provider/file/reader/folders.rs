//! Folders that are gone or empty because something isn't mounted, or was moved: their files aren't taken for removed.

use edge_files::{Listing, Mount};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Why a folder is taken for gone, and how to say that it is meant.
const MOVED: &str = "the folder is gone; what it held stays in force until it is back. To remove its objects, remove the files \
                     from it, or the folder from the configuration";
const UNMOUNTED: &str = "what it held is gone, and it is on another device or mount than before, as where nothing is mounted; what \
                         it held stays in force until it is back. If it is meant to hold nothing, put a file into it whose name \
                         ends with .yaml";
/// What a note of a folder says of one where something is mounted.
const POINT: &str = " mounted";

/// Watched paths, and folders below them where something is mounted, as they were at the last look that found them.
#[derive(Debug, Default)]
pub(super) struct Folders(BTreeMap<PathBuf, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    device: u64,
    /// None: by a note of a controller before.
    mount: Option<u64>,
    /// Whether something was mounted just there.
    is_point: bool,
    is_folder: bool,
}

impl Known {
    fn of(path: &Path, mount: Mount) -> Self {
        let is_folder = path.is_dir();
        Self {
            device: mount.device,
            mount: Some(mount.id),
            is_point: is_folder && Mount::of(&path.join("..")).is_some_and(|around| around != mount),
            is_folder,
        }
    }

    fn noted(note: &str) -> Option<Self> {
        let (device, is_point) = match note.strip_suffix(POINT) {
            Some(device) => (device, true),
            None => (note, false),
        };
        Some(Self {
            device: device.parse().ok()?,
            mount: None,
            is_point,
            is_folder: true,
        })
    }

    fn note(&self) -> String {
        let point = if self.is_point { POINT } else { "" };
        format!("{}{point}", self.device)
    }

    fn is_elsewhere(&self, now: &Self) -> bool {
        let is_other = self.mount.zip(now.mount).is_some_and(|(before, now)| before != now);
        self.device != now.device || is_other || (self.is_point && !now.is_point)
    }
}

impl Folders {
    /// Takes in what is noted of folders at or below watched paths.
    pub(super) fn recall(&mut self, notes: BTreeMap<PathBuf, String>) {
        for (path, note) in notes {
            if let Some(known) = Known::noted(&note) {
                self.0.entry(path).or_insert(known);
            }
        }
    }

    /// What to note of the folders, for the next controller.
    pub(super) fn notes(&self) -> BTreeMap<PathBuf, String> {
        let folders = self.0.iter().filter(|(_, known)| known.is_folder);
        folders.map(|(path, known)| (path.clone(), known.note())).collect()
    }

    /// Compares with what was found now: what most likely isn't gone for good becomes unreadable. `holds` says whether
    /// something at or below a path is in force, or was.
    pub(super) fn follow(&mut self, roots: &[PathBuf], listing: &mut Listing, holds: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| roots.iter().any(|root| path.starts_with(root)));
        let paths: BTreeSet<PathBuf> = self.0.keys().chain(listing.mounts.keys()).cloned().collect();
        for path in paths {
            let found = listing.mounts.get(&path).map(|mount| Known::of(&path, *mount));
            let problem = self.0.get(&path).and_then(|before| {
                let is_root = roots.contains(&path);
                match found {
                    None if is_root && before.is_folder && listing.problems.contains_key(&path) => Some(MOVED),
                    _ => {
                        let around = || Mount::around(&path).map(|mount| Known::of(&path, mount));
                        let now = found.or_else(around)?;
                        let is_empty = !listing.files.keys().any(|file| file.starts_with(&path));
                        (is_empty && before.is_elsewhere(&now) && holds(&path)).then_some(UNMOUNTED)
                    }
                }
            });
            match (problem, found) {
                (Some(problem), _) => {
                    listing.problems.insert(path.clone(), problem.into());
                    listing.unreadable.insert(path);
                }
                (None, Some(found)) => drop(self.0.insert(path, found)),
                (None, None) => drop(self.0.remove(&path)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rig {
        folder: tempfile::TempDir,
        folders: Folders,
    }

    impl Rig {
        /// A look at a folder, as if all of it lay on a mount.
        fn look(&mut self, roots: &[PathBuf], mount: u64) -> Vec<PathBuf> {
            let mut listing = edge_files::list(roots);
            for known in listing.mounts.values_mut() {
                known.id = mount;
            }
            self.folders.follow(roots, &mut listing, |_| true);
            listing.unreadable.into_iter().collect()
        }
    }

    #[test]
    fn what_is_not_mounted_any_more_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = Rig {
            folder,
            folders: Folders::default(),
        };
        let root = rig.folder.path().to_owned();
        let file = root.join("a.yaml");
        std::fs::write(&file, "").unwrap();
        for roots in [[root.clone()], [file.clone()]] {
            std::fs::write(&file, "").unwrap();
            rig.folders = Folders::default();
            assert!(rig.look(&roots, 1).is_empty());
            assert!(rig.look(&roots, 2).is_empty(), "it is there");
            std::fs::remove_file(&file).unwrap();
            assert_eq!(rig.look(&roots, 3), roots, "on another mount");
            assert_eq!(rig.look(&roots, 3), roots, "for as long as it is so");
        }
    }

    #[test]
    fn what_was_removed_where_nothing_was_mounted_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = Rig {
            folder,
            folders: Folders::default(),
        };
        let root = rig.folder.path().to_owned();
        let file = root.join("a.yaml");
        std::fs::write(&file, "").unwrap();
        let here = Mount::of(&root).unwrap().id;
        for roots in [[root.clone()], [file.clone()]] {
            std::fs::write(&file, "").unwrap();
            rig.folders = Folders::default();
            assert!(rig.look(&roots, here).is_empty());
            std::fs::remove_file(&file).unwrap();
            assert!(rig.look(&roots, here).is_empty(), "{roots:?}");
        }
    }

    #[test]
    fn a_note_tells_whether_something_was_mounted() {
        let here = Known::noted("7").unwrap();
        let point = Known::noted("7 mounted").unwrap();
        assert_eq!((here.note(), point.note()), ("7".into(), "7 mounted".into()));
        assert!(point.is_elsewhere(&here) && !here.is_elsewhere(&point));
        assert!(Known::noted("8").unwrap().is_elsewhere(&here));
        assert!(Known::noted("x").is_none());
    }
}
