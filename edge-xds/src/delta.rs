//! The server side of the incremental aggregated discovery protocol (delta ADS), as a state machine.
//!
//! One [`Stream`] stands for one connection. It is told what arrives ([`Stream::on_request`], [`Stream::on_snapshot`],
//! [`Stream::on_deadline`]) and answers with what to do. It has no socket and no clock; the caller passes the time in
//! milliseconds of a clock that only goes forward.
//!
//! Order is make before break, by acknowledgement. New and changed clusters go first; listeners and route tables wait
//! until these are acknowledged and warm; what is gone is removed last, and the other way round. Endpoints and secrets
//! of known clusters and listeners change whenever they do and hold nothing up.
//!
//! For each kind at most one response is unanswered. What changes meanwhile is only a set of names that need sending:
//! the newest state coalesces, nothing queues up.
//!
//! A rejected resource is not sent again in the version that was rejected. The proxy goes on with what it had, and so
//! clusters and endpoints that its last good listeners and tables may use are kept until the rejection is resolved.
//!
//! Deliberately absent: authorisation (the caller knows who is at the other end), and the state-of-the-world variant.

mod kind;
mod response;

#[cfg(test)]
mod tests;

pub use response::Response;

use crate::snapshot::{ResourceType, Snapshot, diff};
use edge_ir::Origin;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kind::Kind;
use std::{collections::BTreeMap, sync::Arc};

/// How long listeners and routes wait for a changed cluster's endpoints to be acknowledged. A proxy that never asks for
/// them must not hold up everything else.
pub const WARMING_MILLIS: u64 = 250;

/// How long removals wait on a new connection for the proxy to ask for every kind. One that comes back asks for one
/// kind after the other, and until it has asked for its route tables nobody knows which clusters these use.
pub const RETURN_MILLIS: u64 = 1000;

/// What the caller is to do, in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send this.
    Send(Response),
    /// The proxy took a response.
    Acknowledged {
        /// The kind of its resources.
        kind: ResourceType,
        /// The nonce of the response.
        nonce: String,
    },
    /// The proxy refused a response, or part of it.
    Rejected(Nack),
}

/// A refusal, and what it was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// The kind of the resources.
    pub kind: ResourceType,
    /// Names of the refused resources: those that the detail names, or all of the response if it names none.
    pub names: Vec<Arc<str>>,
    /// What the proxy says.
    pub detail: String,
    /// The objects that the refused resources came from, without duplicates.
    pub origins: Vec<Origin>,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Stream {
    snapshot: Snapshot,
    kinds: [Kind; 5],
    nonce: u64,
    /// Endpoints whose acknowledgement makes a sent cluster usable, and until when that is waited for.
    warming: BTreeMap<Arc<str>, u64>,
    /// When the first request came.
    opened: Option<u64>,
}

impl Stream {
    /// A connection that has not asked for anything yet. There must be something to serve: a proxy that is told of
    /// nothing drops what it has.
    pub fn new(snapshot: Snapshot) -> Self {
        let kinds = ResourceType::ALL.map(Kind::new);
        Self {
            snapshot,
            kinds,
            nonce: 0,
            warming: BTreeMap::new(),
            opened: None,
        }
    }

    /// Takes a request: a subscription, an acknowledgement or both. Kinds that nobody serves are not answered.
    pub fn on_request(&mut self, request: &DeltaDiscoveryRequest, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(kind) = ResourceType::from_type_url(&request.type_url) else {
            return actions;
        };
        self.opened.get_or_insert(now);
        self.settle(kind, request, &mut actions);
        let section = Arc::clone(self.snapshot.section(kind));
        self.kinds[kind as usize].subscribe(request, &section);
        self.send(now, &mut actions);
        actions
    }

    /// Takes a new state of the fleet.
    pub fn on_snapshot(&mut self, snapshot: &Snapshot, now: u64) -> Vec<Action> {
        for (kind, state) in ResourceType::ALL.into_iter().zip(&mut self.kinds) {
            state.update(&diff(self.snapshot.section(kind), snapshot.section(kind)));
        }
        self.snapshot = snapshot.clone();
        let mut actions = Vec::new();
        self.send(now, &mut actions);
        actions
    }

