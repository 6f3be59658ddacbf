//! The server side of the incremental aggregated discovery protocol (delta ADS), as a state machine.
//!
//! One [`Stream`] stands for one connection. It is told what arrives ([`Stream::on_request`], [`Stream::on_snapshot`],
//! [`Stream::on_deadline`]) and answers with what to do. It has no socket and no clock; the caller passes the time in
//! milliseconds of a clock that only goes forward.
//!
//! Order is make before break, by acknowledgement. New and changed clusters go first; listeners and route tables wait
//! until these are acknowledged and warm; what is gone is removed last, and the other way round. Endpoints and secrets
//! of known clusters and listeners change whenever they do and hold nothing up. What a chain of filters loses stays
//! until the tables that may need it are replaced (`bridge`). Behind other guards a table has another name, so that no
//! chain meets routes whose guards it lacks; one that the proxy has from before under such a name is brought up to date
//! before a listener goes over to it.
//!
//! For each kind at most one response is unanswered. What changes meanwhile is only a set of names that need sending:
//! the newest state coalesces, nothing queues up.
//!
//! A refused response counts as not held as a whole, for some proxies take nothing of it, some the good part. It is
//! sent again in parts until a resource is refused alone. What the proxy says about it is no more than a hint of what
//! to send apart first.
//!
//! A route table that is refused alone is not given up: a `trial` finds the rules or hosts in it that the proxy
//! doesn't take, and they go into [`Quarantine`]. Any other resource is not sent again in the version that was
//! rejected. The proxy goes on with what it had, and so clusters and endpoints that its last good listeners and tables
//! may use are kept until the rejection is resolved, which is told too: by a better version that is taken, by going
//! back to what the proxy has, or by removal. Tables that only the last good listeners ask for are kept up to date
//! (`stand_ins`).
//!
//! Deliberately absent: authorisation (the caller knows who is at the other end), and the state-of-the-world variant.

mod bridge;
mod hint;
mod kind;
mod reason;
mod response;
mod stand_ins;
mod states;
mod tables;
mod trial;

#[cfg(test)]
mod tests;

pub use reason::reason;
pub use response::Response;

use crate::{
    lookup::HostForm,
    lower::tables_of,
    parts,
    quarantine::{Quarantine, QuarantinedPart},
    snapshot::{Entry, ResourceType, Section, Snapshot, diff, owners},
};
use bridge::Bridges;
use edge_ir::Origin;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use kind::{KindState, Outstanding, Refusal};
use stand_ins::with_stand_ins;
use states::KindStates;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tables::Tables;

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
    Acknowledged(Response),
    /// The proxy refused a response. Which of its resources it was about is told when it is known.
    Refused {
        /// The kind of its resources.
        kind: ResourceType,
        /// What the proxy says.
        detail: String,
    },
    /// The proxy refuses a resource, and goes on with the version that it had.
    Rejected(Rejection),
    /// What was rejected is no longer: a better version was taken, it was gone back to what the proxy has, or it is
    /// gone.
    Resolved {
        /// The kind of the resource.
        kind: ResourceType,
        /// Its name.
        name: Arc<str>,
    },
    /// Parts of route tables that the proxy refuses. The stream keeps them back; others that serve the fleet should
    /// too.
    Quarantined(Vec<QuarantinedPart>),
}

/// A resource that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its kind.
    pub kind: ResourceType,
    /// Its name.
    pub name: Arc<str>,
    /// What the proxy says.
    pub detail: String,
    /// The objects that it came from, and those that refer to it.
    pub origins: Vec<Origin>,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Stream {
    /// What the fleet is to be served.
    wanted: Snapshot,
    /// What of that is not kept back.
    snapshot: Snapshot,
    quarantine: Quarantine,
    tables: Tables,
    states: KindStates,
    bridges: Bridges,
    /// Listeners as the proxy has taken them.
    listeners: BTreeMap<Arc<str>, TakenListener>,
    nonce: u64,
    /// Endpoints whose acknowledgement makes a sent cluster usable, and until when that is waited for.
    warming: BTreeMap<Arc<str>, u64>,
    /// When the first request came.
    opened: Option<u64>,
}

/// A listener as the proxy has taken it.
#[derive(Debug)]
struct TakenListener {
    entry: Arc<Entry>,
    /// The tables that it asks for.
    tables: BTreeSet<String>,
}

