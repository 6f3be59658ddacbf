//! One stream of one proxy.
//!
//! It has no task of its own: reading the next response drives it. It ends with the connection, with the controller,
//! when its fleet is gone, or when it is old, and takes what it had rejected with it. An old one ends between two
//! exchanges, so that the proxy comes back with all that it was sent.

use super::{
    Shared,
    delivered::Delivered,
    identity::{Peer, Proof, fleet_state},
    kept_back::{KeptBack, Quarantines},
};
use crate::{
    backoff::{jittered, random},
    due,
    metrics::{Counter, Gauge, Timer},
    state::{FleetState, KeptFrom, Refuser, Rejection, RejectionKey},
    task::Stop,
};
use edge_ir::{FleetKey, Origin};
use edge_xds::{
    delta::{self, Action},
    quarantine::{Quarantine, QuarantinedPart},
    snapshot::ResourceType,
};
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prost::Message as _;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{self, Instant},
};
use tonic::{Code, Status, Streaming};

/// How long a proxy may take to say who it is.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(10);

/// When it is asked again whether a proxy may have its fleet, if nobody could say.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// So long at most before what a proxy showed expires, its stream ends.
const EARLY: Duration = Duration::from_secs(300);
/// Longer than any stream.
const FAR: Duration = Duration::from_secs(365 * 86400);

/// How long streams live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    /// The shortest; up to a fifth more is added for each.
    pub(super) age: Duration,
    /// How long an exchange that is under way is waited for.
    pub(super) grace: Duration,
}

impl Lifetime {
    /// When a stream that begins now is old.
    fn end(&self) -> Instant {
        Instant::now() + jittered(self.age)
    }
}

/// What a stream has of its server.
pub(super) struct Context {
    /// Tells it from the others.
    pub(super) number: u64,
    pub(super) shared: Shared,
    pub(super) kept_back: KeptBack,
    pub(super) lifetime: Lifetime,
    pub(super) stop: Stop,
    /// The places of all streams that there may be.
    pub(super) places: Arc<Semaphore>,
}

/// Tells of a proxy that isn't let in. One whose fleet isn't there is no trouble: its Gateway was deleted and it
/// drains, or it is ahead of what is translated.
fn tell_of(refusal: &Status, fleet: &FleetKey, node: &str) {
    let why = refusal.message();
    match refusal.code() {
        Code::NotFound => tracing::info!(%fleet, node, "a proxy is refused: {why}"),
        _ => tracing::warn!(%fleet, node, "a proxy is refused: {why}"),
    }
}

