//! One watch: of a kind, in a namespace or everywhere. It goes on whatever happens, and says what does.

use super::arrived::{Arrived, Taken};
use crate::{
    cluster::{
        fault::{describe, describe_status},
        jittered,
    },
    metrics::{Counter, Metrics},
};
use edge_translate::api::{Kind, ObjectKey};
use futures_util::StreamExt as _;
use kube::{
    Api, Client, Error as ClientError,
    core::ApiResource,
    runtime::watcher::{Config, Error, Event, watcher},
};
use std::{fmt, pin::pin, sync::Arc};
use tokio::{
    sync::mpsc,
    time::{self, Duration, Instant},
};

/// First pause after a fault.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause: an API server that was away is heard of again so soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// A watch that went well for so long begins with the first pause again.
const STABLE: Duration = Duration::from_secs(60);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) kind: Kind,
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
    /// The kind isn't served.
    Unserved,
}

/// Watches until nobody listens, or the task is cut off.
pub(super) async fn follow(watch: Watch, out: mpsc::Sender<Signal>) {
    match watch.source.kind {
        // Of these it matters which there are; the contents of a few are asked for.
        Kind::Secret | Kind::ConfigMap | Kind::Namespace => watch.run::<true>(out).await,
        _ => watch.run::<false>(out).await,
    }
}

/// What becomes of a watch that failed.
enum Next {
    /// The same again, after a pause, and what is to be said.
    Again(Option<News>),
    /// Without a list that streams.
    Plain,
}

/// How long to wait after each fault.
#[derive(Default)]
struct Pauses {
    last: Option<(Instant, Duration)>,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let now = Instant::now();
        let pause = match self.last {
            Some((at, pause)) if now.duration_since(at) < STABLE => (pause * 2).min(LONGEST_PAUSE),
            _ => FIRST_PAUSE,
        };
        self.last = Some((now, pause));
        pause
    }
}

impl Watch {
    async fn run<const PARTIAL: bool>(mut self, out: mpsc::Sender<Signal>) {
        let mut pauses = Pauses::default();
        loop {
            let api: Api<Arrived<PARTIAL>> = match &self.source.namespace {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
                None => Api::all_with(self.client.clone(), &self.resource),
            };
            let config = match self.streams_lists {
                true => Config::default().streaming_lists(),
                false => Config::default(),
            };
            let mut events = pin!(watcher(api, config));
            while let Some(event) = events.next().await {
                let at = Instant::now();
                let (news, failed) = match event {
                    Ok(event) => (Some(self.news(event)), false),
                    Err(error) => {
                        self.metrics.count(Counter::WatchRestarts);
                        match self.judge(&error) {
                            Next::Again(news) => (news, true),
                            Next::Plain => break,
                        }
                    }
                };
                if let Some(news) = news {
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
                if failed {
                    time::sleep(jittered(pauses.next())).await;
                }
            }
            // A stream of events never ends by itself: the server doesn't stream lists after all.
            self.streams_lists = false;
        }
    }

    fn news<const PARTIAL: bool>(&self, event: Event<Arrived<PARTIAL>>) -> News {
        match event {
            Event::Init => News::Begin,
            Event::InitApply(object) | Event::Apply(object) => {
                News::Put(Box::new(object.take(self.source.kind, &self.resource)))
            }
            Event::Delete(object) => News::Gone(object.key(self.source.kind)),
            Event::InitDone => News::Complete,
        }
    }

    fn judge(&self, error: &Error) -> Next {
        let status = match error {
            Error::WatchError(status) => Some(&**status),
            Error::InitialListFailed(ClientError::Api(status))
            | Error::WatchStartFailed(ClientError::Api(status))
            | Error::WatchFailed(ClientError::Api(status)) => Some(&**status),
            _ => None,
        };
        match status.map(|status| status.code) {
            // It has fallen too far behind: everything is listed again.
            Some(410) => return Next::Again(None),
            Some(404) => return Next::Again(Some(News::Unserved)),
            Some(400 | 403 | 422) if self.streams_lists && matches!(error, Error::WatchStartFailed(_)) => {
                return Next::Plain;
            }
            _ => {}
        }
        let reason = match (status, error) {
            (Some(status), _) => describe_status(status),
            (None, Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error)) => {
                describe(error)
            }
            (None, other) => other.to_string(),
        };
        Next::Again(Some(News::Fails(reason)))
    }
}
