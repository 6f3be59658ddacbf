//! A watch that goes on whatever happens: it lists again what it has missed, and pauses longer after each fault.

use super::fault::{describe, describe_status};
use crate::backoff::Backoff;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{
    Api, Client, Error as ClientError, Resource,
    core::{ApiResource, DynamicResourceScope},
    runtime::watcher::{Config, Error, Event, watcher},
};
use serde::de::DeserializeOwned;
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{self, Instant};

/// The first and the longest pause after a fault. An API server that was away is heard of again so soon.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(8));

/// What is watched.
#[derive(Clone)]
pub struct Target {
    /// Of whom.
    pub client: Client,
    /// Which kind.
    pub resource: ApiResource,
    /// In which namespace; everywhere without.
    pub namespace: Option<Arc<str>>,
    /// With all of these labels.
    pub labels: &'static [(&'static str, &'static str)],
    /// Whether a watch can begin with what is there (Kubernetes KEP-3157).
    pub streams_lists: bool,
}

/// Why a watch has to begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has fallen too far behind, as anybody may.
    Expired,
    /// The kind isn't served.
    Unserved,
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the watch has fallen too far behind"),
            Self::Unserved => f.write_str("the API server doesn't serve the kind"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// What can be watched: any form in which objects of a kind are read.
pub trait Watched:
    Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + 'static
{
}

/// What a watch sees and what goes wrong with it, for as long as anybody asks.
pub fn events<K: Watched>(target: Target) -> BoxStream<'static, Result<Event<K>, Fault>> {
    let watching = Watching {
        events: begin(&target),
        target,
        backoff: PAUSES,
        failed: Instant::now(),
        pause: None,
    };
    stream::unfold(watching, |mut watching| async move {
        Some((watching.next().await, watching))
    })
    .boxed()
}

type Events<K> = BoxStream<'static, Result<Event<K>, Error>>;

struct Watching<K> {
    target: Target,
    events: Events<K>,
    backoff: Backoff,
    /// When it failed last, or began.
    failed: Instant,
    /// What is waited for before it is tried again.
    pause: Option<Duration>,
}

fn begin<K: Watched>(target: &Target) -> Events<K> {
    let client = target.client.clone();
    let api: Api<K> = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &target.resource),
        None => Api::all_with(client, &target.resource),
    };
    let mut config = Config::default();
    if !target.labels.is_empty() {
        let labels = target.labels.iter().map(|(name, value)| format!("{name}={value}"));
        config = config.labels(&labels.collect::<Vec<_>>().join(","));
    }
    if target.streams_lists {
        config = config.streaming_lists();
    }
    watcher(api, config).boxed()
}

impl<K: Watched> Watching<K> {
    async fn next(&mut self) -> Result<Event<K>, Fault> {
        if let Some(pause) = self.pause.take() {
            time::sleep(pause).await;
        }
        loop {
            match self.events.next().await {
                Some(Ok(event)) => return Ok(event),
                Some(Err(error)) if !self.is_about_streaming(&error) => {
                    let ran = std::mem::replace(&mut self.failed, Instant::now()).elapsed();
                    self.backoff.ran(ran);
                    self.pause = Some(self.backoff.pause());
                    let fault = judge(&error);
                    if fault == Fault::Expired {
                        // Told as an event or as an answer: after the latter, the same version would be asked for
                        // again.
                        self.events = begin(&self.target);
                    }
                    return Err(fault);
                }
                // The server doesn't stream lists after all. Events never end by themselves.
                Some(Err(_)) | None => {
                    self.target.streams_lists = false;
                    self.events = begin(&self.target);
                }
            }
        }
    }

    fn is_about_streaming(&self, error: &Error) -> bool {
        let code = match error {
            Error::WatchStartFailed(ClientError::Api(status)) => status.code,
            _ => return false,
        };
        self.target.streams_lists && [400, 403, 422].contains(&code)
    }
}

fn judge(error: &Error) -> Fault {
    let status = match error {
        Error::WatchError(status) => Some(&**status),
        Error::InitialListFailed(ClientError::Api(status))
        | Error::WatchStartFailed(ClientError::Api(status))
        | Error::WatchFailed(ClientError::Api(status)) => Some(&**status),
        _ => None,
    };
    match (status, error) {
        (Some(status), _) if status.code == 410 => Fault::Expired,
        (Some(status), _) if status.code == 404 => Fault::Unserved,
        (Some(status), _) => Fault::Other(describe_status(status)),
        (None, Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error)) => {
            Fault::Other(describe(error))
        }
        (None, other) => Fault::Other(other.to_string()),
    }
}
