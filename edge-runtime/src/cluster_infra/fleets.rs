//! All fleets: who is wanted, what there is of each, and the task that brings the two together. The service of rate
//! limits is looked after like one.

use super::{
    Outputs, Rendering,
    fleet::{Fleet, Work},
    nodes::Nodes,
    observe::{News, WatchScope},
    report::{nothing_yet, report_of_unknown},
    seen::{ObjectId, View},
    write::Turns,
};
use crate::state::{FleetState, Published};
use accounts::{infra_of, may_share};
use edge_ir::{FleetKey, Infra};
use kube::Client;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
};

mod accounts;

pub(super) struct Fleets {
    client: Client,
    rendering: Arc<Rendering>,
    outputs: Outputs,
    turns: Arc<Turns>,
    /// The fleets that there are to be.
    state: Option<Arc<Published>>,
    /// The service of rate limits, if there is to be one.
    service: Option<(FleetKey, Arc<Infra>)>,
    /// Objects with our marks, and whose they are.
    owners: BTreeMap<ObjectId, FleetKey>,
    /// The same by fleet, as they were seen last.
    views: BTreeMap<FleetKey, View>,
    /// How often something of a fleet has gone.
    losses: BTreeMap<FleetKey, u64>,
    /// How often all objects of a place were listed: what isn't in a list may have come and gone unseen.
    lists: u64,
    /// Watches that haven't told everything yet.
    incomplete: BTreeSet<WatchScope>,
    /// Fleets that are reached by the addresses of nodes.
    on_nodes: BTreeSet<FleetKey>,
    running: BTreeMap<FleetKey, Running>,
    pub(super) nodes: Nodes,
    pub(super) tasks: JoinSet<FleetKey>,
}

/// The task of a fleet.
struct Running {
    id: Id,
    work: watch::Sender<Work>,
}

impl Fleets {
    pub(super) fn new(
        client: Client,
        rendering: Rendering,
        incomplete: BTreeSet<WatchScope>,
        outputs: Outputs,
    ) -> Self {
        Self {
            service: rendering.service(),
            nodes: Nodes::new(client.clone(), Arc::clone(&outputs.metrics)),
            client,
            rendering: Arc::new(rendering),
            outputs,
            turns: Arc::new(Turns::new()),
            state: None,
            owners: BTreeMap::new(),
            views: BTreeMap::new(),
            losses: BTreeMap::new(),
            lists: 0,
            incomplete,
            on_nodes: BTreeSet::new(),
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Takes the fleets that there are to be. Those whose infrastructure is the same allocation as before have no work.
    pub(super) fn publish(&mut self, state: Option<Arc<Published>>) {
        let before = std::mem::replace(&mut self.state, state);
        let (Some(before), Some(now)) = (before, self.state.clone()) else {
            return self.follow_all();
        };
        if !self.is_ready() {
            return;
        }
        let is_other = |(key, fleet): &(&FleetKey, &FleetState)| {
            let known = before.fleets.get(*key);
            !known.is_some_and(|known| {
                let [was, is] = [known, fleet].map(|fleet| infra_of(fleet).map(Arc::as_ptr));
                was == is && known.alternatives == fleet.alternatives
            })
        };
        let others = now.fleets.iter().filter(is_other).map(|(key, _)| key);
        let gone = before.fleets.keys().filter(|key| !now.fleets.contains_key(*key));
        // What may have been somebody's fleet isn't any more.
        let held = before.fleets.values().flat_map(|fleet| &fleet.alternatives);
        let changed: Vec<&FleetKey> = others.chain(gone).chain(held).collect();
        let may_concern_others = |key: &FleetKey| [&before, &now].iter().any(|state| may_share(state.fleets.get(key)));
        match changed.iter().any(|key| may_concern_others(key)) {
            true => self.follow_all(),
            false => changed.into_iter().for_each(|key| self.follow(key)),
        }
    }

    /// Renders everything anew.
    pub(super) fn render_with(&mut self, rendering: Rendering) {
        self.service = rendering.service();
        self.rendering = Arc::new(rendering);
        self.follow_all();
    }

    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Seen(id, marks, seen) => {
                let ours = marks.controller.as_deref() == Some(&*self.rendering.terms.controller_name);
                let lender = self.lender(&id);
                let before = self.forget(&id);
                // Otherwise somebody has taken the marks away, or it is another controller's.
                let fleet = marks.fleet.filter(|_| ours);
                if let Some(fleet) = &fleet {
                    self.views.entry(fleet.clone()).or_default().insert(id.clone(), seen);
                    self.owners.insert(id, fleet.clone());
                }
                let before = before.filter(|before| fleet.as_ref() != Some(before));
                self.count_loss(before.as_ref());
                let lender = lender.filter(|lender| fleet.as_ref() != Some(lender));
                self.follow_each([before, fleet, lender]);
            }
            News::Gone(id) => {
                let lender = self.lender(&id);
                let before = self.forget(&id);
                self.count_loss(before.as_ref());
                let lender = lender.filter(|lender| before.as_ref() != Some(lender));
                self.follow_each([before, lender]);
                self.restore_account(&id);
            }
            News::Complete(place, listed) => {
                let is_gone = |id: &&ObjectId| place.tells_of(id) && !listed.contains(*id);
                let gone: Vec<ObjectId> = self.owners.keys().filter(is_gone).cloned().collect();
                for id in gone {
                    self.forget(&id);
                }
                self.lists += 1;
                self.incomplete.remove(&place);
                self.follow_all();
            }
        }
    }

