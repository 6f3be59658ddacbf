//! Statuses in a cluster: written into the objects, by the leader alone.
//!
//! The same facts as in standalone mode are laid together in the [`book`](super::book); what then differs from what an
//! object carries ([`Mirror`]) is written, a moment after the last change: each object once, however much has changed
//! about it, and never two writes of one object at a time ([`lay`] says what to write); where only counts have changed,
//! they may wait ([`counts`]). A class may have to be held before anything is said of it ([`hold`]). A write on top of
//! something that we haven't seen is refused by the API server, looked at again and repeated. What can't be written is
//! told once and tried again. Nobody waits for this task.

use super::{
    Sources,
    book::{Book, Effective},
    document::Document,
    faults::{News, StandingFaults},
    now,
};
use crate::{
    cluster::{Api, Served},
    due,
    metrics::{Counter, Gauge, Metrics, Timer},
    state::{Leadership, Ledger, Mirror, Published, Rejections},
    task::Stop,
    trouble::Trouble,
};
use edge_translate::{api::ObjectKey, status::StatusBody};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use kube::{Api as Objects, api::DynamicObject};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

mod attempt;
mod counts;
mod events;
mod failures;
mod hold;
mod lay;
#[cfg(test)]
mod tests;

use attempt::{Done, Failure, Outcome};
use counts::Counts;
use events::Events;
use failures::Failures;
use hold::{Unheld, Use};
use lay::{Needed, Part, Says};

/// Quiet that is waited for before statuses are written.
const QUIET: Duration = Duration::from_millis(50);
/// The longest wait.
const LONGEST: Duration = Duration::from_millis(500);
/// Writes at a time.
const WRITES: usize = 16;
/// How often in a row the writes of others may come in between before it is taken for a failure.
const CONFLICTS: u32 = 3;

/// What this writer needs of the cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Its API server.
    pub api: Api,
    /// The name that marks our entries.
    pub controller_name: Arc<str>,
    /// What objects carry.
    pub mirror: Arc<Mirror>,
    /// Whether this replica writes.
    pub leadership: watch::Receiver<Leadership>,
    /// At which versions kinds are served.
    pub served: watch::Receiver<Option<Arc<Served>>>,
}

/// Gathers, and writes while this replica leads, until asked to stop.
pub async fn run(mut sources: Sources, cluster: Cluster, metrics: Arc<Metrics>, mut stop: Stop) {
    let mut leadership = cluster.leadership.clone();
    let (mut statuses, mut carried) = (sources.ledger.news(), cluster.mirror.news());
    sources.ledger.begin();
    cluster.mirror.begin();
    leadership.mark_changed();
    let mut writer = Writer::new(cluster, &sources, metrics);
    loop {
        let (due, again, counted) = (writer.due(), writer.failures.due(), writer.counts.due());
        tokio::select! {
            () = stop.requested() => return,
            Some(reply) = sources.requests.recv() => {
                // Who asked may be gone.
                let _ = reply.send(writer.document());
            }
            () = statuses.changed() => writer.note_change(),
            () = carried.changed() => writer.note_change(),
            Ok(()) = sources.published.changed() => {
                let published = sources.published.borrow_and_update().clone();
                writer.publish(published.as_deref());
            }
            Ok(()) = sources.reports.changed() => {
                let reports = sources.reports.borrow_and_update().clone();
                writer.book.set_reports(reports);
                writer.note_change();
            }
            Ok(()) = sources.rejections.changed() => {
                let rejections = sources.rejections.borrow_and_update().clone();
                writer.book.set_rejections(&rejections);
                writer.rejections = rejections;
                writer.note_change();
            }
            Ok(()) = sources.deliveries.changed() => {
                let deliveries = sources.deliveries.borrow_and_update().clone();
                writer.book.set_deliveries(&deliveries);
                writer.note_change();
            }
            Ok(()) = leadership.changed() => writer.lead(*leadership.borrow_and_update()),
            Some(done) = writer.writes.next() => writer.end_write(done),
            () = writer.events.ended() => {}
            () = due::at(due) => writer.refresh(),
            () = due::at(again) => writer.try_again(),
            () = due::at(counted) => writer.queue.append(&mut writer.counts.due_at(Instant::now())),
        }
        writer.start_writes();
    }
}

