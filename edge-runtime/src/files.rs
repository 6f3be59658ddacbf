//! Files that others follow: each is replaced in one step, so that nobody reads half of it.

use std::{fs, io, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

/// What stands behind the name of a file that isn't whole yet.
pub(crate) const PARTIAL: &str = ".partial";

/// Puts a new file with these permissions in the place of the old one, by a rename. Its folder must be there.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL);
    let partial = Path::new(&partial);
    // A leftover of an interrupted run would keep its own permissions.
    match fs::remove_file(partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(partial, content, mode).and_then(|()| fs::rename(partial, path));
    if written.is_err() {
        // Half a file helps nobody, least of all where there is no room. What went wrong first is what is told.
        let _ = fs::remove_file(partial);
    }
    written
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_has_the_new_permissions_whatever_an_interrupted_run_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tls.key");
        fs::write(folder.path().join("tls.key.partial"), "half").unwrap();
        fs::write(&path, "old").unwrap();
        replace(&path, b"new", 0o600).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn what_cannot_be_put_in_place_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("status.yaml");
        fs::create_dir(&path).unwrap();
        replace(&path, b"new", 0o644).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
