//! Which files below a path hold resources: a walk that survives links, loops and things that aren't files.
//!
//! The controller and `edgectl x translate` both list with this, so that a folder means the same to both. What the
//! files hold is read elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

mod mount;

pub use mount::Mount;

/// Deepest nesting of folders: beyond it something is mounted into itself.
const MAX_DEPTH: usize = 64;
/// How often a walk begins anew because something moved while it was on its way.
const ATTEMPTS: usize = 5;
/// The system's error number for too many symbolic links.
const ELOOP: i32 = 40;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Files to read, with what tells one version of them from the next.
    pub files: BTreeMap<PathBuf, Stamp>,
    /// Folders whose events matter, each by its real path: a folder that several links lead to is watched once, and its
    /// events name that path.
    pub folders: BTreeSet<PathBuf>,
    /// Files and folders elsewhere that links inside, or on the way to a watched path, lead to: what happens there, or
    /// below, happens here.
    pub targets: BTreeSet<PathBuf>,
    /// Paths that can't be used, and why.
    pub problems: BTreeMap<PathBuf, String>,
    /// What is there and can't be looked at, so that what was known at or below it must not be taken for removed. A
    /// link that leads to nothing is there.
    pub unreadable: BTreeSet<PathBuf>,
    /// Whether some of them may become usable without an event.
    pub is_partial: bool,
    /// What the given paths lie on, and the folders below them where something else is mounted.
    pub mounts: BTreeMap<PathBuf, Mount>,
}

/// What tells one version of a file from the next, replaced ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Length in bytes.
    pub len: u64,
    id: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Whether both are of one file to which nobody has written in between, whatever it is called. Its number alone
    /// doesn't tell: systems give that of a removed file to the next one.
    pub fn is_of_same_text(&self, other: &Self) -> bool {
        (self.id, self.len, self.modified) == (other.id, other.len, other.modified)
    }

    /// What [`Self::is_of_same_text`] compares, as one word, to be written down.
    pub fn text_id(&self) -> String {
        let ((device, number), (seconds, nanos)) = (self.id, self.modified);
        format!("{device}:{number}:{}:{seconds}:{nanos}", self.len)
    }

    /// That of a file, by what the system says of it.
    pub fn of(meta: &Metadata) -> Self {
        Self {
            len: meta.len(),
            id: (meta.dev(), meta.ino()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// Lists files and folders below the given paths. A path may be a file, which is read whatever its name; in folders
/// only `.yaml`, `.yml` and `.json` count, and nothing whose name begins with a dot.
///
/// What is moved while it is walked is seen in neither place and would seem to be gone. So a walk that finds less than
/// it was told of is done again; a path where that goes on is one that can't be read now.
pub fn list(roots: &[PathBuf]) -> Listing {
    let mut walk = Walk::over(roots);
    for _ in 1..ATTEMPTS {
        if walk.torn.is_empty() {
            return walk.listing;
        }
        walk = Walk::over(roots);
    }
    for root in std::mem::take(&mut walk.torn) {
        walk.listing.is_partial = true;
        walk.listing.unreadable.insert(root.clone());
        walk.problem(&root, "it changes while it is listed".into());
    }
    walk.listing
}

/// The text of a file, or why it is none.
pub fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("it is no UTF-8 text (byte {at}); save it as UTF-8")
    })
}

/// A system error in plain words, without the number that only programmers read.
pub fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it doesn't exist".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::AddrInUse => "the address is in use".into(),
        io::ErrorKind::AddrNotAvailable => "this machine doesn't have that address".into(),
        io::ErrorKind::AlreadyExists => "something else of that name is in the way".into(),
        io::ErrorKind::NotADirectory => "a part of the path is a file".into(),
        _ => error.to_string(),
    }
}