/// Waits for the proxy's first request and gives the responses to it and to all that follow.
pub(super) async fn open(
    context: Context,
    peer: Peer,
    mut requests: Streaming<DeltaDiscoveryRequest>,
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
    let peer = Arc::new(peer);
    let published = &context.shared.published;
    let proof = match context.shared.authorizer.authorize(&peer, &fleet, published).await {
        Ok(proof) => proof,
        Err(refusal) => {
            tell_of(&refusal, &fleet, &id);
            return Err(refusal);
        }
    };
    peer.let_in();
    // Who has shown nothing takes no place of those who have.
    let place = Arc::clone(&context.places).try_acquire_owned();
    let place = place.map_err(|_| Status::resource_exhausted("there are too many streams; try again later"))?;
    let state = fleet_state(&context.shared.published, &fleet)?;
    tracing::info!(%fleet, node = id, stream = context.number, "a proxy has connected");
    context.shared.metrics.add(Gauge::Streams, 1);
    let kept_back = context.kept_back.subscribe();
    let old = context.lifetime.end().min(end_of(&proof));
    let quarantine = quarantine_of(&kept_back, &fleet);
    let deliveries = Arc::clone(&context.shared.deliveries);
    let mut session = Session {
        delta: delta::Stream::new((*state.snapshot).clone(), (*quarantine).clone()),
        delivered: Delivered::new(context.number, fleet.clone(), deliveries),
        context,
        kept_back,
        quarantine,
        state,
        fleet,
        id,
        requests,
        queue: VecDeque::new(),
        opened: Instant::now(),
        old,
        since: None,
        _place: place,
        peer,
        again: proof.again,
        question: None,
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

fn quarantine_of(kept_back: &watch::Receiver<Quarantines>, fleet: &FleetKey) -> Arc<Quarantine> {
    kept_back.borrow().get(fleet).cloned().unwrap_or_default()
}

struct Session {
    context: Context,
    fleet: FleetKey,
    id: String,
    delta: delta::Stream,
    delivered: Delivered,
    state: FleetState,
    kept_back: watch::Receiver<Quarantines>,
    /// What of that the stream knows.
    quarantine: Arc<Quarantine>,
    requests: Streaming<DeltaDiscoveryRequest>,
    queue: VecDeque<delta::Response>,
    opened: Instant,
    /// When it is old.
    old: Instant,
    /// When the event behind the latest change was seen, until the proxy has taken it.
    since: Option<Instant>,
    /// Its place among the streams that there may be.
    _place: OwnedSemaphorePermit,
    /// The other end, and when it must be asked again whether it may have the fleet.
    peer: Arc<Peer>,
    again: Option<Instant>,
    /// That question, while it is on its way.
    question: Option<BoxFuture<'static, Result<Proof, Status>>>,
}

impl Session {
    /// The next response. `None`: the proxy has left, or the controller stops.
    async fn next(&mut self) -> Result<Option<DeltaDiscoveryResponse>, Status> {
        loop {
            if let Some(response) = self.queue.pop_front() {
                return Ok(Some(self.send(&response)));
            }
            if self.is_over() {
                return Ok(None);
            }
            let end = self.next_end();
            let due = self.delta.deadline().map(|at| self.opened + Duration::from_millis(at));
            tokio::select! {
                biased;
                () = self.context.stop.requested() => return Ok(None),
                request = self.requests.message() => match request? {
                    Some(request) => self.take(&request),
                    None => return Ok(None),
                },
                changed = self.context.shared.published.changed() => match changed {
                    Ok(()) => self.follow()?,
                    Err(_) => return Ok(None),
                },
                Ok(()) = self.kept_back.changed() => self.keep_back(),
                () = time::sleep_until(end) => {}
                () = due::at(self.again) => self.ask(),
                answer = due::done(&mut self.question) => self.answered(answer)?,
                () = due::at(due) => {
                    let actions = self.delta.on_deadline(self.now());
                    self.act(actions);
                }
            }
        }
    }

    fn send(&self, response: &delta::Response) -> DeltaDiscoveryResponse {
        let message = response.to_message();
        let counter = match response.kind {
            ResourceType::Cluster => Counter::SentCluster,
            ResourceType::Endpoints => Counter::SentEndpoint,
            ResourceType::Secret => Counter::SentSecret,
            ResourceType::Listener => Counter::SentListener,
            ResourceType::Routes => Counter::SentRoute,
        };
        self.context.shared.metrics.count_by(counter, message.encoded_len());
        message
    }

    /// Asks again whether the other end may have the fleet; meanwhile it goes on.
    fn ask(&mut self) {
        self.again = None;
        let (authorizer, published) = (
            self.context.shared.authorizer.clone(),
            self.context.shared.published.clone(),
        );
        let (peer, fleet) = (Arc::clone(&self.peer), self.fleet.clone());
        self.question = Some(async move { authorizer.authorize(&peer, &fleet, &published).await }.boxed());
    }

    fn answered(&mut self, answer: Result<Proof, Status>) -> Result<(), Status> {
        self.question = None;
        match answer {
            Ok(proof) => self.again = proof.again,
            // Nobody can say; until what was shown expires, it holds.
            Err(status) if status.code() == Code::Unavailable => self.again = Some(Instant::now() + ASK_AGAIN),
            Err(refusal) => {
                tracing::warn!(fleet = %self.fleet, node = self.id, "a proxy is refused from now on: {}", refusal.message());
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// It is old, and nothing is under way or has been for too long.
    fn is_over(&self) -> bool {
        let now = Instant::now();
        now >= self.old && (self.delta.is_settled() || now >= self.old + self.context.lifetime.grace)
    }

    /// When to look whether it is over, if nothing happens before.
    fn next_end(&self) -> Instant {
        match Instant::now() < self.old {
            true => self.old,
            false => self.old + self.context.lifetime.grace,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn take(&mut self, request: &DeltaDiscoveryRequest) {
        let listeners = self.state.snapshot.section(ResourceType::Listener);
        self.delivered.brings(request, listeners);
        let actions = self.delta.on_request(request, self.now());
        self.act(actions);
    }

    /// Takes the latest state, if it is another one for this fleet.
    fn follow(&mut self) -> Result<(), Status> {
        let since = self
            .context
            .shared
            .published
            .borrow_and_update()
            .as_ref()
            .and_then(|published| published.since);
        let state = fleet_state(&self.context.shared.published, &self.fleet)?;
        if Arc::ptr_eq(&state.snapshot, &self.state.snapshot) {
            return Ok(());
        }
        self.state = state;
        self.since = self.since.or(since);
        let actions = self.delta.on_snapshot(&self.state.snapshot, self.now());
        self.act(actions);
        Ok(())
    }

    /// Takes what is kept back from the fleet, if it is something else now.
    fn keep_back(&mut self) {
        self.kept_back.mark_unchanged();
        let quarantine = quarantine_of(&self.kept_back, &self.fleet);
        if quarantine != self.quarantine {
            let actions = self.delta.on_quarantine(&quarantine, self.now());
            self.quarantine = quarantine;
            self.act(actions);
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(response) => self.queue.push_back(response),
                Action::Acknowledged(response) => self.delivered.takes(&response),
                Action::Refused { kind, detail } => self.note_refusal(kind, &detail),
                Action::Rejected(rejection) => self.reject(rejection),
                Action::Resolved { kind, name } => self.forget(|key| key.kind == kind && key.name == name),
                Action::Quarantined(held) => self.quarantine(held),
            }
        }
        self.delivered.tell(self.delta.has_answered(ResourceType::Listener));
        if self.queue.is_empty()
            && self.delta.is_settled()
            && let Some(since) = self.since.take()
        {
            self.context.shared.metrics.observe(Timer::Propagation, since.elapsed());
        }
    }

    /// The log has all of what the proxy says.
    fn note_refusal(&self, kind: ResourceType, detail: &str) {
        self.context.shared.metrics.count(match kind {
            ResourceType::Cluster => Counter::NackCluster,
            ResourceType::Endpoints => Counter::NackEndpoint,
            ResourceType::Secret => Counter::NackSecret,
            ResourceType::Listener => Counter::NackListener,
            ResourceType::Routes => Counter::NackRoute,
        });
        tracing::info!(fleet = %self.fleet, node = self.id, "a proxy refuses a response with {kind:?}: {}", detail.trim());
    }

    fn reject(&self, rejection: delta::Rejection) {
        let reason = delta::reason(&rejection.detail, &rejection.name);
        let (resource, kind) = (&rejection.name, rejection.kind);
        let from = list(&rejection.origins);
        tracing::warn!(fleet = %self.fleet, node = self.id, %resource, from, "a proxy rejects a {kind:?}: {reason}");
        let key = RejectionKey {
            from: KeptFrom::Stream(self.context.number),
            kind,
            name: rejection.name,
        };
        let rejection = Rejection {
            fleet: self.fleet.clone(),
            by: Refuser::DataPlane,
            reason: reason.into(),
            origins: rejection.origins.into(),
        };
        self.context.shared.rejections.send_modify(|all| {
            all.insert(key, rejection);
        });
    }

    /// Keeps parts of route tables back from all proxies of the fleet.
    fn quarantine(&self, held: Vec<QuarantinedPart>) {
        for held in &held {
            let reason = delta::reason(&held.detail, &held.table);
            let from = list(&held.origins);
            tracing::warn!(
                fleet = %self.fleet,
                node = self.id,
                host = %held.host,
                from,
                "a proxy rejects a part of its routes, which is kept back until it changes: {reason}"
            );
        }
        self.context.kept_back.hold(&self.fleet, held, &self.state.snapshot);
    }

    /// Takes rejections of this stream back.
    fn forget(&self, is_settled: impl Fn(&RejectionKey) -> bool) {
        let own = KeptFrom::Stream(self.context.number);
        self.context.shared.rejections.send_if_modified(|all| {
            let before = all.len();
            all.retain(|key, _| key.from != own || !is_settled(key));
            all.len() != before
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget(|_| true);
        self.context.shared.metrics.add(Gauge::Streams, -1);
        self.context
            .shared
            .metrics
            .observe(Timer::StreamLife, self.opened.elapsed());
        tracing::info!(fleet = %self.fleet, node = self.id, stream = self.context.number, "a proxy has disconnected");
    }
}

fn list(origins: &[Origin]) -> String {
    let names: Vec<String> = origins.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// When a stream ends whose peer's proof does: a little before, each at its own time, so that the proxy comes back with
/// what it has been given meanwhile. What is left of a proof that ends soon is not shortened further.
fn end_of(proof: &Proof) -> Instant {
    let now = Instant::now();
    let Some(ends) = proof.ends else {
        return now + FAR;
    };
    let left = ends.duration_since(SystemTime::now()).unwrap_or_default().min(FAR);
    let jitter = Duration::from_secs(random() % EARLY.as_secs());
    let early = if left > 2 * EARLY { jitter } else { Duration::ZERO };
    now + left - early
}
