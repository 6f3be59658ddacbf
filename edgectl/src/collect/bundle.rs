//! The archive, as it grows.

use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Write};
use tar::{Builder, EntryType, Header};

/// An archive in memory. It is small when compressed, and a file that is there is complete.
pub(super) struct Bundle {
    /// The folder that all files are in.
    name: String,
    archive: Builder<GzEncoder<Vec<u8>>>,
    /// What couldn't be had, a line each.
    problems: String,
}

impl Bundle {
    /// One without files.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            archive: Builder::new(GzEncoder::new(Vec::new(), Compression::default())),
            problems: String::new(),
        }
    }

    /// Adds a file, or says why it is missing.
    pub(super) fn add(&mut self, path: &str, content: Result<impl AsRef<[u8]>>) {
        let added = content.and_then(|content| self.append(path, content.as_ref()));
        if let Err(problem) = added {
            self.tell(&format!("{path}: {problem:#}"));
        }
    }

    /// Says what is missing.
    pub(super) fn tell(&mut self, problem: &str) {
        // Standard error may be closed; the archive has it in any case.
        let _ = writeln!(io::stderr(), "warning: {problem}");
        self.problems.push_str(problem);
        self.problems.push('\n');
    }

    fn append(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        let path = format!("{}/{path}", self.name);
        Ok(self.archive.append_data(&mut header, path, content)?)
    }

    /// The whole archive.
    ///
    /// # Errors
    /// When something can't be added.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        if !self.problems.is_empty() {
            let problems = std::mem::take(&mut self.problems);
            self.append("problems.txt", problems.as_bytes())?;
        }
        Ok(self.archive.into_inner()?.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use flate2::read::GzDecoder;
    use std::{collections::BTreeMap, io::Read};

    #[test]
    fn the_archive_has_what_was_added_and_says_what_is_missing() {
        let mut bundle = Bundle::new("b");
        bundle.add("a/one.txt", Ok("1"));
        bundle.add(
            "a/two.txt",
            Err::<&str, _>(anyhow!("forbidden").context("can't be read")),
        );
        let archive = bundle.finish().unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(archive.as_slice()));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(path, text);
        }
        let wanted = [
            ("b/a/one.txt", "1"),
            ("b/problems.txt", "a/two.txt: can't be read: forbidden\n"),
        ];
        assert_eq!(
            files,
            wanted.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
        );
    }
}
