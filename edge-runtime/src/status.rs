//! Statuses in standalone mode: one document about every object, as a file and as a page.
//!
//! The task here gathers what others know (the translation's statuses, the infrastructure's reports, what proxies have
//! rejected, what is wrong with the files), lets [`book`] lay it together, makes a [`document`] of what changed, logs
//! what turned bad or good ([`faults`]), and writes `status.yaml` in one step a moment after the last change. Nobody
//! waits for it: what it hasn't read yet is overwritten by the latest. The wording of statuses is the translation's;
//! only what a translation can't know, whether proxies run and accept it, is added here ([`overlay`]). In a cluster
//! another task of the same inputs writes the statuses back to the objects ([`writer`]).

use crate::{
    due,
    error::describe,
    files::replace,
    metrics::{Counter, Metrics, Timer},
    state::{Deliveries, Findings, Ledger, Published, Rejections, Reports},
    task::Stop,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{fs, io, path::Path, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

pub mod book;
pub mod document;
pub mod faults;
pub mod overlay;
#[cfg(test)]
mod tests;
pub mod writer;

use book::Book;
use document::Document;
use faults::{News, StandingFaults};

/// Quiet that is waited for before the file is written.
const QUIET: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);
/// How long after a failure the file is tried again: what keeps it from being written, such as a full disk, ends
/// without telling anybody.
const AGAIN: Duration = Duration::from_secs(2);

/// Somebody wants to read the document as it is now.
pub type DocumentRequest = oneshot::Sender<Value>;

/// Where the task hears from others.
#[derive(Debug)]
pub struct Sources {
    /// What translation says.
    pub ledger: Arc<Ledger>,
    /// Who wants to read the document.
    pub requests: mpsc::Receiver<DocumentRequest>,
    /// Which fleet serves which Gateway.
    pub published: watch::Receiver<Option<Arc<Published>>>,
    /// How the fleets' proxies are; `None`: nobody looks after proxies here.
    pub reports: watch::Receiver<Option<Reports>>,
    /// What proxies have rejected.
    pub rejections: watch::Receiver<Rejections>,
    /// What connected proxies serve.
    pub deliveries: watch::Receiver<Deliveries>,
    /// What is wrong with the files.
    pub findings: watch::Receiver<Findings>,
}

/// What asks the task to end.
#[derive(Debug)]
pub struct End {
    /// The proxies are about to be told to leave. What they reject and serve is forgotten as they go, which mends
    /// nothing: so it stays as it was said, and nobody is told that anything is all right again.
    pub leaving: Stop,
    /// The file is to be written a last time.
    pub stop: Stop,
}

/// Gathers and writes until asked to stop.
pub async fn run(mut sources: Sources, path: PathBuf, metrics: Arc<Metrics>, end: End) {
    let End { leaving, mut stop } = end;
    let mut desk = Desk {
        ledger: Arc::clone(&sources.ledger),
        book: Book::default(),
        document: Document::new(read(&path)),
        told: StandingFaults::default(),
        leaving,
    };
    let mut news = sources.ledger.news();
    sources.ledger.begin();
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
            Some(reply) = sources.requests.recv() => {
                desk.refresh(&now());
                // Who asked may be gone.
                let _ = reply.send(desk.document.value());
                continue;
            }
            () = news.changed() => {}
            Ok(()) = sources.published.changed() => {
                let published = sources.published.borrow_and_update().clone();
                desk.book.set_fleets(published.as_deref());
            }
            Ok(()) = sources.reports.changed() => {
                let reports = sources.reports.borrow_and_update().clone();
                desk.book.set_reports(reports);
            }
            Ok(()) = sources.rejections.changed() => {
                let rejections = sources.rejections.borrow_and_update().clone();
                if !desk.leaving.is_requested() {
                    desk.book.set_rejections(&rejections);
                }
            }
            Ok(()) = sources.deliveries.changed() => {
                let deliveries = sources.deliveries.borrow_and_update().clone();
                if !desk.leaving.is_requested() {
                    desk.book.set_deliveries(&deliveries);
                }
            }
            Ok(()) = sources.findings.changed() => {
                let findings = Arc::clone(&sources.findings.borrow_and_update());
                desk.document.set_findings(findings);
            }
            () = due::at(due) => {
                let written = file.follow(&mut desk).await;
                let again = Instant::now() + AGAIN;
                pending = (written == Written::Failed).then_some((again, again));
                continue;
            }
        }
        let now = Instant::now();
        pending = Some((pending.map_or(now, |(first, _)| first.min(now)), now));
    }
    file.follow(&mut desk).await;
}

/// What the task knows, and what it makes of that.
struct Desk {
    ledger: Arc<Ledger>,
    book: Book,
    document: Document,
    told: StandingFaults,
    leaving: Stop,
}

impl Desk {
    /// Brings the document in line with the facts, and logs what turned.
    fn refresh(&mut self, now: &str) {
        self.book.set_statuses(self.ledger.take());
        for key in self.book.take_stale() {
            let effective = self.book.effective(&key);
            let place = self.ledger.place(&key);
            let status = effective.as_ref().map(|effective| &effective.status);
            for news in self.told.follow(&key, status, place.as_ref()) {
                match news {
                    _ if self.leaving.is_requested() => {}
                    News::Bad(line) => tracing::warn!("{line}"),
                    News::Good(line) => tracing::info!("{line}"),
                }
            }
            self.document.set(key, effective.as_ref(), now);
        }
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

/// What became of an attempt to write the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It says what there is to say.
    Whole,
    /// It says what it said before.
    Failed,
}

impl StatusFile {
    /// Writes what has changed.
    async fn follow(&mut self, desk: &mut Desk) -> Written {
        desk.refresh(&now());
        let Some(document) = desk.document.take_changed() else {
            return Written::Whole;
        };
        let begun = Instant::now();
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &document)).await;
        match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => {
                self.metrics.count(Counter::StatusUpdates);
                self.metrics.observe(Timer::StatusWrite, begun.elapsed());
                self.problem = None;
                Written::Whole
            }
            Err(error) => {
                self.metrics.count(Counter::StatusFailures);
                desk.document.keep_changed();
                let reason = describe(&error);
                if self.problem.as_ref() != Some(&reason) {
                    let path = self.path.display();
                    tracing::error!(
                        "status file {path} can't be written: {reason}; make its folder writable or set \
                         provider.custom.infrastructure.host.stateHome (the admin page /status has the statuses)"
                    );
                    self.problem = Some(reason);
                }
                Written::Failed
            }
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    replace(path, text.as_bytes(), 0o644)
}
