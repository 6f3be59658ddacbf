//! Where a proxy's output goes.
//!
//! The process writes to the file itself, so that its log survives the controller and costs it nothing. What it writes
//! is appended, which makes it safe to cut the file under it: the older part moves to `<name>.old`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// Size at which a file is cut.
pub(super) const LIMIT: u64 = 64 << 20;
/// Length of what is quoted from a log in a message.
const TAIL: usize = 300;
/// How far back what may be quoted is looked for.
const SEARCHED: u64 = 64 << 10;

/// Opens a fleet's log for appending, below the first of the folders that can be written to.
pub(super) fn open(folders: &[&Path], name: &str) -> io::Result<(File, PathBuf)> {
    let mut refusal = io::Error::from(io::ErrorKind::NotFound);
    for folder in folders {
        let path = folder.join(format!("{name}.log"));
        let file = fs::create_dir_all(folder).and_then(|()| OpenOptions::new().append(true).create(true).open(&path));
        match file {
            Ok(file) => return Ok((file, path)),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// Moves the content of a file that has grown beyond `limit` aside.
pub(super) fn trim(path: &Path, limit: u64) -> io::Result<()> {
    if fs::metadata(path)?.len() <= limit {
        return Ok(());
    }
    fs::copy(path, path.with_extension("log.old"))?;
    OpenOptions::new().write(true).open(path)?.set_len(0)
}

/// The end of what was written behind `start`, as one line that fits into a message. Entries of access logs are none of
/// it: the proxy whose place another is to take goes on writing them into the same file.
pub(super) fn last_words(path: &Path, start: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let end = file.metadata().ok()?.len();
    let from = end.saturating_sub(SEARCHED).max(start);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut tail = Vec::new();
    file.take(SEARCHED).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    // The first line is whole where the program's own words begin.
    let lines = text.lines().skip(usize::from(from > start)).map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('{'))
        .collect();
    let said = lines.join(" | ");
    let cut = said.ceil_char_boundary(said.len().saturating_sub(TAIL));
    said.get(cut..).filter(|words| !words.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_long_log_moves_aside_under_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, path) = open(&[folder.path()], "a").unwrap();
        file.write_all(b"first\nsecond\n").unwrap();
        assert_eq!(last_words(&path, 0).as_deref(), Some("first | second"));
        trim(&path, 100).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 13, "short enough");
        trim(&path, 10).unwrap();
        file.write_all(b"third\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third\n");
        assert_eq!(fs::read(folder.path().join("a.log.old")).unwrap(), b"first\nsecond\n");
        assert_eq!(last_words(&path, 6), None, "nothing was written since");
        file.write_all(b"error: no such flag\n{\"method\":\"GET\"}\n").unwrap();
        let words = last_words(&path, 6);
        assert_eq!(
            words.as_deref(),
            Some("error: no such flag"),
            "another proxy wrote the rest"
        );
        file.write_all("\u{e4}".repeat(400).as_bytes()).unwrap();
        assert_eq!(last_words(&path, 6), Some("\u{e4}".repeat(150)));
    }

    #[test]
    fn the_next_folder_serves_when_one_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        fs::write(&blocked, "").unwrap();
        let (_, path) = open(&[&blocked.join("logs"), folder.path()], "a").unwrap();
        assert_eq!(path, folder.path().join("a.log"));
        assert!(open(&[&blocked.join("logs")], "a").is_err());
    }
}
