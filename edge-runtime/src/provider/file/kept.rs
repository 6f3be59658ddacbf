//! The last good text of what each file holds, for the next controller.
//!
//! While it runs, the table knows what a broken file held before. A controller that begins beside a broken file would
//! know nothing of that: a route in it would be gone, and a guard would no longer stand before what it guards, though
//! the proxy that is taken over serves by both. So there is a copy of each file below the state folder, under the path
//! that it has, which is read where the file itself can't be. It says what of the file is in force ([`text`]): where
//! something in it is broken, its first line tells of which version it is, so that a file that is renamed meanwhile is
//! known.

use crate::files;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
};

mod text;

pub(super) use text::InForce;

/// Copies may hold keys, as their files do.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The folder of copies, beside the status document. Its name is hidden: whoever watches the state folder doesn't read
/// them.
const FOLDER: &str = ".kept";
/// Beside the copies from a folder: what it lay on.
const MOUNT: &str = ".device";
/// How a copy begins, before the version that it is of.
const HEAD: &str = "# edge-gateway keeps this of version ";
/// What stands behind the version where nobody knows what else the file held.
const UNKNOWN: &str = ", which was broken before";

/// The copies.
#[derive(Clone, Debug)]
pub struct CopyStore {
    folder: PathBuf,
    before: Before,
}

/// Whether proxies ran before this controller began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// None did: whatever can't be read now was in force nowhere.
    Nothing,
    /// Some may serve by what can't be read now.
    Proxies,
}

/// A copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// The version of the file that it is of, by [`edge_files::Stamp::text_id`]; empty where that isn't known.
    pub(super) version: String,
    pub(super) origin: Origin,
    pub(super) text: String,
}

/// What is known of what a file held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// All that was ever in force of it.
    Known,
    /// It was broken when it was first seen: it may have held more.
    Unknown,
}

impl CopyStore {
    /// Copies below a state folder. There needn't be any.
    pub fn below_state(state_home: &Path, before: Before) -> Self {
        Self {
            folder: state_home.join(FOLDER),
            before,
        }
    }

    /// Whether proxies ran before.
    pub(super) fn before(&self) -> Before {
        self.before
    }

    /// Whether there are copies at all.
    pub(super) fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// The copy of a file.
    pub(super) fn copy(&self, path: &Path) -> Option<Copy> {
        let whole = fs::read_to_string(self.place(path)).ok()?;
        let headed = whole.strip_prefix(HEAD).and_then(|rest| rest.split_once('\n'));
        let Some((head, text)) = headed else {
            return Some(Copy {
                version: String::new(),
                origin: Origin::Known,
                text: whole,
            });
        };
        let (version, origin) = match head.strip_suffix(UNKNOWN) {
            Some(version) => (version, Origin::Unknown),
            None => (head, Origin::Known),
        };
        Some(Copy {
            version: version.to_owned(),
            origin,
            text: text.to_owned(),
        })
    }

    /// Files below a folder of which there is a copy, under the paths that they have there.
    pub(super) fn below(&self, folder: &Path) -> Vec<PathBuf> {
        let place = self.place(folder);
        let files = files_below(&place);
        let copies = files.iter().filter(|file| is_copy(file));
        let inside = copies.filter_map(|file| file.strip_prefix(&place).ok());
        inside.map(|rest| folder.join(rest)).collect()
    }

    /// Writes the copy of a file, unless there is the same.
    pub(super) fn keep(&self, path: &Path, copy: &Copy) -> io::Result<()> {
        let place = self.place(path);
        let origin = match copy.origin {
            Origin::Known => "",
            Origin::Unknown => UNKNOWN,
        };
        let whole = format!("{HEAD}{}{origin}\n{}", copy.version, copy.text);
        if fs::read(&place).is_ok_and(|kept| kept == whole.as_bytes()) {
            return Ok(());
        }
        self.make_room(&place)?;
        files::replace(&place, whole.as_bytes(), FILE_MODE)
    }

