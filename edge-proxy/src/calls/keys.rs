//! Keys of tokens that servers have (`remote_jwks`): fetched beside the requests that need them.
//!
//! A fetch is the worker's own, so that no client ends it by leaving, and whoever has keys that are only old goes on
//! with them. Keys that are to be there before requests ([`FetchMode::Eager`]) are fetched when their listener comes,
//! and renewed when it is time, by one worker for all.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use rustc_hash::FxHashMap;
use tokio::sync::OwnedMutexGuard;
use tokio::task::AbortHandle;

use crate::calls::ask::{ServiceProtocol, ServiceRequest, ask};
use crate::config::Snapshot;
use crate::config::filter::jwt::{Due, FetchMode, KeySet, RemoteKeys};
use crate::message::head::Head;
use crate::stats::WorkerIndex;
use crate::upstream::Upstreams;

/// Between two looks ahead there is at least this pause, however short keys are good.
const SHORTEST: Duration = Duration::from_millis(100);

/// Begins to fetch keys, unless somebody does already or nothing is due. Whoever waits for
/// [`fetching`](RemoteKeys::fetching) waits for the end.
pub(crate) fn fetch(upstreams: &Rc<Upstreams>, remote: &Arc<RemoteKeys>) {
    let Ok(fetching) = Arc::clone(&remote.fetching).try_lock_owned() else {
        return;
    };
    // Somebody may have fetched them meanwhile.
    if remote.due_at(upstreams.worker.clock.now()) == Due::Nothing {
        return;
    }
    begin(upstreams, remote, fetching);
}

fn begin(upstreams: &Rc<Upstreams>, remote: &Arc<RemoteKeys>, fetching: OwnedMutexGuard<()>) {
    let (upstreams, remote) = (Rc::clone(upstreams), Arc::clone(remote));
    tokio::task::spawn_local(async move {
        learn(&upstreams, &remote).await;
        drop(fetching);
    });
}

/// Asks for keys, and keeps what is told.
async fn learn(upstreams: &Rc<Upstreams>, remote: &RemoteKeys) {
    let mut head = Head::empty();
    head.authority = remote.authority.clone();
    head.target = remote.target.clone();
    let question = ServiceRequest {
        cluster: remote.cluster,
        head,
        body: Bytes::new(),
        timeout: remote.timeout,
        protocol: ServiceProtocol::Http,
    };
    let snapshot = upstreams.worker.snapshot();
    let keys = match ask(upstreams, &snapshot, question, remote.retry.as_deref()).await {
        Ok(told) if told.status == StatusCode::OK => KeySet::read(&told.body),
        Ok(told) => Err(format!("the answer is {}", told.status)),
        Err(fault) => Err(format!("there is no answer: {fault}")),
    };
    let (worker, now) = (&upstreams.worker, upstreams.worker.clock.now());
    if let Err(why) = &keys
        && worker.told.is_news(format!("keys {:?} {why}", remote.authority), now)
    {
        tracing::warn!(authority = ?remote.authority, why, "keys can't be fetched");
    }
    remote.keep(keys.ok(), now);
}

/// The tasks that fetch keys eagerly. They are known by the address of the keys in memory: as long as it is the same,
/// so are server and settings, and the task goes on.
#[derive(Debug, Default)]
pub(crate) struct FetchedAhead {
    followed: FxHashMap<usize, (Arc<RemoteKeys>, AbortHandle)>,
}

impl FetchedAhead {
    /// Follows what the listeners of a configuration need, and nothing else any more. One worker does it for all.
    pub(crate) fn follow(&mut self, upstreams: &Rc<Upstreams>, snapshot: &Snapshot) {
        if upstreams.worker.index != WorkerIndex(0) {
            return;
        }
        let listeners = snapshot.listeners.values();
        let remote = listeners.flat_map(|listener| listener.remote_keys());
        let mut before = std::mem::take(&mut self.followed);
        for keys in remote.filter(|keys| keys.mode == FetchMode::Eager) {
            let place = Arc::as_ptr(keys).addr();
            self.followed.entry(place).or_insert_with(|| {
                before.remove(&place).unwrap_or_else(|| {
                    let task = tokio::task::spawn_local(look_ahead(Rc::clone(upstreams), Arc::clone(keys)));
                    (Arc::clone(keys), task.abort_handle())
                })
            });
        }
        before.values().for_each(|(_, task)| task.abort());
    }
}

/// Fetches keys whenever it is time, for as long as it is let.
async fn look_ahead(upstreams: Rc<Upstreams>, remote: Arc<RemoteKeys>) {
    let is_due = |now: Instant| remote.next_fetch().is_none_or(|due| due <= now);
    loop {
        if is_due(upstreams.worker.clock.now()) {
            // Where a request has them fetched, that will do.
            let fetching = Arc::clone(&remote.fetching).lock_owned().await;
            if is_due(upstreams.worker.clock.now()) {
                begin(&upstreams, &remote, fetching);
                drop(remote.fetching.lock().await);
            }
        }
        let soon = upstreams.worker.clock.now() + SHORTEST;
        let next = remote.next_fetch().map_or(soon, |due| due.max(soon));
        tokio::time::sleep_until(next.into()).await;
    }
}
