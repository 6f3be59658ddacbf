//! The cluster provider: resources from an API server.
//!
//! One watch a kind (and namespace, where not all count) runs as a task of its own and tells what it sees, already
//! trimmed to our types ([`follow`], [`arrived`]); one task puts that together ([`table`]) and sends the difference.
//! Which kinds there are is looked for again and again ([`crate::cluster::discovery`]), which namespaces count follows
//! their labels ([`scope`]). Secrets and ConfigMaps are watched by their metadata, and read while something names them
//! ([`references`]): their contents stay where they are otherwise. A watch that fails goes on being tried, and what was
//! read stays in force; whatever was missed is made up for by the next complete list. So is it with a kind that is
//! served only at versions that we don't know: its objects are heard of there, as ones that can't be read, and a
//! provider that begins beside some waits for a definition that it knows, for they may be what guards others.

use crate::{
    backoff::Backoff,
    cluster::{Api, ReadKind, Served, fault::describe},
    config::Cluster,
    metrics::{Counter, Gauge, Metrics},
    state::{Batch, Coverage, Input, Mirror, ProviderName},
    task::{Stop, end_of},
    trouble::Trouble,
};
use edge_translate::api::{Kind, ObjectKey};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use kube::{Api as Objects, Client, core::ApiResource};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{AbortHandle, JoinError, JoinSet},
    time::{self, Instant},
};

mod arrived;
mod follow;
mod references;
mod scope;
mod table;
#[cfg(test)]
mod tests;

use arrived::{Arrived, Taken};
use follow::{News, Signal, Source, Watch, follow};
use scope::Namespaces;
use table::{Table, sources};

/// What this provider is called.
pub const NAME: ProviderName = ProviderName("cluster");

/// Signals of watches that wait; when it is full, watches wait, and the API server holds back what follows.
const SIGNALS: usize = 512;
/// Signals that go into one batch.
const BATCH: usize = 4096;
/// Pauses before a Secret or ConfigMap that couldn't be read is read again, and before a watch that failed by a bug
/// begins again.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// Where the provider tells what it sees.
#[derive(Debug)]
pub struct Outputs {
    /// The world.
    pub inputs: mpsc::Sender<Input>,
    /// Statuses that objects carry.
    pub mirror: Arc<Mirror>,
    /// What is being waited for before anything is published, and what can't be watched afterwards; `None` when all is
    /// there and followed.
    pub awaited: watch::Sender<Option<Arc<str>>>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Which kinds there are.
#[derive(Debug)]
pub struct Kinds {
    /// As they were found last; `None` before.
    pub served: watch::Receiver<Option<Arc<Served>>>,
    /// Asks to look again.
    pub again: Arc<Notify>,
}

/// Follows the cluster until asked to stop.
pub async fn run(api: Api, cluster: Cluster, kinds: Kinds, outputs: Outputs, stop: Stop) {
    let (signals, heard) = mpsc::channel(SIGNALS);
    let provider = Provider {
        api,
        outputs,
        again: kinds.again,
        served: Arc::default(),
        namespaces: Namespaces::new(&cluster.namespace, &cluster.scope),
        table: Table::new(&cluster.namespace, &cluster.secrets),
        watches: JoinSet::new(),
        running: BTreeMap::new(),
        number: 0,
        reads: FuturesUnordered::new(),
        unreadable: BTreeMap::new(),
        troubles: BTreeMap::new(),
        signals,
        since: None,
        is_synced: false,
    };
    provider.run(kinds.served, heard, stop).await;
}

/// A Secret or ConfigMap that was asked for, nothing if there is none; or why it can't be read.
type Answer = (ObjectKey, Result<Option<Taken>, String>);
/// How a watch ended that was not to end.
type Ended = (Source, u64, String);

struct Provider {
    api: Api,
    outputs: Outputs,
    /// Asks for a look at which kinds there are.
    again: Arc<Notify>,
    served: Arc<Served>,
    namespaces: Namespaces,
    table: Table,
    watches: JoinSet<Ended>,
    running: BTreeMap<Source, Running>,
    /// How many watches there have been.
    number: u64,
    reads: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Secrets and ConfigMaps that can't be read, though they are named.
    unreadable: BTreeMap<ObjectKey, Unreadable>,
    /// Sources that don't work, and why.
    troubles: BTreeMap<Source, String>,
    signals: mpsc::Sender<Signal>,
    since: Option<Instant>,
    is_synced: bool,
}

/// A watch that runs.
struct Running {
    number: u64,
    /// As what its kind is asked for.
    resource: ApiResource,
    abort: AbortHandle,
    begun: Instant,
    backoff: Backoff,
}

/// A Secret or ConfigMap that couldn't be read.
struct Unreadable {
    trouble: Trouble,
    backoff: Backoff,
}

impl Provider {
    async fn run(
        mut self,
        mut discovered: watch::Receiver<Option<Arc<Served>>>,
        mut heard: mpsc::Receiver<Signal>,
        mut stop: Stop,
    ) {
        discovered.mark_changed();
        loop {
            tokio::select! {
                () = stop.requested() => return,
                Ok(()) = discovered.changed() => {
                    if let Some(served) = discovered.borrow_and_update().clone() {
                        self.served = served;
                        self.arrange();
                    }
                }
                Some(signal) = heard.recv() => {
                    self.take(signal);
                    for _ in 1..BATCH {
                        let Ok(signal) = heard.try_recv() else { break };
                        self.take(signal);
                    }
                }
                Some((key, answer)) = self.reads.next() => self.take_answer(key, answer),
                Some(ended) = self.watches.join_next() => self.ended(ended),
            }
            self.start_reads();
            if !self.send().await {
                return;
            }
        }
    }