    /// Forgets all copies but those of these files, and what isn't known of these folders.
    pub(super) fn retain<'a>(&self, files: impl Iterator<Item = &'a Path>, folders: impl Iterator<Item = &'a Path>) {
        let files = files.map(|path| self.place(path));
        let places: BTreeSet<PathBuf> = files.chain(folders.map(|path| self.place(path).join(MOUNT))).collect();
        for copy in files_below(&self.folder).iter().filter(|copy| !places.contains(*copy)) {
            self.remove(copy);
        }
    }

    /// The copy of a file is that of another path now, unless that has one.
    pub(super) fn rename(&self, from: &Path, to: &Path) {
        let (from, to) = (self.place(from), self.place(to));
        if !to.exists() && self.make_room(&to).is_ok() {
            // There is none where the file was never whole.
            let _ = fs::rename(&from, &to);
        }
        self.remove(&from);
    }

    /// Forgets the copy of a file.
    pub(super) fn forget(&self, path: &Path) {
        self.remove(&self.place(path));
    }

    /// What folders at or below this one lay on.
    pub(super) fn mounts(&self, folder: &Path) -> BTreeMap<PathBuf, String> {
        let place = self.place(folder);
        let all = files_below(&place);
        let noted = all
            .iter()
            .filter(|file| file.file_name().is_some_and(|name| name == MOUNT));
        let read = noted.filter_map(|file| {
            let inside = file.parent()?.strip_prefix(&place).ok()?;
            // Joined with nothing, a path would end with a slash.
            let path = match inside.as_os_str().is_empty() {
                true => folder.to_owned(),
                false => folder.join(inside),
            };
            Some((path, fs::read_to_string(file).ok()?.trim().to_owned()))
        });
        read.collect()
    }

    /// Notes what a folder lies on.
    pub(super) fn note_mount(&self, folder: &Path, mount: &str) -> io::Result<()> {
        let file = self.place(folder).join(MOUNT);
        if fs::read_to_string(&file).is_ok_and(|noted| noted.trim() == mount) {
            return Ok(());
        }
        self.make_room(&file)?;
        files::replace(&file, format!("{mount}\n").as_bytes(), FILE_MODE)
    }

    /// Where the copy of a file is. A path is taken as it is written: it is a name here.
    fn place(&self, path: &Path) -> PathBuf {
        let mut place = self.folder.clone();
        let mut inside = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => inside.push(name),
                Component::ParentDir => drop(inside.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        place.push(inside);
        place
    }

    fn make_room(&self, place: &Path) -> io::Result<()> {
        let folder = place.parent().unwrap_or(&self.folder);
        let make = || DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        // What is a folder now may have been a file, of which a copy is in the way.
        match make() {
            Err(_) if self.clear_way(folder) => make(),
            made => made,
        }?;
        match fs::symlink_metadata(place) {
            Ok(there) if there.is_dir() => fs::remove_dir_all(place),
            _ => Ok(()),
        }
    }

    /// Removes a file that stands where a folder is wanted. Says whether there was one.
    fn clear_way(&self, folder: &Path) -> bool {
        let mut above = folder.ancestors().take_while(|above| above.starts_with(&self.folder));
        above.any(|above| above.is_file() && fs::remove_file(above).is_ok())
    }

    /// Removes a copy, and the folders above it that are empty then.
    fn remove(&self, copy: &Path) {
        if fs::remove_file(copy).is_err() {
            return;
        }
        let above = copy.ancestors().skip(1).take_while(|above| *above != self.folder);
        for folder in above {
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

/// Whether a file is the whole copy of one: what is written in between and beside has other names.
fn is_copy(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name != MOUNT.as_bytes() && !name.ends_with(files::PARTIAL.as_bytes())
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // One that isn't there holds nothing.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort_unstable();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    struct Rig {
        folder: tempfile::TempDir,
        kept: CopyStore,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let kept = CopyStore::below_state(folder.path(), Before::Proxies);
            Self { folder, kept }
        }

        fn keep(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            self.kept.keep(&path, &copy(text)).unwrap();
            path
        }

        fn text(&self, path: &Path) -> Option<String> {
            self.kept.copy(path).map(|copy| copy.text)
        }
    }

    fn copy(text: &str) -> Copy {
        Copy {
            version: "1:2".into(),
            origin: Origin::Known,
            text: text.into(),
        }
    }

    #[test]
    fn a_copy_is_there_until_its_file_is_forgotten() {
        let rig = Rig::new();
        let path = rig.keep("in/deep/a.yaml", "one");
        assert_eq!(rig.kept.copy(&path), Some(copy("one")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&rig.kept.place(&path)), 0o600, "it may hold a key");
        assert_eq!(mode(rig.kept.place(&path).parent().unwrap()), 0o700);
        assert_eq!(rig.kept.below(&rig.folder.path().join("in")), [&*path]);
        let other = rig.keep("in/b.yaml", "two");
        rig.kept.forget(&path);
        assert_eq!(rig.text(&path), None);
        assert_eq!(rig.kept.below(rig.folder.path()), [&*other]);
        rig.kept.note_mount(rig.folder.path(), "7").unwrap();
        fs::write(rig.kept.place(&other).with_extension("yaml.partial"), "half").unwrap();
        assert_eq!(rig.kept.below(rig.folder.path()), [&*other], "half a copy is none");
        rig.kept.retain([].into_iter(), [].into_iter());
        assert_eq!(rig.text(&other), None);
        assert_eq!(
            fs::read_dir(&rig.kept.folder).unwrap().count(),
            0,
            "no empty folders stay"
        );
    }

    #[test]
    fn a_copy_says_what_it_is_of() {
        let rig = Rig::new();
        let path = rig.keep("a.yaml", "# a comment\none");
        let unknown = Copy {
            origin: Origin::Unknown,
            ..copy("two")
        };
        rig.kept.keep(&path, &unknown).unwrap();
        assert_eq!(rig.kept.copy(&path), Some(unknown));
        // By a controller that noted nothing of that.
        fs::write(rig.kept.place(&path), "# a comment\nthree").unwrap();
        let old = Copy {
            version: String::new(),
            ..copy("# a comment\nthree")
        };
        assert_eq!(rig.kept.copy(&path), Some(old));
    }

    #[test]
    fn a_file_may_become_a_folder_and_a_folder_a_file() {
        let rig = Rig::new();
        let file = rig.keep("a", "one");
        let inside = rig.keep("a/b/c.yaml", "two");
        assert_eq!(rig.text(&inside).as_deref(), Some("two"));
        rig.keep("a", "three");
        assert_eq!(rig.text(&file).as_deref(), Some("three"));
    }

    #[test]
    fn paths_never_lead_out_of_the_folder() {
        let kept = CopyStore::below_state(Path::new("/state"), Before::Nothing);
        for (path, place) in [
            ("/etc/gw/a.yaml", "/state/.kept/etc/gw/a.yaml"),
            ("/etc/gw/../a.yaml", "/state/.kept/etc/a.yaml"),
            ("../../../a.yaml", "/state/.kept/a.yaml"),
            ("./gw/./a.yaml", "/state/.kept/gw/a.yaml"),
        ] {
            assert_eq!(kept.place(Path::new(path)), Path::new(place));
        }
    }

    #[test]
    fn what_a_folder_lies_on_is_no_copy() {
        let rig = Rig::new();
        let path = rig.keep("in/a.yaml", "one");
        let (folder, below) = (rig.folder.path().join("in"), rig.folder.path().join("in/sub"));
        rig.kept.note_mount(&folder, "7").unwrap();
        rig.kept.note_mount(&below, "8 mounted").unwrap();
        let mounts = [(folder.clone(), "7".to_owned()), (below, "8 mounted".to_owned())];
        assert_eq!(rig.kept.mounts(&folder), mounts.into());
        assert_eq!(rig.kept.below(&folder), [path]);
    }
}
