//! The objects of ours that are in the cluster, by watches, so that what drifts is repaired and what is ready is told.

use super::seen::{ObjectId, ObservedObject};
use crate::{
    backoff::Backoff,
    cluster::{
        OWN_LABELS,
        objects::{Marks, marks, resource},
        watching::{Fault, Target, events},
    },
    metrics::{Counter, Metrics},
    task::end_of,
    trouble::Trouble,
};
use edge_infra::ObjectKind;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, core::DynamicObject, runtime::watcher::Event};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, Instant},
};

/// Changes that wait to be looked at; the watches wait when there are more.
const QUEUE: usize = 256;
/// The first and the longest pause before a watch that had a bug begins anew.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// In which namespaces there may be objects of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Places {
    /// In all.
    All,
    /// In these.
    Namespaces(BTreeSet<Arc<str>>),
}

/// What one watch tells of: a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchScope {
    kind: ObjectKind,
    namespace: Option<Arc<str>>,
}

impl WatchScope {
    /// Whether a watch there tells of this object.
    pub(super) fn tells_of(&self, id: &ObjectId) -> bool {
        id.kind == self.kind
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == id.namespace)
    }
}

/// Something that a watch has told.
#[derive(Debug)]
pub(super) enum News {
    /// An object came or changed.
    Seen(ObjectId, Marks, Arc<ObservedObject>),
    /// An object went.
    Gone(ObjectId),
    /// Of what a watch tells of, these are all that there are.
    Complete(WatchScope, BTreeSet<ObjectId>),
}

/// Watches, until dropped.
pub(super) struct Watches {
    /// What they tell of: each tells that it is complete before anything is to be concluded from what isn't there.
    pub(super) places: BTreeSet<WatchScope>,
    news: mpsc::Receiver<News>,
    /// Keeps the queue open, whatever becomes of a watch.
    _queue: mpsc::Sender<News>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts one for each kind and namespace.
    pub(super) fn start(client: Client, places: &Places, metrics: Arc<Metrics>) -> Self {
        let (sender, news) = mpsc::channel(QUEUE);
        let mut tasks = JoinSet::new();
        let mut all = BTreeSet::new();
        for kind in ObjectKind::ALL {
            let namespaces: Vec<Option<Arc<str>>> = match places {
                Places::All => vec![None],
                Places::Namespaces(names) => names.iter().cloned().map(Some).collect(),
            };
            for namespace in namespaces {
                let place = WatchScope { kind, namespace };
                all.insert(place.clone());
                let (client, sender, metrics) = (client.clone(), sender.clone(), Arc::clone(&metrics));
                tasks.spawn(keep_following(place, client, sender, metrics));
            }
        }
        Self {
            places: all,
            news,
            _queue: sender,
            _tasks: tasks,
        }
    }

    /// What is told next.
    pub(super) async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            // The queue is held open, so there is always more to come.
            None => std::future::pending().await,
        }
    }
}

/// Follows one kind, whatever happens: a bug costs another list.
async fn keep_following(place: WatchScope, client: Client, sender: mpsc::Sender<News>, metrics: Arc<Metrics>) {
    let mut backoff = PAUSES;
    loop {
        let begun = Instant::now();
        let how = end_of(follow(&place, client.clone(), &sender)).await;
        if sender.is_closed() {
            return;
        }
        metrics.count(Counter::TaskFailures);
        tracing::error!(
            kind = place.kind.as_str(),
            "the watch of objects of proxies {how}; it begins again"
        );
        backoff.ran(begun.elapsed());
        time::sleep(backoff.pause()).await;
    }
}

/// Follows one kind; it ends when nobody listens any more.
async fn follow(place: &WatchScope, client: Client, sender: &mpsc::Sender<News>) {
    let kind = place.kind;
    let target = Target {
        client: client.clone(),
        resource: resource(kind),
        namespace: place.namespace.clone(),
        labels: &OWN_LABELS,
        streams_lists: false,
    };
    let mut events = events::<DynamicObject>(target);
    let mut trouble = Trouble::default();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        let news = match event {
            Err(Fault::Expired) => continue,
            Err(fault) => {
                let problem = fault.to_string();
                if trouble.begins(&problem) {
                    tracing::warn!(kind = kind.as_str(), "objects of proxies can't be watched: {problem}");
                }
                match is_gone(place, &client).await {
                    true => News::Complete(place.clone(), BTreeSet::new()),
                    false => continue,
                }
            }
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.insert(ObjectId::of(kind, &object));
                seen(kind, object)
            }
            Ok(Event::Apply(object)) => seen(kind, object),
            Ok(Event::Delete(object)) => News::Gone(ObjectId::of(kind, &object)),
            Ok(Event::InitDone) => {
                if trouble.ends() {
                    tracing::info!(kind = kind.as_str(), "objects of proxies are watched again");
                }
                News::Complete(place.clone(), std::mem::take(&mut listed))
            }
        };
        if sender.send(news).await.is_err() {
            return;
        }
    }
}

/// Whether a place is a namespace that isn't there: nothing is in it, and who may look into it nobody can have said.
async fn is_gone(place: &WatchScope, client: &Client) -> bool {
    let Some(name) = &place.namespace else { return false };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    matches!(namespaces.get_metadata_opt(name).await, Ok(None))
}

fn seen(kind: ObjectKind, object: DynamicObject) -> News {
    News::Seen(
        ObjectId::of(kind, &object),
        marks(&object),
        Arc::new(ObservedObject::new(kind, object)),
    )
}