struct Writer {
    cluster: Cluster,
    ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
    book: Book,
    told: StandingFaults,
    events: Events,
    rejections: Rejections,
    leadership: Leadership,
    /// Whether everything that we have to say is in the ledger.
    is_published: bool,
    /// Whether the book has it: what we have nothing to say about isn't known before.
    is_ready: bool,
    /// The first and the last change since the facts were laid together.
    pending: Option<(Instant, Instant)>,
    queue: BTreeSet<ObjectKey>,
    writing: BTreeSet<ObjectKey>,
    writes: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Where only counts have changed.
    counts: Counts,
    /// What couldn't be written, and is tried again.
    failures: Failures,
    /// How often in a row others have written something meanwhile.
    conflicts: BTreeMap<ObjectKey, u32>,
    /// What the API server doesn't take.
    refused: BTreeMap<(ObjectKey, Part), Trouble>,
    unheld: Unheld,
}

impl Writer {
    fn new(cluster: Cluster, sources: &Sources, metrics: Arc<Metrics>) -> Self {
        let book = Book::among_others(Arc::clone(&cluster.controller_name));
        Self {
            events: Events::default(),
            cluster,
            ledger: Arc::clone(&sources.ledger),
            metrics,
            book,
            told: StandingFaults::default(),
            rejections: Rejections::new(),
            leadership: Leadership::Following,
            is_published: false,
            is_ready: false,
            pending: None,
            queue: BTreeSet::new(),
            writing: BTreeSet::new(),
            writes: FuturesUnordered::new(),
            counts: Counts::default(),
            failures: Failures::default(),
            conflicts: BTreeMap::new(),
            refused: BTreeMap::new(),
            unheld: Unheld::default(),
        }
    }

    /// Fleets are as translation says. All that is said of objects was put into the ledger before.
    fn publish(&mut self, published: Option<&Published>) {
        self.is_published |= published.is_some();
        self.book.set_fleets(published);
        self.note_change();
    }

    /// Something has changed.
    fn note_change(&mut self) {
        let now = Instant::now();
        self.pending = Some((self.pending.map_or(now, |(first, _)| first), now));
    }

    fn due(&self) -> Option<Instant> {
        self.pending.map(|(first, last)| (first + LONGEST).min(last + QUIET))
    }

    /// Lays the facts together, and queues what may have to be written.
    fn refresh(&mut self) {
        self.pending = None;
        self.book.set_statuses(self.ledger.take());
        self.is_ready = self.is_published;
        let mut stale = self.cluster.mirror.take();
        stale.extend(self.book.take_stale());
        for key in &stale {
            self.unheld.ask_again(key);
            let effective = self.effective(key);
            for news in self.told.follow(key, effective.as_ref().map(|it| &it.status), None) {
                match news {
                    News::Bad(line) => tracing::warn!("{line}"),
                    News::Good(line) => tracing::info!("{line}"),
                }
            }
        }
        // Who begins to lead looks at everything, so who doesn't has nothing to remember.
        if self.leadership == Leadership::Leading {
            self.queue.extend(stale);
            self.events.follow(&self.rejections, &self.book, &self.cluster);
        } else {
            self.book.leave_to_others();
        }
    }

    fn effective(&self, key: &ObjectKey) -> Option<Effective> {
        match self.cluster.mirror.malformed(key) {
            Some(malformed) => self.book.effective_of_malformed(key, &malformed),
            None => self.book.effective(key),
        }
    }

    /// Stops at once, or begins with everything: what was written meanwhile, and by whom, isn't known.
    fn lead(&mut self, now: Leadership) {
        let before = std::mem::replace(&mut self.leadership, now);
        self.metrics
            .set(Gauge::Leading, usize::from(now == Leadership::Leading));
        if before == now {
            return;
        }
        self.writes.clear();
        self.writing.clear();
        self.queue.clear();
        self.counts.clear();
        self.failures.clear();
        self.conflicts.clear();
        self.refused.clear();
        self.unheld.clear();
        self.events.clear();
        if now == Leadership::Leading {
            self.cluster.mirror.begin();
            self.note_change();
        }
    }