/// Whether a file in a folder may hold resources.
fn may_hold_resources(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// Where a folder really lies. One that can't be told is taken as it is named.
fn real(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[derive(Default)]
struct Walk {
    listing: Listing,
    /// Roots below which something went while they were walked.
    torn: BTreeSet<PathBuf>,
    /// Folders that are being walked, outermost first.
    ancestors: Vec<(u64, u64)>,
    /// What the innermost of them lies on.
    mount: Option<Mount>,
}

impl Walk {
    fn over(roots: &[PathBuf]) -> Self {
        let mut walk = Self::default();
        for root in roots {
            if walk.root(root) == Sight::Torn {
                walk.torn.insert(root.clone());
            }
        }
        walk
    }

    fn root(&mut self, root: &Path) -> Sight {
        // The folder above tells when the path itself comes, goes or is replaced.
        let mut above = root.parent();
        while let Some(folder) = above {
            if folder.is_dir() {
                let real = real(folder);
                if real != folder
                    && let Ok(rest) = root.strip_prefix(folder)
                {
                    self.listing.targets.insert(real.join(rest));
                }
                self.listing.folders.insert(real);
                break;
            }
            above = folder.parent();
        }
        match fs::metadata(root) {
            Ok(meta) => {
                self.listing.mounts.insert(root.to_owned(), Mount::with(root, &meta));
                return self.entry(root, &meta, Named::ByUser);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !root.is_symlink() => {
                self.problem(root, "it doesn't exist; it will be read when it does".into());
            }
            Err(error) => self.unreadable(root, &error),
        }
        Sight::Whole
    }

    fn entry(&mut self, path: &Path, meta: &Metadata, named: Named) -> Sight {
        if meta.is_dir() {
            return self.folder(path, meta);
        }
        if named == Named::ByFolder && !may_hold_resources(path) {
            return Sight::Whole;
        }
        if meta.is_file() {
            self.follow_link(path);
            self.listing.files.insert(path.to_owned(), Stamp::of(meta));
        } else {
            // Reading from a pipe or a device may never end.
            self.listing.unreadable.insert(path.to_owned());
            let problem =
                "it is neither a file nor a folder; what it held stays in force until it is one, or is removed";
            self.problem(path, problem.into());
        }
        Sight::Whole
    }

    /// A linked file changes where it really lies.
    fn follow_link(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else { return };
        if real != path
            && let Some(folder) = real.parent()
        {
            self.listing.folders.insert(folder.to_owned());
            self.listing.targets.insert(real);
        }
    }

    fn folder(&mut self, path: &Path, meta: &Metadata) -> Sight {
        let id = (meta.dev(), meta.ino());
        if self.ancestors.contains(&id) {
            self.problem(
                path,
                "it is a symbolic link to a folder around it; remove the link".into(),
            );
            return Sight::Whole;
        }
        if self.ancestors.len() >= MAX_DEPTH {
            self.problem(
                path,
                format!("it lies more than {MAX_DEPTH} folders deep and is not looked into"),
            );
            return Sight::Whole;
        }
        let found = fs::read_dir(path).map(|entries| entries.map(|entry| entry.map(|entry| entry.path())));
        let mut entries: Vec<PathBuf> = match found.and_then(Iterator::collect) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Sight::Torn,
            Err(error) => {
                self.watch(path);
                self.unreadable(path, &error);
                return Sight::Whole;
            }
        };
        self.watch(path);
        entries.retain(|path| !is_hidden(path));
        entries.sort();
        let around = self.mount;
        let mount = Mount::with(path, meta);
        if around.is_some_and(|around| around != mount) {
            self.listing.mounts.insert(path.to_owned(), mount);
        }
        self.mount = Some(mount);
        self.ancestors.push(id);
        let mut sight = Sight::Whole;
        for path in entries {
            sight = sight.and(self.listed(&path));
        }
        self.ancestors.pop();
        self.mount = around;
        sight
    }

    /// A folder may be reached by a link.
    fn watch(&mut self, path: &Path) {
        let real = real(path);
        if real != path {
            self.listing.targets.insert(real.clone());
        }
        self.listing.folders.insert(real);
    }

    /// An entry that its folder has told of.
    fn listed(&mut self, path: &Path) -> Sight {
        match fs::metadata(path) {
            Ok(meta) => return self.entry(path, &meta, Named::ByFolder),
            // Whoever saves a file makes others that go at once: nobody's business unless it would have been read.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                if may_hold_resources(path) || path.extension().is_none() {
                    return Sight::Torn;
                }
            }
            // It may be a folder, or lead to one, whatever it is called.
            Err(error) => self.unreadable(path, &error),
        }
        Sight::Whole
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        let problem = match (error.raw_os_error(), error.kind()) {
            (Some(ELOOP), _) => "it is a symbolic link that leads back to itself; remove the link".into(),
            (_, io::ErrorKind::NotFound) => {
                "it is a symbolic link to nothing; what it led to stays in force until it does again, or the link is removed".into()
            }
            (_, io::ErrorKind::PermissionDenied) => "permission denied; make it readable for the controller".into(),
            _ => describe(error),
        };
        self.listing.unreadable.insert(path.to_owned());
        // What a link to nothing will lead to may come anywhere.
        self.listing.is_partial |= error.raw_os_error() != Some(ELOOP);
        self.problem(path, problem);
    }

    fn problem(&mut self, path: &Path, problem: String) {
        self.listing.problems.insert(path.to_owned(), problem);
    }
}