    fn count_loss(&mut self, fleet: Option<&FleetKey>) {
        if let Some(fleet) = fleet {
            *self.losses.entry(fleet.clone()).or_default() += 1;
        }
    }

    /// Forgets an object. Gives the fleet that it was of.
    fn forget(&mut self, id: &ObjectId) -> Option<FleetKey> {
        let fleet = self.owners.remove(id)?;
        if let Some(view) = self.views.get_mut(&fleet) {
            view.remove(id);
            if view.is_empty() {
                self.views.remove(&fleet);
            }
        }
        Some(fleet)
    }

    fn is_ready(&self) -> bool {
        self.incomplete.is_empty() && self.state.is_some()
    }

    fn follow_each(&mut self, keys: impl IntoIterator<Item = Option<FleetKey>>) {
        if self.is_ready() {
            keys.into_iter().flatten().for_each(|key| self.follow(&key));
        }
    }

    /// Gives every fleet its work: those that are wanted, and those of which something is left.
    pub(super) fn follow_all(&mut self) {
        if !self.is_ready() {
            return;
        }
        let wanted = self.state.iter().flat_map(|state| state.fleets.keys());
        let keys: BTreeSet<FleetKey> = wanted
            .chain(self.service.iter().map(|(key, _)| key))
            .chain(self.views.keys())
            .chain(self.running.keys())
            .cloned()
            .collect();
        keys.iter().for_each(|key| self.follow(key));
    }

    fn follow(&mut self, key: &FleetKey) {
        self.follow_nodes(key);
        let mut view = self.views.get(key).cloned().unwrap_or_default();
        let fleet = self.state.as_ref().and_then(|state| state.fleets.get(key));
        let service = self.service.as_ref().filter(|(service, _)| service == key);
        let infra = match (fleet, service) {
            // What can't be used changes nothing: what is there stays as it is, and drift of what was wanted last is
            // repaired, also if another replica led then.
            (Some(fleet), _) => match infra_of(fleet).cloned().or_else(|| self.known(key)) {
                Some(infra) => Some(infra),
                None => return self.leave(key, fleet, &view),
            },
            (None, None) if self.is_alternative(key) => match self.known(key) {
                Some(infra) => Some(infra),
                None => return,
            },
            (None, service) => service.map(|(_, infra)| Arc::clone(infra)),
        };
        self.share_accounts(key, infra.as_deref(), &mut view);
        let work = Work {
            wanted: infra.map(|infra| (infra, Arc::clone(&self.rendering))),
            nodes: self.on_nodes.get(key).and_then(|_| self.nodes.addresses()),
            // Both only grow, so the sum tells when either has.
            losses: self.lists + self.losses.get(key).unwrap_or(&0),
            view,
        };
        match self.running.get(key) {
            Some(running) => {
                let hand = |old: &mut Work| {
                    let is_other = !old.is_same(&work);
                    if is_other {
                        *old = work;
                    }
                    is_other
                };
                running.work.send_if_modified(hand);
            }
            None if work.wanted.is_none() && work.view.is_empty() => self.untell(key),
            None => self.start(key, work),
        }
    }