    /// Begins as many writes as may run at a time, and tells how many there still are.
    fn start_writes(&mut self) {
        self.start_next_writes();
        // After that, for much of what is queued turns out to be written already.
        let waiting = self.queue.len() + self.writing.len() + self.counts.waiting();
        self.metrics.set(Gauge::StatusesWaiting, waiting);
    }

    fn start_next_writes(&mut self) {
        if self.leadership == Leadership::Following || !self.is_ready {
            return;
        }
        while self.writing.len() < WRITES {
            // One write of an object at a time: its next waits for the end of this one.
            let Some(key) = self.queue.iter().find(|key| !self.writing.contains(*key)).cloned() else {
                return;
            };
            self.queue.remove(&key);
            self.start_write(key);
        }
    }

    fn start_write(&mut self, key: ObjectKey) {
        let Some((objects, base, needed)) = self.needed(&key) else {
            self.book.said(&key);
            return self.note_settled(&key);
        };
        if needed.says == Says::Counts && !self.counts.may_be_written(&key, Instant::now()) {
            return;
        }
        self.counts.over(&key);
        self.writing.insert(key.clone());
        self.writes.push(attempt::write(objects, key, base, needed).boxed());
    }

    /// What has to be written of an object, where, and on top of which version. Nothing if it is gone, or carries it.
    fn needed(&self, key: &ObjectKey) -> Option<(Objects<DynamicObject>, Arc<str>, Needed)> {
        let seen = self.cluster.mirror.seen(key)?;
        let effective = self.effective(key);
        let controller = &self.cluster.controller_name;
        let hold = || match self.unheld.contains(key) {
            true => None,
            false => hold::needed(&seen, self.used(key, effective.as_ref()?)?),
        };
        let needed = hold().or_else(|| lay::needed(key, effective.as_ref(), &seen, controller, &now()))?;
        Some((objects(&self.cluster, key)?, seen.version, needed))
    }

    /// Whether a class is held as it should be, by what it carries now.
    fn is_held(&self, key: &ObjectKey) -> bool {
        let needed = || {
            let seen = self.cluster.mirror.seen(key)?;
            hold::needed(&seen, self.used(key, &self.effective(key)?)?)
        };
        needed().is_none()
    }

    /// Whether a class of ours is in use.
    fn used(&self, key: &ObjectKey, effective: &Effective) -> Option<Use> {
        let is_ours = matches!(effective.status.body, StatusBody::Class(_));
        is_ours.then(|| match self.book.has_gateways(&key.name) {
            true => Use::Used,
            false => Use::Unused,
        })
    }

    /// An object needs nothing more, or nothing that could be written.
    fn note_settled(&mut self, key: &ObjectKey) {
        self.counts.over(key);
        self.conflicts.remove(key);
        self.refused.remove(&(key.clone(), Part::Status));
        if self.unheld.contains(key) {
            return;
        }
        self.refused.remove(&(key.clone(), Part::Metadata));
        if self.failures.over(key) {
            tracing::info!("statuses can be written again");
        }
    }

    fn end_write(&mut self, done: Done) {
        let Done {
            key,
            base,
            begun,
            part,
            outcome,
        } = done;
        self.writing.remove(&key);
        match outcome {
            Outcome::Written(seen) => {
                self.conflicts.remove(&key);
                tracing::debug!(object = %key, ?part, "written");
                self.cluster.mirror.wrote(&key, &base, seen);
                self.note_written(key, part, begun);
            }
            Outcome::Stale(seen) => {
                self.metrics.count(Counter::StatusConflicts);
                self.cluster.mirror.wrote(&key, &base, seen);
                self.note_conflict(key, part);
            }
            Outcome::Gone => {
                self.unheld.ask_again(&key);
                self.book.said(&key);
                self.note_settled(&key);
            }
            Outcome::Refused(reason) => {
                if part == Part::Metadata || !self.unheld.contains(&key) {
                    self.failures.refused(key.clone(), Instant::now());
                }
                self.refuse(key, part, &reason);
            }
            Outcome::Failed(failure) => self.note_failure(key, part, failure),
        }
    }

