//! The cluster provider: resources from an API server.
//!
//! One watch a kind (and namespace, where not all count) runs as a task of its own and tells what it sees, already
//! trimmed to our types ([`follow`], [`arrived`]); one task puts that together ([`table`]) and sends the difference.
//! Which kinds there are is looked for again and again ([`crate::cluster::discovery`]), which namespaces count follows their labels
//! ([`scope`]). Secrets and ConfigMaps are watched by their metadata, and read while something names them
//! ([`references`]): their contents stay where they are otherwise. A watch that fails goes on being tried, and what was
//! read stays in force; whatever was missed is made up for by the next complete list.

use crate::{
    backoff::jittered,
    cluster::{
        Api, Served,
        fault::{Trouble, describe},
    },
    config::Cluster,
    metrics::Metrics,
    state::{Batch, Coverage, Input, Mirror, ProviderName},
    task::Stop,
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
    task::{AbortHandle, JoinSet},
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
/// Pause before a Secret or ConfigMap that couldn't be read is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Where the provider tells what it sees.
#[derive(Debug)]
pub struct Outputs {
    /// The world.
    pub inputs: mpsc::Sender<Input>,
    /// Statuses that objects carry.
    pub mirror: Arc<Mirror>,
    /// What is being waited for before anything is published; `None` when all is there.
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
        table: Table::default(),
        watches: JoinSet::new(),
        running: BTreeMap::new(),
        number: 0,
        reads: FuturesUnordered::new(),
        reading: BTreeSet::new(),
        troubles: BTreeMap::new(),
        signals,
        since: None,
        is_synced: false,
    };
    provider.run(kinds.served, heard, stop).await;
}

/// A Secret or ConfigMap that was asked for.
type Answer = (ObjectKey, Option<Taken>);

struct Provider {
    api: Api,
    outputs: Outputs,
    /// Asks for a look at which kinds there are.
    again: Arc<Notify>,
    served: Arc<Served>,
    namespaces: Namespaces,
    table: Table,
    watches: JoinSet<()>,
    running: BTreeMap<Source, Running>,
    /// How many watches there have been.
    number: u64,
    reads: FuturesUnordered<BoxFuture<'static, Answer>>,
    reading: BTreeSet<ObjectKey>,
    /// Sources that don't work, and why.
    troubles: BTreeMap<Source, String>,
    signals: mpsc::Sender<Signal>,
    since: Option<Instant>,
    is_synced: bool,
}

/// A watch that runs.
struct Running {
    number: u64,
    abort: AbortHandle,
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
                Some((key, answer)) = self.reads.next() => self.take_answer(&key, answer),
                Some(ended) = self.watches.join_next_with_id() => self.ended(ended),
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
        let kinds = self.served.kinds.keys().copied();
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
            if !self.running.contains_key(&source) {
                self.start(source);
            }
        }
    }

    fn start(&mut self, source: Source) {
        let Some(resource) = self.served.kinds.get(&source.kind) else {
            return;
        };
        self.number += 1;
        let watch = Watch {
            source: source.clone(),
            number: self.number,
            client: self.api.client(),
            resource: resource.clone(),
            streams_lists: self.served.streams_lists,
            metrics: Arc::clone(&self.outputs.metrics),
        };
        let abort = self.watches.spawn(follow(watch, self.signals.clone()));
        self.table.add(source.clone());
        let number = self.number;
        self.running.insert(source, Running { number, abort });
    }

    /// A watch ended: it was cut off, or it has a bug, which costs no more than another list.
    fn ended(&mut self, ended: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let Err(error) = ended else { return };
        if error.is_cancelled() {
            return;
        }
        let failed = self
            .running
            .iter()
            .find(|(_, running)| running.abort.id() == error.id());
        if let Some(source) = failed.map(|(source, _)| source.clone()) {
            tracing::error!(%source, %error, "a bug in a watch; it begins again");
            self.running.remove(&source);
            self.start(source);
        }
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
            // What is being read already is looked at again when the answer is there.
            if let Some(resource) = self.served.kinds.get(&key.kind)
                && self.reading.insert(key.clone())
            {
                self.reads.push(read(self.api.client(), key, resource.clone()).boxed());
            }
        }
    }

    fn take_answer(&mut self, key: &ObjectKey, answer: Option<Taken>) {
        self.reading.remove(key);
        self.since.get_or_insert_with(Instant::now);
        self.table.read(key, answer);
    }

    /// Tells what is new. Says whether anybody listens.
    async fn send(&mut self) -> bool {
        let turned = self.table.take_turned();
        for (key, message) in &turned.malformed {
            tracing::warn!(object = %key, "can't be read: {message}; what it said before, if anything, stays in force");
        }
        if !turned.sights.is_empty() {
            self.outputs.mirror.put(turned.sights);
        }
        if self.namespaces.follow(&turned.changes) {
            self.arrange();
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
        self.is_synced || self.tell_progress().await
    }

    /// Until everything is there: says what is missing, or that nothing is.
    async fn tell_progress(&mut self) -> bool {
        let awaited = self.awaited();
        self.is_synced = awaited.is_none();
        self.outputs.awaited.send_if_modified(|told| {
            let has_changed = *told != awaited;
            *told = awaited.clone();
            has_changed
        });
        if !self.is_synced {
            return true;
        }
        tracing::info!(kinds = self.served.kinds.len(), "all resources of the cluster are read");
        self.outputs
            .inputs
            .send(Input::Synced(NAME, Coverage::Whole))
            .await
            .is_ok()
    }

    /// What isn't there yet of all that there is at the beginning.
    fn awaited(&self) -> Option<Arc<str>> {
        if self.served.kinds.is_empty() {
            return Some("the API server hasn't said yet which kinds it serves".into());
        }
        let all_namespaces = Source {
            kind: Kind::Namespace,
            namespace: None,
        };
        if self.namespaces.is_selective() && !self.table.is_source_complete(&all_namespaces) {
            return Some("the namespaces aren't read yet".into());
        }
        if self.table.is_complete() {
            return None;
        }
        let missing = self.table.incomplete().map(|source| match self.troubles.get(source) {
            Some(reason) => format!("{source} can't be read: {reason}"),
            None => format!("{source} isn't read yet"),
        });
        let mut missing: Vec<String> = missing.collect();
        if missing.is_empty() {
            missing.push("Secrets or ConfigMaps that are in use aren't read yet".to_owned());
        }
        Some(missing.join("\n").into())
    }
}

/// Reads a Secret or ConfigMap, however long that takes; nothing if there is none.
async fn read(client: Client, key: ObjectKey, resource: ApiResource) -> (ObjectKey, Option<Taken>) {
    let objects: Objects<Arrived<false>> = Objects::namespaced_with(client, &key.namespace, &resource);
    let mut trouble = Trouble::default();
    loop {
        match objects.get_opt(&key.name).await {
            Ok(object) => {
                let taken = object.map(|object| object.take(key.kind, &resource));
                return (key, taken);
            }
            Err(error) => {
                let reason = describe(&error);
                if trouble.is_news(&reason) {
                    tracing::error!(object = %key, "can't be read: {reason}; what names it waits, and it is tried again");
                }
                time::sleep(jittered(READ_AGAIN)).await;
            }
        }
    }
}
