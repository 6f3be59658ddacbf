//! One watch: of a kind, in a namespace or everywhere. It goes on whatever happens, and says what does.

use super::arrived::{Arrived, Taken};
use crate::{
    cluster::{
        ReadKind,
        watching::{Fault, Target, events},
    },
    metrics::{Counter, Metrics},
};
use edge_translate::api::{Kind, ObjectKey};
use futures_util::StreamExt as _;
use kube::{Client, core::ApiResource, runtime::watcher::Event};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};

/// A watch that has failed and not failed again for so long works, though nothing may have happened that it could tell.
/// Longer than any pause before it is tried again.
const CALM: Duration = Duration::from_secs(12);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) kind: ReadKind,
    /// Everywhere without.
    pub(super) namespace: Option<Arc<str>>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in {namespace}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

/// How a source is watched.
pub(super) struct Watch {
    pub(super) source: Source,
    /// Tells this watch from an earlier one of the source.
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) resource: ApiResource,
    pub(super) streams_lists: bool,
    pub(super) metrics: Arc<Metrics>,
}

/// Something that a watch has to say.
pub(super) struct Signal {
    pub(super) source: Source,
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) news: News,
}

/// What a watch says.
pub(super) enum News {
    /// All that is there follows.
    Begin,
    /// An object is like this.
    Put(Box<Taken>),
    /// An object is gone.
    Gone(ObjectKey),
    /// That was all that is there.
    Complete,
    /// It doesn't work, and why; it is tried again.
    Fails(String),
    /// It works again.
    Works,
    /// The kind isn't served.
    Unserved,
}

/// Watches until nobody listens, or the task is cut off.
pub(super) async fn follow(watch: Watch, out: mpsc::Sender<Signal>) {
    match watch.source.kind {
        // Of these it matters which there are; the contents of a few are asked for.
        ReadKind::Known(Kind::Secret | Kind::ConfigMap | Kind::Namespace) => watch.run::<true>(out).await,
        _ => watch.run::<false>(out).await,
    }
}

impl Watch {
    async fn run<const PARTIAL: bool>(self, out: mpsc::Sender<Signal>) {
        let target = Target {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.source.namespace.clone(),
            labels: &[],
            streams_lists: self.streams_lists,
        };
        let mut events = events::<Arrived<PARTIAL>>(target);
        let mut fails = false;
        loop {
            let event = match fails {
                true => time::timeout(CALM, events.next()).await,
                false => Ok(events.next().await),
            };
            let at = Instant::now();
            fails = matches!(event, Ok(Some(Err(_))));
            let news = match event {
                Ok(None) => return,
                Err(_) => News::Works,
                Ok(Some(Ok(event))) => self.news(event),
                Ok(Some(Err(fault))) => {
                    self.metrics.count(Counter::WatchRestarts);
                    match fault {
                        Fault::Expired => continue,
                        Fault::Unserved => News::Unserved,
                        Fault::Other(reason) => News::Fails(reason),
                    }
                }
            };
            let signal = Signal {
                source: self.source.clone(),
                number: self.number,
                at,
                news,
            };
            if out.send(signal).await.is_err() {
                return;
            }
        }
    }

    fn news<const PARTIAL: bool>(&self, event: Event<Arrived<PARTIAL>>) -> News {
        match event {
            Event::Init => News::Begin,
            Event::InitApply(object) | Event::Apply(object) => {
                News::Put(Box::new(object.take(&self.source.kind, &self.resource)))
            }
            Event::Delete(object) => News::Gone(object.key(&self.source.kind)),
            Event::InitDone => News::Complete,
        }
    }
}
