//! One stream of one proxy.
//!
//! It has no task of its own: reading the next response drives it. It ends with the connection, with the controller,
//! or when its fleet is gone, and takes what it had rejected with it.

use super::Shared;
use crate::{
    metrics::{Counter, Gauge, Timer},
    state::{FleetState, Rejection, RejectionKey},
    task::Stop,
};
use edge_ir::FleetKey;
use edge_xds::{
    delta::{self, Action, Nack},
    snapshot::ResourceType,
};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::time::{self, Instant};
use tonic::{Status, Streaming};

/// How long a proxy may take to say who it is.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the proxy's first request and gives the responses to it and to all that follow.
pub(super) async fn open(
    number: u64,
    mut requests: Streaming<DeltaDiscoveryRequest>,
    shared: Shared,
    stop: Stop,
) -> Result<BoxStream<'static, Result<DeltaDiscoveryResponse, Status>>, Status> {
    let first = time::timeout(INTRODUCTION_TIMEOUT, requests.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("no request came"))??;
    let Some(first) = first else {
        return Ok(stream::empty().boxed());
    };
    let Some(node) = &first.node else {
        return Err(Status::invalid_argument("the first request must carry the node"));
    };
    let (id, fleet) = (node.id.clone(), FleetKey::new(node.cluster.as_str()));
    let state = fleet_state(&shared, &fleet)?;
    tracing::info!(%fleet, node = id, stream = number, "a proxy has connected");
    shared.metrics.add(Gauge::Streams, 1);
    let mut session = Session {
        number,
        delta: delta::Stream::new((*state.snapshot).clone()),
        state,
        fleet,
        id,
        shared,
        stop,
        requests,
        queue: VecDeque::new(),
        sent: BTreeMap::new(),
        opened: Instant::now(),
        since: None,
    };
    session.take(&first);
    Ok(stream::unfold(Some(session), next).boxed())
}

type Answer = Result<DeltaDiscoveryResponse, Status>;

async fn next(session: Option<Session>) -> Option<(Answer, Option<Session>)> {
    let mut session = session?;
    match session.next().await {
        Ok(response) => response.map(|response| (Ok(response), Some(session))),
        // The status is the last thing that the proxy hears.
        Err(status) => Some((Err(status), None)),
    }
}

fn fleet_state(shared: &Shared, fleet: &FleetKey) -> Result<FleetState, Status> {
    let published = shared.published.borrow();
    let state = published.as_ref().and_then(|published| published.fleets.get(fleet));
    state.cloned().ok_or_else(|| {
        Status::not_found(format!(
            "there is no fleet `{fleet}`: no Gateway makes one of that name; try again later"
        ))
    })
}

struct Session {
    number: u64,
    fleet: FleetKey,
    id: String,
    delta: delta::Stream,
    state: FleetState,
    shared: Shared,
    stop: Stop,
    requests: Streaming<DeltaDiscoveryRequest>,
    queue: VecDeque<delta::Response>,
    /// Names in responses that the proxy hasn't answered, by nonce.
    sent: BTreeMap<String, Vec<Arc<str>>>,
    opened: Instant,
    /// When the event behind the latest change was seen, until the proxy has taken it.
    since: Option<Instant>,
}

impl Session {
    /// The next response. `None`: the proxy has left, or the controller stops.
    async fn next(&mut self) -> Result<Option<DeltaDiscoveryResponse>, Status> {
        loop {
            if let Some(response) = self.queue.pop_front() {
                return Ok(Some(response.to_message()));
            }
            let due = self.delta.deadline().map(|at| self.opened + Duration::from_millis(at));
            tokio::select! {
                biased;
                () = self.stop.requested() => return Ok(None),
                request = self.requests.message() => match request? {
                    Some(request) => self.take(&request),
                    None => return Ok(None),
                },
                changed = self.shared.published.changed() => match changed {
                    Ok(()) => self.follow()?,
                    Err(_) => return Ok(None),
                },
                () = at(due) => {
                    let actions = self.delta.on_deadline(self.now());
                    self.act(actions);
                }
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn take(&mut self, request: &DeltaDiscoveryRequest) {
        let actions = self.delta.on_request(request, self.now());
        self.act(actions);
    }

    /// Takes the latest state, if it is another one for this fleet.
    fn follow(&mut self) -> Result<(), Status> {
        let since = self
            .shared
            .published
            .borrow_and_update()
            .as_ref()
            .and_then(|published| published.since);
        let state = fleet_state(&self.shared, &self.fleet)?;
        if Arc::ptr_eq(&state.snapshot, &self.state.snapshot) {
            return Ok(());
        }
        self.state = state;
        self.since = self.since.or(since);
        let snapshot = Arc::clone(&self.state.snapshot);
        self.forget(|key| snapshot.section(key.kind).get(&key.name).is_none());
        let actions = self.delta.on_snapshot(&snapshot, self.now());
        self.act(actions);
        Ok(())
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(response) => {
                    self.sent
                        .insert(response.nonce.clone(), response.names().cloned().collect());
                    self.queue.push_back(response);
                }
                Action::Acknowledged { kind, nonce } => {
                    let names = self.sent.remove(&nonce).unwrap_or_default();
                    self.forget(|key| key.kind == kind && names.contains(&key.name));
                }
                Action::Rejected(nack) => self.reject(&nack),
            }
        }
        if self.queue.is_empty()
            && self.delta.is_settled()
            && let Some(since) = self.since.take()
        {
            self.shared.metrics.observe(Timer::Propagation, since.elapsed());
        }
    }

    fn reject(&mut self, nack: &Nack) {
        self.shared.metrics.count(match nack.kind {
            ResourceType::Cluster => Counter::NackCluster,
            ResourceType::Endpoints => Counter::NackEndpoint,
            ResourceType::Secret => Counter::NackSecret,
            ResourceType::Listener => Counter::NackListener,
            ResourceType::Routes => Counter::NackRoute,
        });
        let from: Vec<String> = nack.origins.iter().map(ToString::to_string).collect();
        tracing::warn!(
            fleet = %self.fleet,
            node = self.id,
            resources = nack.names.join(", "),
            from = from.join(", "),
            "a proxy rejects a {:?}: {}", nack.kind, nack.detail.trim()
        );
        let section = Arc::clone(self.state.snapshot.section(nack.kind));
        let rejected = nack.names.iter().map(|name| {
            let origins = section
                .get(name)
                .map(|entry| Arc::clone(&entry.origins))
                .unwrap_or_default();
            let key = RejectionKey {
                stream: self.number,
                kind: nack.kind,
                name: Arc::clone(name),
            };
            (
                key,
                Rejection {
                    fleet: self.fleet.clone(),
                    detail: nack.detail.trim().into(),
                    origins,
                },
            )
        });
        let rejected: Vec<_> = rejected.collect();
        self.shared.rejections.send_modify(|all| all.extend(rejected));
    }

    /// Takes rejections of this stream back.
    fn forget(&self, is_settled: impl Fn(&RejectionKey) -> bool) {
        self.shared.rejections.send_if_modified(|all| {
            let before = all.len();
            all.retain(|key, _| key.stream != self.number || !is_settled(key));
            all.len() != before
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget(|_| true);
        self.shared.metrics.add(Gauge::Streams, -1);
        self.shared.metrics.observe(Timer::StreamLife, self.opened.elapsed());
        tracing::info!(fleet = %self.fleet, node = self.id, stream = self.number, "a proxy has disconnected");
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
