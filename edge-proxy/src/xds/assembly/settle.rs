//! Activation: what is ready goes into the next snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use prost::Message;

use crate::compile::At;
use crate::compile::cluster::Discovery;
use crate::compile::endpoint::{EndpointInput, Resolved, endpoints};
use crate::config::cluster::ClusterEntry;
use crate::config::route::{Action, ClusterChoice};
use crate::config::table::RouteTable;
use crate::config::{ClusterId, Snapshot};
use crate::vitals::Flag;
use crate::xds::assembly::{Assembly, Changes};
use crate::xds::{Kind, Rejected};

/// What activating changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// True when there is a new snapshot.
    pub changed: bool,
    /// Resources that turned out bad only with what they depend on (a secret of the wrong kind …).
    pub rejected: Vec<(KindName, String)>,
}

/// Type and name of a resource.
pub type KindName = (Kind, String);

impl Assembly {
    /// Activates whatever became ready and builds the snapshot.
    pub fn settle(&mut self) -> Settled {
        let changes = std::mem::take(&mut self.changes);
        let mut settled = Settled::default();
        let mut next = Snapshot {
            version: self.snapshot.version + 1,
            listeners: self.snapshot.listeners.clone(),
            route_tables: self.snapshot.route_tables.clone(),
            clusters: self.snapshot.clusters.clone(),
            cluster_ids: self.snapshot.cluster_ids.clone(),
        };
        settled.changed |= self.settle_clusters(&changes, &mut next, &mut settled.rejected);
        settled.changed |= self.settle_tables(&changes, &mut next);
        settled.changed |= self.settle_listeners(&changes, &mut next, &mut settled.rejected);
        if settled.changed {
            self.snapshot = Arc::new(next);
            self.free_ids();
        }
        for ((kind, name), reason) in &settled.rejected {
            let bad = Rejected {
                name: name.clone(),
                reason: reason.clone(),
            };
            self.failures.insert((*kind, name.clone()), bad);
        }
        settled
    }

    fn settle_clusters(
        &mut self,
        changes: &Changes,
        next: &mut Snapshot,
        rejected: &mut Vec<(KindName, String)>,
    ) -> bool {
        let mut updates: BTreeMap<Arc<str>, Option<Arc<ClusterEntry>>> = BTreeMap::new();
        for name in &changes.clusters {
            if !self.clusters.contains_key(name) {
                updates.insert(name.clone(), None);
                continue;
            }
            match self.activate_cluster(name) {
                Ok(Some(entry)) => {
                    updates.insert(name.clone(), Some(entry));
                }
                Ok(None) => {}
                Err(reason) => rejected.push(((Kind::Cluster, name.to_string()), reason)),
            }
        }
        if updates.is_empty() {
            return false;
        }
        let mut clusters = Vec::clone(&next.clusters);
        let mut by_name = None;
        for (name, entry) in updates {
            let id = ClusterId(self.context.clusters.intern(&name));
            let slot = id.0 as usize;
            if slot >= clusters.len() {
                clusters.resize(slot + 1, None);
            }
            if entry.is_some() != clusters[slot].is_some() {
                let by_name = by_name.get_or_insert_with(|| (*next.cluster_ids).clone());
                if entry.is_some() {
                    by_name.insert(name.clone(), id);
                } else {
                    by_name.remove(&name);
                }
            }
            clusters[slot] = entry;
        }
        next.clusters = Arc::new(clusters);
        if let Some(by_name) = by_name {
            next.cluster_ids = Arc::new(by_name);
        }
        true
    }

    /// Activates a cluster if everything it needs is there; `None` while something is missing.
    fn activate_cluster(&mut self, name: &Arc<str>) -> Result<Option<Arc<ClusterEntry>>, String> {
        let Some(state) = self.clusters.get(name) else {
            return Ok(None);
        };
        let spec = state.spec.clone();
        if spec.secrets().any(|key| !self.secrets.contains_key(key)) {
            return Ok(None);
        }
        let received;
        let nobody = Resolved::new();
        let (assignment, resolved) = match &spec.discovery {
            Discovery::Static(assignment) => (assignment, None),
            Discovery::Requests(..) => {
                received = ClusterLoadAssignment::default();
                (&received, None)
            }
            Discovery::Eds(service) => match self.assignments.get(service) {
                // No bytes are an empty assignment: the server says that there is none.
                Some(held) => {
                    let body = held.value.clone().unwrap_or_default();
                    received = ClusterLoadAssignment::decode(body).map_err(|error| error.to_string())?;
                    (&received, None)
                }
                None if self.has_failed(Kind::Assignment, service) => {
                    received = ClusterLoadAssignment::default();
                    (&received, None)
                }
                None => return Ok(None),
            },
            Discovery::Dns(dns) => match self.resolved.get(name) {
                Some(resolved) => (&dns.assignment, Some(resolved)),
                // Nothing to wait for when every address is an IP address.
                None if crate::compile::endpoint::host_names(&dns.assignment).is_empty() => {
                    (&dns.assignment, Some(&nobody))
                }
                None => return Ok(None),
            },
        };
        let kept = if state.pending {
            state.warming.clone()
        } else {
            state.active.clone()
        };
        let cluster = match &kept {
            Some(entry) => entry.cluster.clone(),
            None => Arc::new(spec.finish(&self.secrets).map_err(|error| error.to_string())?),
        };
        // With new settings hosts get new identities, so that no connection of the old ones is used again.
        let previous = kept.as_ref().map(|entry| &*entry.endpoints);
        let input = EndpointInput {
            cluster: &spec.name,
            assignment,
            resolved,
            previous,
            lb_settings: &spec.lb_settings,
            sockets: spec.socket_matches(),
            checks: spec.checks(),
        };
        let set = endpoints(&mut self.context, &At::root(), &input).map_err(|error| error.to_string())?;
        set.count(&cluster.stats);
        cluster.stats.control().membership_change.inc();
        if matches!(spec.discovery, Discovery::Eds(_) | Discovery::Dns(_)) {
            cluster.stats.control().update_success.inc();
        }
        let id = ClusterId(self.context.clusters.intern(name));
        let entry = Arc::new(ClusterEntry {
            id,
            proxies: self.context.local.clone().filter(|_| spec.lb_settings.by_zone),
            cluster,
            endpoints: Arc::new(set),
        });
        Ok(self.take_over(name, entry))
    }