    /// Starts and stops watches, so that all that is served and counts is watched, and nothing else.
    fn arrange(&mut self) {
        let namespaces = self.namespaces.names();
        let kinds = self.served.watchable();
        let wanted: BTreeSet<Source> = kinds.flat_map(|kind| sources(kind, namespaces.as_ref())).collect();
        let gone: Vec<Source> = self
            .running
            .keys()
            .filter(|source| !wanted.contains(*source))
            .cloned()
            .collect();
        if !gone.is_empty() {
            let sources: Vec<String> = gone.iter().map(ToString::to_string).collect();
            tracing::info!(
                sources = sources.join(", "),
                "these are no longer served, or no longer count"
            );
        }
        for source in gone {
            if let Some(running) = self.running.remove(&source) {
                running.abort.abort();
            }
            self.troubles.remove(&source);
            self.table.drop(&source);
            self.since.get_or_insert_with(Instant::now);
        }
        for source in wanted {
            let running = self.running.get(&source);
            // A kind that is served at another version is asked for there. What was read before stays in force until
            // that is complete.
            if running.map(|running| &running.resource) != self.served.watched_as(&source.kind) {
                self.table.begin_anew(&source);
                self.start(source, Duration::ZERO);
            }
        }
    }

    /// Starts a watch after a pause, in the place of one that there may be.
    fn start(&mut self, source: Source, pause: Duration) {
        let Some(resource) = self.served.watched_as(&source.kind).cloned() else {
            return;
        };
        self.number += 1;
        let number = self.number;
        let before = self.running.remove(&source);
        if let Some(before) = &before {
            before.abort.abort();
        }
        let watch = Watch {
            source: source.clone(),
            number,
            client: self.api.client(),
            resource: resource.clone(),
            streams_lists: self.served.streams_lists,
            metrics: Arc::clone(&self.outputs.metrics),
        };
        let (told, signals) = (source.clone(), self.signals.clone());
        let abort = self.watches.spawn(async move {
            time::sleep(pause).await;
            let how = end_of(follow(watch, signals)).await;
            (told, number, how)
        });
        self.table.add(source.clone());
        let running = Running {
            number,
            resource,
            abort,
            begun: Instant::now() + pause,
            backoff: before.map_or(PAUSES, |before| before.backoff),
        };
        self.running.insert(source, running);
    }

