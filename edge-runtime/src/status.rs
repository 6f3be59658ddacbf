//! Statuses in standalone mode: one document about every object, as a file and as a page.
//!
//! The task here gathers what others know (the translation's statuses, the infrastructure's reports, what proxies have
//! rejected, what is wrong with the files), lets [`book`] lay it together, and writes `status.yaml` in one step a
//! moment after the last change. The wording of statuses is the translation's; only what a translation can't know,
//! whether proxies run and accept it, is added here ([`overlay`]). In a cluster another task of the same inputs writes
//! the statuses back to the objects.

use crate::{
    error::describe,
    metrics::{Counter, Metrics, Timer},
    state::{Findings, Published, Rejections, Reports, StatusMessage},
    task::Stop,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{fs, io, path::Path, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};

pub mod book;
pub mod overlay;
#[cfg(test)]
mod tests;

use book::Book;

/// Quiet that is waited for before the file is written.
const QUIET: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Where the task hears from others.
#[derive(Debug)]
pub struct Sources {
    /// Statuses and questions.
    pub messages: mpsc::Receiver<StatusMessage>,
    /// Which fleet serves which Gateway.
    pub published: watch::Receiver<Option<Arc<Published>>>,
    /// How the fleets' proxies are; `None`: nobody looks after proxies here.
    pub reports: watch::Receiver<Option<Reports>>,
    /// What proxies have rejected.
    pub rejections: watch::Receiver<Rejections>,
    /// What is wrong with the files.
    pub findings: watch::Receiver<Findings>,
}

/// Gathers and writes until asked to stop; then the file is written a last time.
pub async fn run(mut sources: Sources, path: PathBuf, metrics: Arc<Metrics>, mut stop: Stop) {
    let mut book = Book::new(read(&path));
    let mut file = StatusFile {
        path,
        metrics,
        problem: None,
    };
    let mut pending: Option<(Instant, Instant)> = None;
    loop {
        let due = pending.map(|(first, last)| (first + LONGEST).min(last + QUIET));
        tokio::select! {
            () = stop.requested() => break,
            message = sources.messages.recv() => match message {
                Some(StatusMessage::Statuses(changes)) => book.set_statuses(changes),
                Some(StatusMessage::Read(answer)) => {
                    book.refresh(&now());
                    // Who asked may be gone.
                    let _ = answer.send(book.document());
                    continue;
                }
                None => break,
            },
            Ok(()) = sources.published.changed() => {
                let published = sources.published.borrow_and_update().clone();
                book.set_fleets(published.as_deref());
            }
            Ok(()) = sources.reports.changed() => {
                let reports = sources.reports.borrow_and_update().clone();
                book.set_reports(reports);
            }
            Ok(()) = sources.rejections.changed() => {
                let rejections = sources.rejections.borrow_and_update().clone();
                book.set_rejections(&rejections);
            }
            Ok(()) = sources.findings.changed() => {
                let findings = Arc::clone(&sources.findings.borrow_and_update());
                book.set_findings(findings);
            }
            () = at(due) => {
                pending = None;
                file.follow(&mut book).await;
                continue;
            }
        }
        let now = Instant::now();
        pending = Some((pending.map_or(now, |(first, _)| first), now));
    }
    file.follow(&mut book).await;
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn now() -> String {
    format!("{:.0}", Timestamp::now())
}

/// The document of an earlier run: it knows since when statuses have held. Anything unreadable is as good as nothing.
fn read(path: &Path) -> Option<Value> {
    serde_yaml::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// The document as YAML.
pub fn to_yaml(document: &Value) -> String {
    serde_yaml::to_string(document).unwrap_or_else(|error| format!("# the status can't be written as YAML: {error}\n"))
}

struct StatusFile {
    path: PathBuf,
    metrics: Arc<Metrics>,
    /// What went wrong last, so that it is told once.
    problem: Option<String>,
}

impl StatusFile {
    /// Writes what has changed in the book. What can't be written is tried again with the next change.
    async fn follow(&mut self, book: &mut Book) {
        book.refresh(&now());
        let Some(document) = book.take_changed() else { return };
        let begun = Instant::now();
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || replace(&path, &document)).await;
        match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => {
                self.metrics.count(Counter::StatusUpdates);
                self.metrics.observe(Timer::StatusWrite, begun.elapsed());
                self.problem = None;
            }
            Err(error) => {
                self.metrics.count(Counter::StatusFailures);
                book.keep_changed();
                let reason = describe(&error);
                if self.problem.as_ref() != Some(&reason) {
                    let path = self.path.display();
                    tracing::error!(
                        "status file {path} can't be written: {reason}; make its folder writable or set \
                         provider.custom.infrastructure.host.stateHome (the admin page /status has the statuses)"
                    );
                    self.problem = Some(reason);
                }
            }
        }
    }
}

/// Puts a new file in the place of the old one, so that nobody reads half of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension("yaml.partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}