    /// Puts a cluster into use, unless its hosts must be probed first: nobody is sent to hosts of which nothing is
    /// known, and the version before serves on.
    fn take_over(&mut self, name: &Arc<str>, entry: Arc<ClusterEntry>) -> Option<Arc<ClusterEntry>> {
        let state = self.clusters.get_mut(name)?;
        let mut hosts = entry.endpoints.hosts.iter();
        if state.pending && hosts.any(|host| host.vitals.has(Flag::FailedCheck)) && !self.warm.contains(name) {
            state.warming = Some(entry);
            return None;
        }
        if let Some(local) = self.context.local.as_ref().filter(|local| local.cluster == *name) {
            local.replace(Arc::clone(&entry.endpoints));
        }
        self.warm.remove(name);
        state.pending = false;
        state.warming = None;
        state.active = Some(entry.clone());
        Some(entry)
    }

    fn settle_tables(&mut self, changes: &Changes, next: &mut Snapshot) -> bool {
        if changes.tables.is_empty() {
            return false;
        }
        let mut tables = Vec::clone(&next.route_tables);
        for name in &changes.tables {
            let slot = self.context.route_tables.intern(name) as usize;
            if slot >= tables.len() {
                tables.resize(slot + 1, None);
            }
            tables[slot] = self
                .tables
                .get(name)
                .and_then(|held| held.value.as_ref())
                .map(|compiled| compiled.table.clone());
        }
        next.route_tables = Arc::new(tables);
        true
    }

    fn settle_listeners(
        &mut self,
        changes: &Changes,
        next: &mut Snapshot,
        rejected: &mut Vec<(KindName, String)>,
    ) -> bool {
        let mut changed = changes.removed_listeners;
        for name in &changes.listeners {
            let Some(state) = self.listeners.get(name) else {
                changed = true;
                continue;
            };
            let answered = |table: &Arc<str>| self.tables.contains_key(table) || self.has_failed(Kind::Routes, table);
            let ready = state.spec.secrets().all(|key| self.secrets.contains_key(key))
                && state.spec.route_tables().all(answered);
            let Some(state) = self.listeners.get_mut(name).filter(|_| ready) else {
                continue;
            };
            match state.spec.finish(&self.secrets, state.active.as_deref()) {
                Ok(listener) => {
                    state.active = Some(Arc::new(listener));
                    state.pending = false;
                    state.before = None;
                    changed = true;
                }
                Err(error) => rejected.push(((Kind::Listener, name.to_string()), error.to_string())),
            }
        }
        if changed {
            let active = self.listeners.iter();
            next.listeners = Arc::new(
                active
                    .filter_map(|(name, state)| Some((name.clone(), state.active.clone()?)))
                    .collect(),
            );
        }
        changed
    }

    /// Frees the ids of names that nothing mentions any more, when they have piled up.
    fn free_ids(&mut self) {
        if self.context.clusters.len() <= 2 * self.clusters.len() + 256 {
            return;
        }
        let mut used = vec![false; self.context.clusters.span()];
        let mut mark = |id: ClusterId| {
            if let Some(slot) = used.get_mut(id.0 as usize) {
                *slot = true;
            }
        };
        for name in self.clusters.keys() {
            mark(ClusterId(self.context.clusters.intern(name)));
        }
        for table in self.tables.values().filter_map(|held| held.value.as_ref()) {
            mentioned_clusters(&table.table, &mut mark);
        }
        for manager in self.listeners.values().flat_map(|state| state.spec.managers()) {
            if let crate::config::http_manager::RouteSource::Inline(table) = &manager.routes {
                mentioned_clusters(table, &mut mark);
            }
        }
        for state in self.listeners.values() {
            state.spec.clusters().for_each(&mut mark);
            // What is active may be older than what has arrived last.
            state
                .active
                .iter()
                .flat_map(|active| active.clusters())
                .for_each(&mut mark);
        }
        self.context
            .clusters
            .retain(|id| used.get(id as usize).copied().unwrap_or(false));
    }
}

fn mentioned_clusters(table: &RouteTable, mark: &mut impl FnMut(ClusterId)) {
    let hosts = &table.hosts;
    let wild = hosts
        .suffixes
        .iter()
        .chain(&hosts.prefixes)
        .flat_map(|(_, table)| table.values());
    for host in hosts.exact.values().chain(wild).chain(&hosts.any) {
        for route in &host.routes {
            route.filters.clusters().for_each(&mut *mark);
            let Action::Forward(forward) = &route.action else {
                continue;
            };
            match &forward.clusters {
                ClusterChoice::Single(id) => mark(*id),
                ClusterChoice::Weighted(weighted) => weighted.entries.iter().for_each(|entry| {
                    mark(entry.cluster);
                    entry.filters.clusters().for_each(&mut *mark);
                }),
                ClusterChoice::Header(_) => {}
            }
            forward.mirrors.iter().for_each(|mirror| mark(mirror.cluster));
        }
    }
}