/// Who chose a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByUser,
    ByFolder,
}

/// Whether everything was still there when it was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Whole,
    Torn,
}

impl Sight {
    fn and(self, other: Self) -> Self {
        match self {
            Self::Whole => other,
            Self::Torn => Self::Torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(listing: &Listing, below: &Path) -> Vec<String> {
        listing
            .files
            .keys()
            .map(|path| path.strip_prefix(below).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn a_renamed_file_is_known_and_one_that_was_written_to_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a.yaml"), folder.path().join("b.yaml"));
        let stamp = |path: &Path| Stamp::of(&fs::metadata(path).unwrap());
        fs::write(&from, "one").unwrap();
        let before = stamp(&from);
        fs::rename(&from, &to).unwrap();
        assert!(stamp(&to).is_of_same_text(&before));
        assert_eq!(stamp(&to).text_id(), before.text_id());
        fs::write(&to, "three").unwrap();
        assert!(!stamp(&to).is_of_same_text(&before), "the number is the same");
        assert_ne!(stamp(&to).text_id(), before.text_id());
        fs::write(&from, "one").unwrap();
        assert!(!stamp(&from).is_of_same_text(&before), "the text is the same");
    }

    #[test]
    fn resource_files_are_found_at_any_depth_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("a/b/.hidden")).unwrap();
        for name in [
            "x.yaml",
            "a/y.YML",
            "a/b/z.json",
            "a/b/.hidden/h.yaml",
            ".x.yaml.swp",
            ".h.yaml",
            "notes.txt",
            "x.yaml~",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        fs::create_dir(root.join("folder.yaml")).unwrap();
        let listing = list(&[root.to_owned(), root.join("notes.txt")]);
        assert_eq!(names(&listing, root), ["a/b/z.json", "a/y.YML", "notes.txt", "x.yaml"]);
        assert!(listing.problems.is_empty(), "{:?}", listing.problems);
        assert!(listing.folders.contains(&root.join("a/b")) && listing.folders.contains(root.parent().unwrap()));
    }

    #[test]
    fn a_mounted_volume_is_read_through_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("..v1")).unwrap();
        fs::write(root.join("..v1/a.yaml"), "").unwrap();
        symlink("..v1", root.join("..data")).unwrap();
        symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
        let listing = list(std::slice::from_ref(&root));
        assert_eq!(names(&listing, &root), ["a.yaml"]);
        assert!(listing.targets.contains(&root.join("..v1/a.yaml")), "{listing:?}");
        assert!(listing.folders.contains(&root.join("..v1")), "{listing:?}");
    }