    /// A watch ended: it was cut off, or it has a bug, which costs no more than another list after a pause.
    fn ended(&mut self, ended: Result<Ended, JoinError>) {
        let Ok((source, number, how)) = ended else { return };
        let Some(running) = self.running.get_mut(&source).filter(|running| running.number == number) else {
            return;
        };
        running.backoff.ran(running.begun.elapsed());
        let pause = running.backoff.pause();
        self.outputs.metrics.count(Counter::TaskFailures);
        self.fails(source.clone(), format!("its watch {how}"));
        self.start(source, pause);
    }

    fn take(&mut self, signal: Signal) {
        let Signal {
            source,
            number,
            at,
            news,
        } = signal;
        if self.running.get(&source).is_none_or(|running| running.number != number) {
            return;
        }
        match &news {
            News::Fails(reason) => return self.fails(source, reason.clone()),
            // Whether it is gone for good, a look at the definitions tells.
            News::Unserved => return self.again.notify_one(),
            // That a list is asked for doesn't mean that it comes.
            News::Begin => {}
            News::Works => return self.works(&source),
            News::Put(_) | News::Gone(_) | News::Complete => self.works(&source),
        }
        self.since.get_or_insert(at);
        self.table.take(&source, news);
    }

    /// Of all watches that fail for one reason, one is told.
    fn fails(&mut self, source: Source, reason: String) {
        if !self.troubles.values().any(|known| *known == reason) {
            tracing::error!(%source, "can't be watched: {reason}; what was read before stays in force");
        }
        self.troubles.insert(source, reason);
    }

    fn works(&mut self, source: &Source) {
        if let Some(reason) = self.troubles.remove(source)
            && !self.troubles.values().any(|known| *known == reason)
        {
            tracing::info!(%source, "is watched again");
        }
    }

    fn start_reads(&mut self) {
        for key in self.table.take_unread() {
            self.read(key, Duration::ZERO);
        }
    }

    fn read(&mut self, key: ObjectKey, pause: Duration) {
        if let Some(resource) = self.served.resource_of(&key) {
            self.reads
                .push(read(self.api.client(), key, resource.clone(), pause).boxed());
        }
    }

    fn take_answer(&mut self, key: ObjectKey, answer: Result<Option<Taken>, String>) {
        match answer {
            Ok(taken) => {
                self.unreadable.remove(&key);
                self.since.get_or_insert_with(Instant::now);
                self.table.read(&key, taken);
            }
            Err(reason) if self.table.is_still_wanted(&key) => {
                let Unreadable { trouble, backoff } = self.unreadable.entry(key.clone()).or_insert(Unreadable {
                    trouble: Trouble::default(),
                    backoff: PAUSES,
                });
                if trouble.begins(&reason) {
                    tracing::error!(object = %key, "can't be read: {reason}; what names it waits, and it is tried again");
                }
                let pause = backoff.pause();
                self.read(key, pause);
            }
            Err(_) => drop(self.unreadable.remove(&key)),
        }
    }

    /// Tells what is new. Says whether anybody listens.
    async fn send(&mut self) -> bool {
        let mut turned = self.table.take_turned();
        if self.namespaces.follow(&turned.changes) {
            self.arrange();
            // With a namespace goes, in one step, all that it holds.
            turned.append(self.table.take_turned());
        }
        for (key, message) in &turned.malformed {
            tracing::warn!(object = %key, "can't be read: {message}; what it said before, if anything, stays in force");
        }
        if !turned.sights.is_empty() {
            self.outputs.mirror.put(turned.sights);
        }
        let since = self.since.take().unwrap_or_else(Instant::now);
        if !turned.changes.is_empty() {
            let batch = Batch {
                changes: turned.changes,
                places: Vec::new(),
                since,
            };
            if self.outputs.inputs.send(Input::Batch(batch)).await.is_err() {
                return false;
            }
        }
        self.tell_progress().await
    }