    /// Takes note that time has passed.
    pub fn on_deadline(&mut self, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        self.send(now, &mut actions);
        actions
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called, if nothing else happens before.
    pub fn deadline(&self) -> Option<u64> {
        let removals_wait = !self.has_asked_for_all() && self.kinds.iter().any(Kind::has_removals);
        let returned = self
            .opened
            .filter(|_| removals_wait)
            .map(|opened| opened.saturating_add(RETURN_MILLIS));
        self.warming.values().copied().chain(returned).min()
    }

    /// Whether everything that the proxy subscribed to has been sent and answered.
    pub fn is_settled(&self) -> bool {
        self.kinds.iter().all(Kind::is_settled)
    }

    /// Matches a request with the response that it answers.
    fn settle(&mut self, kind: ResourceType, request: &DeltaDiscoveryRequest, actions: &mut Vec<Action>) {
        let state = &mut self.kinds[kind as usize];
        let Some(answered) = state.answered(&request.response_nonce) else {
            return;
        };
        let Some(error) = &request.error_detail else {
            if kind == ResourceType::Endpoints {
                // What is to be sent again was sent before the cluster was.
                let warm = answered.response.names().filter(|name| !state.is_pending(name));
                warm.for_each(|name| {
                    self.warming.remove(name);
                });
            }
            actions.push(Action::Acknowledged {
                kind,
                nonce: answered.response.nonce,
            });
            return;
        };
        let refused = state.reject(&answered, &error.message, self.snapshot.section(kind));
        for entry in &refused {
            // A cluster that was refused never warms, and endpoints that were refused warm nothing.
            let waited_for = if kind == ResourceType::Endpoints {
                Some(&entry.name)
            } else {
                entry.warmed_by.as_ref()
            };
            waited_for.map(|name| self.warming.remove(name));
        }
        let mut origins: Vec<Origin> = refused.iter().flat_map(|entry| entry.origins.to_vec()).collect();
        origins.sort();
        origins.dedup();
        let names = refused.iter().map(|entry| Arc::clone(&entry.name)).collect();
        actions.push(Action::Rejected(Nack {
            kind,
            names,
            detail: error.message.clone(),
            origins,
        }));
    }

    /// Sends all that may be sent now.
    fn send(&mut self, now: u64, actions: &mut Vec<Action>) {
        self.warming.retain(|_, deadline| *deadline > now);
        for kind in ResourceType::ALL {
            self.send_updates(kind, now, actions);
        }
        let waited = self
            .opened
            .is_some_and(|opened| opened.saturating_add(RETURN_MILLIS) <= now);
        if !waited && !self.has_asked_for_all() {
            return;
        }
        // The order of removals: what points before what is pointed at.
        for kind in REMOVALS {
            self.send_removals(kind, actions);
        }
    }

    fn send_updates(&mut self, kind: ResourceType, now: u64, actions: &mut Vec<Action>) {
        let may_point = self.state(ResourceType::Cluster).has_sent_all() && self.warming.is_empty();
        let allowed = match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => true,
            ResourceType::Listener => may_point,
            ResourceType::Routes => may_point && self.state(ResourceType::Listener).updates_sent(),
        };
        if !allowed {
            return;
        }
        let section = Arc::clone(self.snapshot.section(kind));
        let next = self.nonce + 1;
        let Some(response) = self.kinds[kind as usize].next_updates(&section, next) else {
            return;
        };
        self.nonce = next;
        if kind == ResourceType::Cluster {
            self.await_endpoints(&response, now);
        }
        actions.push(Action::Send(response));
    }

    /// A cluster that is sent again wants its endpoints again, even if they are the same, and isn't usable before.
    fn await_endpoints(&mut self, response: &Response, now: u64) {
        let section = Arc::clone(self.snapshot.section(ResourceType::Endpoints));
        for set in response.resources.iter().filter_map(|entry| entry.warmed_by.as_ref()) {
            if section.get(set).is_some() {
                self.kinds[ResourceType::Endpoints as usize].resend(set);
                self.warming.insert(Arc::clone(set), now.saturating_add(WARMING_MILLIS));
            }
        }
    }

    fn send_removals(&mut self, kind: ResourceType, actions: &mut Vec<Action>) {
        let updates_done = ORDERED.iter().all(|kind| self.state(*kind).has_sent_all());
        let earlier = REMOVALS.iter().take_while(|earlier| **earlier != kind);
        let turn = earlier.clone().all(|earlier| self.state(*earlier).is_settled());
        // The proxy still serves the last good version of what it refused, and that may point here.
        let in_use = !matches!(kind, ResourceType::Listener | ResourceType::Routes)
            && ORDERED.iter().any(|kind| self.state(*kind).has_rejections());
        if !updates_done || !turn || in_use {
            return;
        }
        let next = self.nonce + 1;
        if let Some(response) = self.kinds[kind as usize].next_removals(next) {
            self.nonce = next;
            actions.push(Action::Send(response));
        }
    }

    fn has_asked_for_all(&self) -> bool {
        ORDERED.iter().all(|kind| self.state(*kind).has_been_asked_for())
    }

    fn state(&self, kind: ResourceType) -> &Kind {
        &self.kinds[kind as usize]
    }
}

/// Kinds whose changes are put in order; the others follow these.
const ORDERED: [ResourceType; 3] = [ResourceType::Cluster, ResourceType::Listener, ResourceType::Routes];

/// Kinds in the order in which resources of them are taken away.
const REMOVALS: [ResourceType; 5] = [
    ResourceType::Routes,
    ResourceType::Listener,
    ResourceType::Secret,
    ResourceType::Endpoints,
    ResourceType::Cluster,
];
