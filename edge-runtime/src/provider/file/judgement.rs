//! What an API server would say of the files, so that a folder and a cluster don't differ unseen. The judgement is made
//! beside the provider's work, which never waits for it: rules in CEL take half a millisecond an object.

use edge_admission::{Channel, Judge};
use edge_files::Stamp;
use edge_translate::load::{LoadFinding, Source};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};
use tokio::task::JoinHandle;

/// Files that are judged in one go.
const AT_ONCE: usize = 64;

/// The files as they were judged last.
#[derive(Default)]
pub(super) struct Judgement {
    files: BTreeMap<PathBuf, Judged>,
    task: Option<JoinHandle<Vec<(PathBuf, Judged)>>>,
    /// A judgement has stopped in the midst, for a fault of ours: there are no more.
    is_over: bool,
}

struct Judged {
    /// None: never yet.
    stamp: Option<Stamp>,
    judge: Judge,
    findings: Vec<LoadFinding>,
}

impl Default for Judged {
    fn default() -> Self {
        Self {
            stamp: None,
            // Whatever is settled or may still change: the controller reads both.
            judge: Judge::new(Channel::Experimental),
            findings: Vec::new(),
        }
    }
}

impl Judged {
    /// Judges the file's present text. What can't be read is told elsewhere.
    fn renew(&mut self, path: &PathBuf, stamp: Stamp) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let name = path.display().to_string();
        self.findings = self.judge.judge(&Source {
            name: &name,
            text: &text,
        });
        self.stamp = Some(stamp);
    }
}

impl Judgement {
    /// Has files judged that are new or have changed, unless some are just being judged.
    pub(super) fn follow(&mut self, files: &BTreeMap<PathBuf, Stamp>) {
        self.files.retain(|path, _| files.contains_key(path));
        if self.task.is_some() || self.is_over {
            return;
        }
        let is_due = |(path, stamp): &(&PathBuf, &Stamp)| {
            let judged = self.files.get(*path).and_then(|judged| judged.stamp);
            judged != Some(**stamp)
        };
        let due: Vec<_> = files.iter().filter(is_due).take(AT_ONCE).collect();
        let due: Vec<_> = due
            .into_iter()
            .map(|(path, stamp)| (path.clone(), *stamp, self.files.remove(path).unwrap_or_default()))
            .collect();
        if due.is_empty() {
            return;
        }
        self.task = Some(tokio::task::spawn_blocking(move || {
            let judged = due.into_iter().map(|(path, stamp, mut judged)| {
                judged.renew(&path, stamp);
                (path, judged)
            });
            judged.collect()
        }));
    }

    /// Waits for the end of the judgement that is being made; for ever if none is.
    pub(super) async fn made(&mut self) {
        let Some(task) = &mut self.task else {
            return std::future::pending().await;
        };
        let made = task.await;
        self.task = None;
        match made {
            Ok(judged) => self.files.extend(judged),
            Err(error) => {
                tracing::error!(%error, "files are no longer judged as an API server would");
                self.is_over = true;
            }
        }
    }

    /// What was found, except on lines of which something is said already. Of a file that has changed since, what is
    /// known stays until it is judged again, and nothing is new.
    pub(super) fn findings(
        &self,
        told: &[LoadFinding],
        files: &BTreeMap<PathBuf, Stamp>,
        known: &[LoadFinding],
    ) -> Vec<LoadFinding> {
        let lines: BTreeSet<_> = told.iter().map(|told| (&*told.file, told.line)).collect();
        let all = self.files.iter().flat_map(|(path, judged)| {
            let is_current = judged.stamp.as_ref() == files.get(path);
            let found = judged.findings.iter();
            found.filter(move |found| is_current || known.contains(found))
        });
        all.filter(|found| !lines.contains(&(&*found.file, found.line)))
            .cloned()
            .collect()
    }
}