    /// Until everything is there: says what is missing, or that nothing is. From then on: what can't be watched.
    async fn tell_progress(&mut self) -> bool {
        let n_failing = self.troubles.len() + self.unreadable_kinds().count();
        self.outputs.metrics.set(Gauge::WatchesFailing, n_failing);
        let was_synced = self.is_synced;
        let awaited = match was_synced {
            true => self.failing(),
            false => self.awaited(),
        };
        self.is_synced |= awaited.is_none();
        self.outputs.awaited.send_if_modified(|told| {
            let has_changed = *told != awaited;
            *told = awaited.clone();
            has_changed
        });
        if was_synced || !self.is_synced {
            return true;
        }
        tracing::info!(kinds = self.served.kinds.len(), "all resources of the cluster are read");
        self.outputs
            .inputs
            .send(Input::Synced(NAME, Coverage::Whole))
            .await
            .is_ok()
    }

    /// What was read once and isn't followed.
    fn failing(&self) -> Option<Arc<str>> {
        let failing = self.troubles.iter();
        let failing = failing.map(|(source, reason)| {
            format!("{source} can't be watched: {reason}; what was read before stays in force")
        });
        let unreadable = self.unreadable_kinds();
        let unreadable = unreadable.map(|reason| format!("{reason}; what was read before stays in force"));
        let failing: Vec<String> = failing.chain(unreadable).collect();
        (!failing.is_empty()).then(|| failing.join("\n").into())
    }

    /// Kinds of which there are objects that can't be read at any version at which they are served.
    fn unreadable_kinds(&self) -> impl Iterator<Item = String> {
        let unreadable = self.served.unreadable.iter();
        unreadable
            .filter(|(kind, _)| self.table.holds(kind))
            .map(|(kind, how)| {
                let (served, known) = (&how.versions, kind.versions().join(", "));
                format!("{kind} can't be read: it is served as {served} only, and read as {known}")
            })
    }

    /// What isn't there yet of all that there is at the beginning.
    fn awaited(&self) -> Option<Arc<str>> {
        if self.served.kinds.is_empty() {
            return Some("the API server hasn't said yet which kinds it serves".into());
        }
        let all_namespaces = Source {
            kind: ReadKind::Known(Kind::Namespace),
            namespace: None,
        };
        if self.namespaces.is_selective() && !self.table.is_source_complete(&all_namespaces) {
            return Some("the namespaces aren't read yet".into());
        }
        let unreadable: Vec<String> = self.unreadable_kinds().collect();
        if self.table.is_complete() && unreadable.is_empty() {
            return None;
        }
        let missing = self.table.incomplete().map(|source| match self.troubles.get(source) {
            Some(reason) => format!("{source} can't be read: {reason}"),
            None => format!("{source} isn't read yet"),
        });
        let mut missing: Vec<String> = missing.chain(unreadable).collect();
        if missing.is_empty() {
            missing.push("Secrets or ConfigMaps that are in use aren't read yet".to_owned());
        }
        Some(missing.join("\n").into())
    }
}

/// Reads a Secret or ConfigMap after a pause.
async fn read(client: Client, key: ObjectKey, resource: ApiResource, pause: Duration) -> Answer {
    time::sleep(pause).await;
    let objects: Objects<Arrived<false>> = Objects::namespaced_with(client, &key.namespace, &resource);
    let answer = match objects.get_opt(&key.name).await {
        Ok(object) => Ok(object.map(|object| object.take(&ReadKind::Known(key.kind), &resource))),
        Err(error) => Err(describe(&error)),
    };
    (key, answer)
}