    /// Nobody knows what is wanted of a fleet: it stays as it is, and what it looks like is said. Where that isn't
    /// known either, what was said before stays.
    fn leave(&self, key: &FleetKey, fleet: &FleetState, view: &View) {
        let mut alternatives = fleet.alternatives.iter();
        if view.is_empty() && alternatives.any(|other| self.views.contains_key(other)) {
            return;
        }
        let home = fleet.home.as_ref();
        let nodes = self.on_nodes.get(key).and_then(|_| self.nodes.addresses());
        let report = match (home, self.on_nodes.contains(key), &nodes) {
            _ if view.is_empty() => Some(nothing_yet()),
            (None, ..) | (_, true, None) => None,
            (Some(home), _, nodes) => report_of_unknown(home, view, nodes.as_deref().unwrap_or_default()),
        };
        let Some(report) = report else { return };
        self.outputs.reports.send_if_modified(|reports| {
            let Some(reports) = reports else { return false };
            let before = reports.insert(key.clone(), report.clone());
            before.as_ref() != Some(&report)
        });
    }

    fn untell(&self, key: &FleetKey) {
        self.outputs.reports.send_if_modified(|reports| {
            let told = reports.as_mut().and_then(|reports| reports.remove(key));
            told.is_some()
        });
    }

    /// Follows the nodes while a fleet is reached by them.
    fn follow_nodes(&mut self, key: &FleetKey) {
        let mut view = self.views.get(key).into_iter().flatten();
        match view.any(|(_, seen)| seen.is_reached_by_nodes()) {
            true => {
                self.on_nodes.insert(key.clone());
                self.nodes.follow();
            }
            false => {
                self.on_nodes.remove(key);
                if self.on_nodes.is_empty() {
                    self.nodes.leave();
                }
            }
        }
    }

    /// Whether a fleet may be wanted by Gateways, which nobody can tell at the moment.
    fn is_alternative(&self, key: &FleetKey) -> bool {
        let mut fleets = self.state.iter().flat_map(|state| state.fleets.values());
        fleets.any(|fleet| fleet.alternatives.contains(key))
    }

    /// What was wanted of a fleet last, as far as this replica knows since it leads.
    fn known(&self, key: &FleetKey) -> Option<Arc<Infra>> {
        let work = self.running.get(key)?.work.borrow();
        work.wanted.as_ref().map(|(infra, _)| Arc::clone(infra))
    }

    fn start(&mut self, key: &FleetKey, work: Work) {
        let turns = Arc::clone(&self.turns);
        let fleet = Fleet::new(key.clone(), self.client.clone(), turns, self.outputs.clone());
        let (sender, receiver) = watch::channel(work);
        let id = self.tasks.spawn(fleet.run(receiver)).id();
        self.running.insert(key.clone(), Running { id, work: sender });
    }

    /// A task has ended: its fleet is gone, unless it has come back meanwhile.
    pub(super) fn ended(&mut self, ended: Result<(Id, FleetKey), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            // A bug costs an attempt and not the task, so this isn't expected.
            Err(error) => {
                tracing::error!(%error, "the task of a fleet failed");
                error.id()
            }
        };
        let key = self.running.iter().find(|(_, running)| running.id == id);
        if let Some(key) = key.map(|(key, _)| key.clone()) {
            self.running.remove(&key);
            self.losses.remove(&key);
            self.follow(&key);
        }
    }
}

#[cfg(test)]
mod tests;