    #[test]
    fn folders_behind_links_are_watched_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("outside/sub")).unwrap();
        fs::create_dir(base.join("inside")).unwrap();
        fs::write(base.join("outside/sub/a.yaml"), "").unwrap();
        symlink("../outside", base.join("inside/link")).unwrap();
        symlink("outside", base.join("current")).unwrap();
        let listing = list(&[base.join("inside"), base.join("current")]);
        assert_eq!(names(&listing, &base), ["current/sub/a.yaml", "inside/link/sub/a.yaml"]);
        let folders = ["", "inside", "outside", "outside/sub"].map(|name| base.join(name));
        assert_eq!(listing.folders, folders.into());
        assert!(listing.targets.contains(&base.join("outside")), "{listing:?}");
        // The way to a watched path leads over a link.
        let listing = list(&[base.join("current/later")]);
        assert_eq!(listing.folders, [base.join("outside")].into());
        assert!(listing.targets.contains(&base.join("outside/later")), "{listing:?}");
    }

    #[test]
    fn loops_and_broken_links_are_told_once_and_cost_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/x.yaml"), "").unwrap();
        symlink("..", root.join("a/up")).unwrap();
        symlink("self.yaml", root.join("self.yaml")).unwrap();
        symlink("nowhere", root.join("broken.yaml")).unwrap();
        let listing = list(&[root.to_owned(), root.join("missing")]);
        assert_eq!(names(&listing, root), ["a/x.yaml"]);
        let problem = |name: &str| {
            listing
                .problems
                .get(&root.join(name))
                .map(String::as_str)
                .unwrap_or_default()
        };
        assert!(problem("a/up").contains("a folder around it; remove the link"));
        assert!(problem("self.yaml").contains("leads back to itself"));
        assert!(problem("broken.yaml").contains("to nothing"));
        let held = ["self.yaml", "broken.yaml"].map(|name| root.join(name));
        assert_eq!(listing.unreadable, held.into());
        assert!(listing.is_partial, "what a link leads to may come anywhere");
        assert!(problem("missing").contains("doesn't exist; it will be read when it does"));
        assert_eq!(listing.problems.len(), 4);
    }

    #[test]
    fn a_link_to_nothing_is_there_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        symlink("/nowhere/site", root.join("site")).unwrap();
        symlink("/nowhere/a.yaml", root.join("a.yaml")).unwrap();
        let listing = list(&[root.to_owned(), root.join("site"), root.join("gone")]);
        assert_eq!(
            listing.unreadable,
            ["site", "a.yaml"].map(|name| root.join(name)).into()
        );
        assert!(listing.is_partial);
    }

    #[test]
    fn what_is_no_file_any_more_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["device.yaml", "device.txt", "named"] {
            symlink("/dev/null", root.join(name)).unwrap();
        }
        fs::write(root.join("a.yaml"), "").unwrap();
        let listing = list(&[root.to_owned(), root.join("named")]);
        assert_eq!(names(&listing, root), ["a.yaml"]);
        let held = ["device.yaml", "named"].map(|name| root.join(name));
        assert_eq!(listing.unreadable, held.clone().into());
        for path in held {
            assert!(
                listing.problems[&path].contains("neither a file nor a folder"),
                "{listing:?}"
            );
        }
    }

    #[test]
    fn what_a_path_lies_on_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/a.yaml"), "").unwrap();
        let listing = list(&[root.to_owned(), root.join("sub/a.yaml"), root.join("gone")]);
        let here = Mount::of(root).unwrap();
        assert_eq!(
            listing.mounts,
            [(root.to_owned(), here), (root.join("sub/a.yaml"), here)].into()
        );
        assert_eq!(Mount::around(&root.join("gone/deep")), Some(here));
        assert_ne!(Mount::of(Path::new("/proc")), Some(here));
    }

    #[test]
    fn a_folder_that_is_moved_while_it_is_read_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let (here, away) = (folder.path().join("here"), folder.path().join("away"));
        fs::create_dir_all(here.join("deep")).unwrap();
        fs::write(here.join("deep/x.yaml"), "").unwrap();
        let roots = [here.clone()];
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                for _ in 0..5_000 {
                    fs::rename(&here, &away).unwrap();
                    fs::rename(&away, &here).unwrap();
                }
            });
            while !mover.is_finished() {
                let listing = list(&roots);
                let is_seen = !listing.files.is_empty() && listing.folders.contains(&here);
                assert!(is_seen || listing.problems.contains_key(&here), "{listing:?}");
            }
        });
    }
}
