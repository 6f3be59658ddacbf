//! The last text of each file that could be read whole, for the next controller.
//!
//! While it runs, the table knows what a broken file held before. A controller that begins beside a broken file would
//! know nothing of that: a route in it would be gone, and a guard would no longer stand before what it guards, though
//! the proxy that is taken over serves by both. So there is a copy of each file below the state folder, under the path
//! that it has, which is read where the file itself can't be. A copy is made only where nothing of what is in force
//! comes from a text before, and only where it is another than the one that is there.

use crate::files;
use edge_files::Stamp;
use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
};

/// Copies may hold keys, as their files do.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// The folder of copies, beside the status document. Its name is hidden: whoever watches the state folder doesn't read
/// them.
const FOLDER: &str = ".kept";
/// Beside the copies from a watched folder: the device that it was on.
const DEVICE: &str = ".device";

/// The copies.
#[derive(Clone, Debug)]
pub struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// Copies below a state folder. There needn't be any.
    pub fn below_state(state_home: &Path) -> Self {
        Self {
            folder: state_home.join(FOLDER),
        }
    }

    /// What a file held when it could be read whole.
    pub(super) fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.place(path)).ok()
    }

    /// Files below a folder of which there is a copy, under the paths that they have there.
    pub(super) fn below(&self, folder: &Path) -> Vec<PathBuf> {
        let place = self.place(folder);
        let files = files_below(&place);
        let copies = files.iter().filter(|file| is_copy(file));
        let inside = copies.filter_map(|file| file.strip_prefix(&place).ok());
        inside.map(|rest| folder.join(rest)).collect()
    }

    /// Copies a file that was read in this version, unless there is the same copy. Does nothing where the file is
    /// another by now: it will be read again.
    pub(super) fn keep(&self, path: &Path, stamp: Stamp) -> io::Result<()> {
        let place = self.place(path);
        let (mut file, mut text) = (File::open(path)?, Vec::new());
        file.read_to_end(&mut text)?;
        let is_current = Stamp::of(&file.metadata()?) == stamp;
        if !is_current || fs::read(&place).is_ok_and(|kept| kept == text) {
            return Ok(());
        }
        self.make_room(&place)?;
        files::replace(&place, &text, FILE_MODE)
    }

    /// Forgets all copies but those of these files, and what isn't known of these folders.
    pub(super) fn retain<'a>(&self, files: impl Iterator<Item = &'a Path>, folders: impl Iterator<Item = &'a Path>) {
        let files = files.map(|path| self.place(path));
        let places: BTreeSet<PathBuf> = files.chain(folders.map(|path| self.place(path).join(DEVICE))).collect();
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

    /// The device that a watched folder was on.
    pub(super) fn device(&self, folder: &Path) -> Option<u64> {
        let text = fs::read_to_string(self.place(folder).join(DEVICE)).ok()?;
        text.trim().parse().ok()
    }

    /// Notes the device that a watched folder is on.
    pub(super) fn note_device(&self, folder: &Path, device: u64) -> io::Result<()> {
        if self.device(folder) == Some(device) {
            return Ok(());
        }
        let file = self.place(folder).join(DEVICE);
        self.make_room(&file)?;
        files::replace(&file, format!("{device}\n").as_bytes(), FILE_MODE)
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
    name != DEVICE.as_bytes() && !name.ends_with(files::PARTIAL.as_bytes())
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
        kept: Kept,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let kept = Kept::below_state(folder.path());
            Self { folder, kept }
        }

        fn write(&self, name: &str, text: &str) -> (PathBuf, Stamp) {
            let path = self.folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let stamp = Stamp::of(&fs::metadata(&path).unwrap());
            (path, stamp)
        }
    }

    #[test]
    fn a_copy_is_there_until_its_file_is_forgotten() {
        let rig = Rig::new();
        let (path, stamp) = rig.write("in/deep/a.yaml", "one");
        rig.kept.keep(&path, stamp).unwrap();
        assert_eq!(rig.kept.text(&path).as_deref(), Some("one"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&rig.kept.place(&path)), 0o600, "it may hold a key");
        assert_eq!(mode(rig.kept.place(&path).parent().unwrap()), 0o700);
        assert_eq!(rig.kept.below(&rig.folder.path().join("in")), [&*path]);
        let (other, stamp) = rig.write("in/b.yaml", "two");
        rig.kept.keep(&other, stamp).unwrap();
        rig.kept.forget(&path);
        assert_eq!(rig.kept.text(&path), None);
        assert_eq!(rig.kept.below(rig.folder.path()), [&*other]);
        rig.kept.note_device(rig.folder.path(), 7).unwrap();
        fs::write(rig.kept.place(&other).with_extension("yaml.partial"), "half").unwrap();
        assert_eq!(rig.kept.below(rig.folder.path()), [&*other], "half a copy is none");
        rig.kept.retain([].into_iter(), [].into_iter());
        assert_eq!(rig.kept.text(&other), None);
        assert_eq!(
            fs::read_dir(&rig.kept.folder).unwrap().count(),
            0,
            "no empty folders stay"
        );
    }

    #[test]
    fn a_file_that_is_another_by_now_is_not_taken_for_what_was_read() {
        let rig = Rig::new();
        let (path, stamp) = rig.write("a.yaml", "one");
        rig.kept.keep(&path, stamp).unwrap();
        let (_, other) = rig.write("a.yaml", "two");
        rig.kept.keep(&path, stamp).unwrap();
        assert_eq!(rig.kept.text(&path).as_deref(), Some("one"));
        // Whatever its time says: archives and stores have files of one time.
        File::open(&path)
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        rig.kept.keep(&path, other).unwrap();
        assert_eq!(rig.kept.text(&path).as_deref(), Some("one"), "it was touched since");
        rig.kept.keep(&path, Stamp::of(&fs::metadata(&path).unwrap())).unwrap();
        assert_eq!(rig.kept.text(&path).as_deref(), Some("two"));
    }

    #[test]
    fn a_file_may_become_a_folder_and_a_folder_a_file() {
        let rig = Rig::new();
        let (file, stamp) = rig.write("a", "one");
        rig.kept.keep(&file, stamp).unwrap();
        fs::remove_file(&file).unwrap();
        let (inside, stamp) = rig.write("a/b/c.yaml", "two");
        rig.kept.keep(&inside, stamp).unwrap();
        assert_eq!(rig.kept.text(&inside).as_deref(), Some("two"));
        fs::remove_dir_all(&file).unwrap();
        let (file, stamp) = rig.write("a", "three");
        rig.kept.keep(&file, stamp).unwrap();
        assert_eq!(rig.kept.text(&file).as_deref(), Some("three"));
    }

    #[test]
    fn paths_never_lead_out_of_the_folder() {
        let kept = Kept::below_state(Path::new("/state"));
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
    fn the_device_of_a_folder_is_no_copy() {
        let rig = Rig::new();
        let (path, stamp) = rig.write("in/a.yaml", "one");
        rig.kept.keep(&path, stamp).unwrap();
        let folder = rig.folder.path().join("in");
        rig.kept.note_device(&folder, 7).unwrap();
        assert_eq!(rig.kept.device(&folder), Some(7));
        assert_eq!(rig.kept.below(&folder), [path]);
    }
}