impl TakenListener {
    fn of(entry: &Arc<Entry>) -> Self {
        Self {
            entry: Arc::clone(entry),
            tables: tables_of(entry),
        }
    }
}

impl Stream {
    /// A connection that has not asked for anything yet. There must be something to serve: a proxy that is told of
    /// nothing drops what it has.
    pub fn new(snapshot: Snapshot, quarantine: Quarantine) -> Self {
        Self {
            snapshot: quarantine.apply(&snapshot),
            wanted: snapshot,
            quarantine,
            tables: Tables::default(),
            states: KindStates::new(),
            bridges: Bridges::default(),
            listeners: BTreeMap::new(),
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
        if let Some(node) = &request.node {
            self.tables.takes_parts = node.client_features.iter().any(|feature| feature == parts::FEATURE);
            self.tables.hosts = HostForm::of(node);
        }
        self.settle(kind, request, &mut actions);
        let section = Arc::clone(self.snapshot.section(kind));
        let state = &mut self.states[kind];
        let is_first = !state.has_been_asked_for();
        state.subscribe(request, &section);
        if is_first && kind == ResourceType::Routes {
            self.tables.brought(state.held(), &section);
        }
        self.send(now, &mut actions);
        actions
    }

    /// Takes a new state of the fleet.
    pub fn on_snapshot(&mut self, snapshot: &Snapshot, now: u64) -> Vec<Action> {
        self.wanted = snapshot.clone();
        // What is kept back here only is of no interest once it has changed.
        self.quarantine.release(snapshot);
        self.serve();
        let mut actions = Vec::new();
        self.send(now, &mut actions);
        actions
    }

    /// Takes what is kept back from all proxies of the fleet.
    pub fn on_quarantine(&mut self, quarantine: &Quarantine, now: u64) -> Vec<Action> {
        self.quarantine = quarantine.clone();
        self.serve();
        let mut actions = Vec::new();
        self.send(now, &mut actions);
        actions
    }

    /// Goes over to what is wanted and not kept back.
    fn serve(&mut self) {
        let next = self.with_stand_ins(self.quarantine.apply(&self.wanted));
        for (kind, state) in self.states.iter_mut() {
            state.update(&diff(self.snapshot.section(kind), next.section(kind)));
        }
        let before = std::mem::replace(&mut self.snapshot, next);
        self.bridge(before.section(ResourceType::Listener));
        self.tables.follow(
            self.snapshot.section(ResourceType::Routes),
            &mut self.states[ResourceType::Routes],
        );
    }

    /// With tables for listeners that the proxy refuses.
    fn with_stand_ins(&self, snapshot: Snapshot) -> Snapshot {
        let refused = self.states[ResourceType::Listener].rejections();
        let taken = refused.filter_map(|name| self.listeners.get(name));
        with_stand_ins(snapshot, taken.map(|taken| &taken.entry))
    }

    /// Leads listeners that lose filters to what they shall be, if the proxy has tables that may need these.
    fn bridge(&mut self, before: &Arc<Section>) {
        let after = Arc::clone(self.snapshot.section(ResourceType::Listener));
        let listeners_change = !Arc::ptr_eq(before, &after);
        if !listeners_change || !self.states[ResourceType::Listener].has_been_asked_for() {
            return;
        }
        let diff = diff(before, &after);
        self.listeners.retain(|name, _| !diff.removed.contains(name));
        let tables_stay = self.has_tables();
        let listeners = &mut self.states[ResourceType::Listener];
        match tables_stay {
            true => self.bridges.end(listeners, &after),
            false => self.bridges.build(listeners, before, &diff, &after),
        }
    }

    /// Whether the proxy has the tables that it is to have.
    fn has_tables(&self) -> bool {
        let tables = &self.states[ResourceType::Routes];
        tables.has_sent_all() && !tables.has_rejections()
    }

    /// Takes away from listeners what no table needs any more.
    fn end_bridges(&mut self) {
        let arrived = self.states[ResourceType::Listener].has_sent_all() && self.has_tables();
        if !arrived || self.bridges.is_empty() {
            return;
        }
        let section = Arc::clone(self.snapshot.section(ResourceType::Listener));
        self.bridges.end(&mut self.states[ResourceType::Listener], &section);
    }

    /// Takes note that time has passed.
    pub fn on_deadline(&mut self, now: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        self.send(now, &mut actions);
        actions
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called, if nothing else happens before.
    pub fn deadline(&self) -> Option<u64> {
        let removals_wait = !self.has_asked_for_all() && self.states.iter().any(KindState::has_removals);
        let returned = self
            .opened
            .filter(|_| removals_wait)
            .map(|opened| opened.saturating_add(RETURN_MILLIS));
        self.warming.values().copied().chain(returned).min()
    }

    /// Whether everything that the proxy subscribed to has been sent and answered.
    pub fn is_settled(&self) -> bool {
        self.states.iter().all(KindState::is_settled)
    }

    /// Whether the proxy has asked for a kind, and has answered to all that there is of it.
    pub fn has_answered(&self, kind: ResourceType) -> bool {
        let state = &self.states[kind];
        state.has_been_asked_for() && state.has_sent_all()
    }

    /// Matches a request with the response that it answers.
    fn settle(&mut self, kind: ResourceType, request: &DeltaDiscoveryRequest, actions: &mut Vec<Action>) {
        let state = &mut self.states[kind];
        let Some(answered) = state.answered(&request.response_nonce) else {
            return;
        };
        match &request.error_detail {
            None => self.taken(kind, answered, actions),
            Some(error) => self.refused(kind, &answered, &error.message, actions),
        }
    }

    fn taken(&mut self, kind: ResourceType, answered: Outstanding, actions: &mut Vec<Action>) {
        let state = &self.states[kind];
        if kind == ResourceType::Endpoints {
            // What is to be sent again was sent before the cluster was.
            let warm = answered.response.names().filter(|name| !state.is_pending(name));
            warm.for_each(|name| {
                self.warming.remove(name);
            });
        }
        let response = answered.response;
        if kind == ResourceType::Listener {
            let taken = response.resources.iter();
            self.listeners
                .extend(taken.map(|entry| (Arc::clone(&entry.name), TakenListener::of(entry))));
        }
        let tables = match kind {
            ResourceType::Routes => response.resources.clone(),
            _ => Vec::new(),
        };
        actions.push(Action::Acknowledged(response));
        for entry in &tables {
            let step = self.tables.took(entry);
            self.follow_trial(&entry.name, step, actions);
        }
        if kind == ResourceType::Listener {
            // What it asked for until now may be needed no more.
            self.serve();
        }
    }

    fn refused(&mut self, kind: ResourceType, answered: &Outstanding, detail: &str, actions: &mut Vec<Action>) {
        actions.push(Action::Refused {
            kind,
            detail: detail.to_owned(),
        });
        let section = Arc::clone(self.snapshot.section(kind));
        let state = &mut self.states[kind];
        let Refusal::Certain(entry) = state.refuse(answered, detail, &section) else {
            return;
        };
        if kind == ResourceType::Routes {
            let next = self.tables.refused(&entry, section.get(&entry.name), detail);
            if next.is_none() {
                state.end_trial(&entry.name, &section);
            }
            self.follow_trial(&entry.name, next, actions);
        } else {
            self.reject(kind, &entry, detail, actions);
        }
    }

    /// A version is refused for good.
    fn reject(&mut self, kind: ResourceType, entry: &Entry, detail: &str, actions: &mut Vec<Action>) {
        // A cluster that was refused never warms, and endpoints that were refused warm nothing.
        let waited_for = if kind == ResourceType::Endpoints {
            Some(&entry.name)
        } else {
            entry.warmed_by.as_ref()
        };
        waited_for.map(|name| self.warming.remove(name));
        let section = Arc::clone(self.snapshot.section(kind));
        if !self.states[kind].give_up(entry, &section) {
            return;
        }
        actions.push(Action::Rejected(Rejection {
            kind,
            name: Arc::clone(&entry.name),
            detail: detail.to_owned(),
            origins: owners(&self.snapshot, kind, &entry.name),
        }));
        if kind == ResourceType::Listener {
            self.serve();
        }
    }

    /// Sends all that may be sent now.
    fn send(&mut self, now: u64, actions: &mut Vec<Action>) {
        self.end_bridges();
        self.warming.retain(|_, deadline| *deadline > now);
        for kind in ResourceType::ALL {
            self.send_updates(kind, now, actions);
        }
        if self.may_remove(now) {
            // The order of removals: what points before what is pointed at.
            for kind in REMOVALS {
                self.send_removals(kind, actions);
            }
        }
        for (kind, state) in self.states.iter_mut() {
            let resolved = state.take_resolved().into_iter();
            actions.extend(resolved.map(|name| Action::Resolved { kind, name }));
        }
    }

    /// Whether the proxy has said of every kind what it uses, or has had the time to.
    fn may_remove(&self, now: u64) -> bool {
        let waited = self
            .opened
            .is_some_and(|opened| opened.saturating_add(RETURN_MILLIS) <= now);
        waited || self.has_asked_for_all()
    }

    fn send_updates(&mut self, kind: ResourceType, now: u64, actions: &mut Vec<Action>) {
        let may_point = self.states[ResourceType::Cluster].has_sent_all() && self.warming.is_empty();
        let allowed = match kind {
            ResourceType::Cluster | ResourceType::Endpoints | ResourceType::Secret => true,
            ResourceType::Listener => may_point && !self.tables_go_first(),
            ResourceType::Routes => {
                may_point && (self.states[ResourceType::Listener].updates_sent() || self.tables_go_first())
            }
        };
        if !allowed {
            return;
        }
        let section = Arc::clone(self.snapshot.section(kind));
        let next = self.nonce + 1;
        let tables = &self.tables;
        let known = |name: &str, version| (kind == ResourceType::Routes).then(|| tables.base(name, version))?;
        let Some(mut response) = self.states[kind].next_updates(&section, next, known) else {
            return;
        };
        response.hosts = self.tables.hosts;
        self.nonce = next;
        if kind == ResourceType::Cluster {
            self.await_endpoints(&response, now);
        }
        actions.push(Action::Send(response));
    }

    /// Whether a listener is to be sent that goes over to a table which the proxy has already, as it was some time ago:
    /// chains that drain keep theirs ([`wire_name`](crate::lower)), and the new one would serve it at once.
    fn tables_go_first(&self) -> bool {
        let tables = &self.states[ResourceType::Routes];
        if tables.has_sent_all() {
            return false;
        }
        let section = self.snapshot.section(ResourceType::Listener);
        let pending = self.states[ResourceType::Listener].pending();
        pending.filter_map(|name| section.get(name)).any(|listener| {
            let taken = self.listeners.get(&listener.name);
            let is_other = |table: &String| taken.is_none_or(|taken| !taken.tables.contains(table));
            tables_of(listener)
                .iter()
                .any(|table| tables.is_under_way(table) && is_other(table))
        })
    }

    /// A cluster that is sent again wants its endpoints again, even if they are the same, and isn't usable before.
    fn await_endpoints(&mut self, response: &Response, now: u64) {
        let section = Arc::clone(self.snapshot.section(ResourceType::Endpoints));
        for set in response.resources.iter().filter_map(|entry| entry.warmed_by.as_ref()) {
            if section.get(set).is_some() {
                self.states[ResourceType::Endpoints].resend(set);
                self.warming.insert(Arc::clone(set), now.saturating_add(WARMING_MILLIS));
            }
        }
    }

    fn send_removals(&mut self, kind: ResourceType, actions: &mut Vec<Action>) {
        let updates_done = ORDERED.iter().all(|kind| self.states[*kind].has_sent_all());
        let earlier = REMOVALS.iter().take_while(|earlier| **earlier != kind);
        let turn = earlier
            .clone()
            .all(|earlier| self.states[*earlier].is_settled() || self.is_in_use(*earlier));
        if !updates_done || !turn || self.is_in_use(kind) {
            return;
        }
        let next = self.nonce + 1;
        if let Some(response) = self.states[kind].next_removals(next) {
            self.nonce = next;
            actions.push(Action::Send(response));
        }
    }

    /// Whether resources of a kind must stay: the proxy still serves the last good version of what it refused, and that
    /// may point at them.
    fn is_in_use(&self, kind: ResourceType) -> bool {
        let users: &[ResourceType] = match kind {
            ResourceType::Listener => &[],
            // A listener that was refused, or waits for the table that was, goes on with the table that it had.
            ResourceType::Routes => &[ResourceType::Listener, ResourceType::Routes],
            ResourceType::Cluster => &[ResourceType::Listener, ResourceType::Routes],
            ResourceType::Endpoints | ResourceType::Secret => &ORDERED,
        };
        users.iter().any(|user| self.states[*user].has_rejections())
    }

    fn has_asked_for_all(&self) -> bool {
        ORDERED.iter().all(|kind| self.states[*kind].has_been_asked_for())
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