    fn note_failure(&mut self, key: ObjectKey, part: Part, failure: Failure) {
        let Failure { class, reason } = failure;
        self.metrics.count(Counter::StatusFailures);
        if self.failures.failed(class, key.clone(), Instant::now()) {
            tracing::error!(object = %key, "statuses can't be written: {reason}; it is tried again");
        }
        self.say_unheld(key, part);
    }

    /// It is written again on top of what there is now, unless that goes on and on: then others write all the time, or
    /// somebody says so of every write.
    fn note_conflict(&mut self, key: ObjectKey, part: Part) {
        let conflicts = self.conflicts.entry(key.clone()).or_default();
        *conflicts += 1;
        if *conflicts <= CONFLICTS {
            self.queue.insert(key);
            return;
        }
        let failure = Failure {
            class: format!("409 {}", key.api_kind().1),
            reason: "each time that it is tried, it is said that somebody else has written meanwhile".to_owned(),
        };
        self.note_failure(key, part, failure);
    }

    fn note_written(&mut self, key: ObjectKey, part: Part, begun: Instant) {
        match part {
            Part::Status => {
                self.metrics.count(Counter::StatusUpdates);
                self.metrics.observe(Timer::StatusWrite, begun.elapsed());
                // What waits came after what was written.
                if !self.queue.contains(&key) {
                    self.book.said(&key);
                }
                self.note_settled(&key);
            }
            // What waits came after what was written: whether it is to be held is looked at anew then.
            Part::Metadata if self.queue.contains(&key) => {}
            Part::Metadata if self.is_held(&key) => drop(self.queue.insert(key)),
            Part::Metadata => self.refuse(key, part, "the API server takes them and doesn't keep them"),
        }
    }

    /// The API server doesn't take something, and mostly wouldn't the next time; it is tried again all the same, for
    /// what it takes may change without our being told.
    fn refuse(&mut self, key: ObjectKey, part: Part, reason: &str) {
        self.metrics.count(Counter::StatusFailures);
        let what = match part {
            Part::Status => "its status",
            Part::Metadata => "its finalizers",
        };
        if self.refused.entry((key.clone(), part)).or_default().begins(reason) {
            tracing::error!(object = %key, "{what} can't be written: {reason}");
        }
        self.say_unheld(key, part);
    }

    /// What is to be said of a class doesn't wait until it can be held. Where something waits already, that may ask for
    /// another finalizer than the one that couldn't be written.
    fn say_unheld(&mut self, key: ObjectKey, part: Part) {
        if part == Part::Metadata && self.queue.insert(key.clone()) {
            self.unheld.give_up(key);
        }
    }

    fn try_again(&mut self) {
        let mut due = self.failures.take_due(Instant::now());
        due.iter().for_each(|key| self.unheld.ask_again(key));
        self.queue.append(&mut due);
    }

    /// What is said about every object, as a page.
    fn document(&mut self) -> Value {
        self.refresh();
        let mut document = Document::default();
        let (now, keys): (String, Vec<ObjectKey>) = (now(), self.book.keys().cloned().collect());
        for key in keys {
            let effective = self.effective(&key);
            let seen = self.cluster.mirror.seen(&key).and_then(|seen| seen.status);
            if let Some(status) = seen.and_then(|text| serde_json::from_str(&text).ok()) {
                document.remember(&key, status);
            }
            document.set(key, effective.as_ref(), &now);
        }
        document.value()
    }
}

/// Objects of a kind in a namespace, if the kind is served.
fn objects(cluster: &Cluster, key: &ObjectKey) -> Option<Objects<DynamicObject>> {
    let served = cluster.served.borrow().clone()?;
    let resource = served.resource_of(key)?;
    let client = cluster.api.client();
    Some(match &*key.namespace {
        "" => Objects::all_with(client, resource),
        namespace => Objects::namespaced_with(client, namespace, resource),
    })
}
