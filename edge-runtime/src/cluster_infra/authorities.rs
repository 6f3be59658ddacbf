//! The authorities behind the controller's certificate, as fleets in other namespaces are given them.

use crate::{error::describe, trouble::Trouble};
use std::{fs, path::PathBuf};

/// The file, and what it said last.
pub(super) struct Authorities {
    file: PathBuf,
    text: Option<String>,
    trouble: Trouble,
}

impl Authorities {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            text: None,
            trouble: Trouble::default(),
        }
    }

    /// Reads the file. Says whether it says something else than before; one that can't be read, or says nothing,
    /// changes nothing.
    pub(super) fn look(&mut self) -> bool {
        let read = fs::read_to_string(&self.file).map_err(|error| describe(&error));
        let text = read.and_then(|text| match text.contains("-----BEGIN CERTIFICATE-----") {
            true => Ok(text),
            false => Err("no certificate is in it".to_owned()),
        });
        match text {
            Ok(text) => {
                if self.trouble.ends() {
                    tracing::info!(file = %self.file.display(), "the authorities for proxies are read again");
                }
                let is_other = self.text.as_ref() != Some(&text);
                self.text = Some(text);
                is_other
            }
            Err(reason) => {
                if self.trouble.begins(&reason) {
                    let file = self.file.display();
                    tracing::error!(%file, "the authorities for proxies can't be read: {reason}; those from before stay in force");
                }
                false
            }
        }
    }

    /// What it said last; nothing if it never could be read.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let mut authorities = Authorities::new(file.clone());
        assert!(!authorities.look());
        assert_eq!(authorities.text(), None);
        let first = "-----BEGIN CERTIFICATE-----\n1";
        fs::write(&file, first).unwrap();
        assert!(authorities.look());
        assert!(!authorities.look(), "it says the same");
        fs::write(&file, "").unwrap();
        assert!(!authorities.look());
        fs::remove_file(&file).unwrap();
        assert!(!authorities.look());
        assert_eq!(authorities.text(), Some(first));
    }
}
