//! Fleets put together from their pieces, in place: what didn't change stays the same allocation.
//!
//! Pieces arrive one by one and in any order while units run; [`SortedList`] collects them and merges them into the
//! list in one pass, so that a first translation sorts once and an edit costs one copy of a list of pointers. Virtual
//! hosts are so many that their list is in chunks ([`SortedChunks`]), and an edit copies the chunks that it touches.

use super::value::PlacedHost;
use crate::{
    name::{FleetId, SocketId},
    phase::{
        backends::cluster::ClusterParts,
        listeners::sockets::{Socket, TableFrame},
    },
};
use edge_ir::{
    Chunk, Cluster, ClusterName, CustomPolicy, EndpointSet, Fleet, FleetKey, FleetSettings, Infra, List, Listener,
    Patch, RouteTable, RouteTableName, Secret, SecretName, VirtualHost,
};
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, sync::Arc};

/// Something with a name that is unique in its list.
pub(super) trait Named: PartialEq {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($type:ty),+) => {
        $(impl Named for $type {
            fn name(&self) -> &str {
                &self.name
            }
        })+
    };
}
named!(Cluster, EndpointSet, Listener, Secret, VirtualHost);

/// A list sorted by name, shared with whoever was given it.
pub(super) struct SortedList<T> {
    items: Arc<Vec<Arc<T>>>,
    pending: Vec<Step<T>>,
}

/// What happened to a name. A piece that came stays, whatever else is said of its name.
enum Step<T> {
    Gone(Arc<T>),
    Here(Arc<T>),
}

impl<T: Named> Step<T> {
    fn name(&self) -> &str {
        match self {
            Self::Gone(item) | Self::Here(item) => item.name(),
        }
    }
}

impl<T> Default for SortedList<T> {
    fn default() -> Self {
        Self {
            items: Arc::default(),
            pending: Vec::new(),
        }
    }
}

impl<T: Named> SortedList<T> {
    /// Replaces a piece; its name may change.
    pub(super) fn change(&mut self, was: Option<Arc<T>>, now: Option<Arc<T>>) {
        self.pending.extend(was.map(Step::Gone));
        self.pending.extend(now.map(Step::Here));
    }

    /// Makes the list exactly this, keeping what is equal. What was pending no longer counts.
    fn replace_all(&mut self, all: impl Iterator<Item = Arc<T>>) {
        self.pending.clear();
        self.pending.extend(self.items.iter().cloned().map(Step::Gone));
        self.pending.extend(all.map(Step::Here));
    }

    /// Merges what is pending; says whether the list differs.
    fn settle(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let merged = merge(&self.items, &sorted(std::mem::take(&mut self.pending)));
        let changed = merged.is_some();
        if let Some(merged) = merged {
            self.items = Arc::new(merged);
        }
        changed
    }
}

/// Steps by name, those of one name in the order in which they came.
fn sorted<T: Named>(mut pending: Vec<Step<T>>) -> Vec<Step<T>> {
    pending.sort_by(|a, b| a.name().cmp(b.name()));
    pending
}

/// A sorted list with what is pending, sorted, merged into it; none if that makes no difference.
fn merge<T: Named>(items: &[Arc<T>], pending: &[Step<T>]) -> Option<Vec<Arc<T>>> {
    let mut merged: Vec<Arc<T>> = Vec::with_capacity(items.len() + pending.len());
    let mut rest = items;
    let mut changed = false;
    for steps in pending.chunk_by(|a, b| a.name() == b.name()) {
        let name = steps[0].name();
        let new = steps.iter().rev().find_map(|step| match step {
            Step::Here(item) => Some(item),
            Step::Gone(_) => None,
        });
        let (earlier, later) = rest.split_at(rank(rest, name));
        merged.extend_from_slice(earlier);
        let before = later.first().filter(|item| item.name() == name);
        rest = &later[usize::from(before.is_some())..];
        match (before, new) {
            (Some(before), Some(new)) if before == new => merged.push(Arc::clone(before)),
            (before, new) => {
                changed |= before.is_some() || new.is_some();
                merged.extend(new.cloned());
            }
        }
    }
    merged.extend_from_slice(rest);
    changed.then_some(merged)
}

/// [`SortedList`] for what is so many that the list is in chunks.
struct SortedChunks<T> {
    items: List<Arc<T>>,
    pending: Vec<Step<T>>,
}

impl<T> Default for SortedChunks<T> {
    fn default() -> Self {
        Self {
            items: List::default(),
            pending: Vec::new(),
        }
    }
}

impl<T: Named> SortedChunks<T> {
    /// Replaces a piece; its name may change.
    fn change(&mut self, was: Option<Arc<T>>, now: Option<Arc<T>>) {
        self.pending.extend(was.map(Step::Gone));
        self.pending.extend(now.map(Step::Here));
    }

    /// Merges what is pending; says whether the list differs.
    fn settle(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let pending = sorted(std::mem::take(&mut self.pending));
        // Where nearly all is new, the list is cut anew.
        let merged = match pending.len() > self.items.len() {
            true => {
                let all: Vec<_> = self.items.iter().cloned().collect();
                merge(&all, &pending).map(List::from)
            }
            false => merge_chunks(&self.items, &pending),
        };
        let changed = merged.is_some();
        if let Some(merged) = merged {
            self.items = merged;
        }
        changed
    }
}

/// [`merge`] for a list in chunks, of which those stay that nothing pending falls into.
fn merge_chunks<T: Named>(list: &List<Arc<T>>, mut pending: &[Step<T>]) -> Option<List<Arc<T>>> {
    let mut merged: Vec<Chunk<Arc<T>>> = Vec::with_capacity(list.chunks().len() + 1);
    let mut rest = list.chunks();
    let mut changed = false;
    while let Some(step) = pending.first() {
        let is_ahead = |chunk: &Chunk<Arc<T>>| chunk.first().is_some_and(|first| first.name() <= step.name());
        let ahead = rest.partition_point(is_ahead);
        let (before, later) = rest.split_at(ahead.saturating_sub(1));
        merged.extend_from_slice(before);
        let Some((chunk, behind)) = later.split_first() else {
            break;
        };
        let next = behind.first().and_then(|chunk| chunk.first());
        let is_here = |step: &Step<T>| next.is_none_or(|next| step.name() < next.name());
        let (steps, others) = pending.split_at(pending.partition_point(is_here));
        match merge(chunk, steps) {
            Some(all) => {
                changed = true;
                merged.extend(List::cut(&all));
            }
            None => merged.push(Arc::clone(chunk)),
        }
        (rest, pending) = (behind, others);
    }
    merged.extend_from_slice(rest);
    changed.then(|| List::of_chunks(merged))
}

/// How many pieces of a sorted list come before a name. It looks further and further ahead: an edit reads a few names
/// of ten thousand, and many edits hardly more than all of them.
fn rank<T: Named>(items: &[Arc<T>], name: &str) -> usize {
    let is_before = |item: &Arc<T>| item.name() < name;
    let mut end = 1;
    while items.get(end - 1).is_some_and(is_before) {
        end *= 2;
    }
    let begin = end / 2;
    let end = end.min(items.len());
    begin + items[begin..end].partition_point(is_before)
}

/// A table of virtual hosts on its way.
#[derive(Default)]
struct Table {
    hosts: SortedChunks<VirtualHost>,
    /// The finished table, while nothing about it changed.
    built: Option<Arc<RouteTable>>,
}

/// A fleet on its way.
#[derive(Default)]
pub(super) struct FleetParts {
    /// What doesn't depend on routes; without it there is no fleet.
    frame: Option<Frame>,
    listeners: SortedList<Listener>,
    secrets: SortedList<Secret>,
    /// Whether `secrets` holds what the field below says.
    secrets_state: State,
    /// What sockets and clusters name, with the number of those that do.
    named_secrets: BTreeMap<SecretName, (u32, Arc<Secret>)>,
    /// Clusters that sockets and telemetry bring, with the number of those that do.
    outside: BTreeMap<ClusterName, u32>,
    tables: BTreeMap<RouteTableName, Table>,
    /// Whether `named_tables` holds what `sockets` say.
    tables_state: State,
    /// Tables that sockets name.
    named_tables: BTreeMap<RouteTableName, TableFrame>,
    sockets: BTreeMap<SocketId, Arc<Socket>>,
    clusters: SortedList<Cluster>,
    pub(super) endpoints: SortedList<EndpointSet>,
    pub(super) infra: Option<Arc<Infra>>,
    patches: Arc<Vec<Patch>>,
    custom_policies: Arc<Vec<CustomPolicy>>,
    /// The finished fleet, while nothing about it changed.
    built: Option<Arc<Fleet>>,
    state: State,
}

/// Whether a fleet, or a part of it, waits for [`Assembly::settle`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Settled,
    Touched,
}

/// Key and settings of a fleet.
struct Frame {
    key: FleetKey,
    settings: Arc<FleetSettings>,
}

impl FleetParts {
    /// Replaces the patches.
    pub(super) fn change_patches(&mut self, now: Arc<Vec<Patch>>) {
        self.patches = now;
        self.built = None;
    }

    /// Replaces the policies of extension services.
    pub(super) fn change_custom_policies(&mut self, now: Arc<Vec<CustomPolicy>>) {
        self.custom_policies = now;
        self.built = None;
    }

    /// Replaces a cluster, and the secrets that it brought by those that it brings.
    fn change_cluster(&mut self, was: Option<&ClusterParts>, now: Option<&ClusterParts>) {
        self.change_secrets(was.map_or(&[], |b| &b.secrets), now.map_or(&[], |b| &b.secrets));
        self.change_servers(was.map_or(&[], |b| &b.servers), now.map_or(&[], |b| &b.servers));
        let cluster = |parts: &ClusterParts| Arc::clone(&parts.cluster);
        self.clusters.change(was.map(cluster), now.map(cluster));
    }

    /// Replaces a socket, and what it named by what it names.
    pub(super) fn change_socket(&mut self, id: SocketId, now: Option<Arc<Socket>>) {
        let was = match &now {
            Some(socket) => self.sockets.insert(id, Arc::clone(socket)),
            None => self.sockets.remove(&id),
        };
        let (was, now) = (was.as_deref(), now.as_deref());
        let secrets = |socket: Option<&Socket>| socket.map(|s| s.secrets.clone()).unwrap_or_default();
        self.change_secrets(&secrets(was), &secrets(now));
        let clusters = |socket: Option<&Socket>| socket.map(|s| s.clusters.clone()).unwrap_or_default();
        self.change_outside(clusters(was), clusters(now));
        let listener = |socket: &Socket| Arc::clone(&socket.listener);
        self.listeners.change(was.map(listener), now.map(listener));
        let quic = |socket: Option<&Socket>| socket.and_then(|socket| socket.quic.clone());
        self.listeners.change(quic(was), quic(now));
        if was.map(|s| &s.tables) != now.map(|s| &s.tables) {
            self.tables_state = State::Touched;
        }
    }

    /// Replaces clusters that sockets or telemetry bring; several may bring the same one.
    pub(super) fn change_outside(&mut self, gone: Vec<ClusterParts>, come: Vec<ClusterParts>) {
        for parts in &come {
            self.change_secrets(&[], &parts.secrets);
            self.change_servers(&[], &parts.servers);
            *self.outside.entry(parts.cluster.name.clone()).or_default() += 1;
        }
        for parts in come {
            self.clusters.change(None, Some(parts.cluster));
        }
        for parts in gone {
            self.change_secrets(&parts.secrets, &[]);
            self.change_servers(&parts.servers, &[]);
            let name = &parts.cluster.name;
            let count = self.outside.get(name).copied().unwrap_or_default();
            if count > 1 {
                self.outside.insert(name.clone(), count - 1);
                continue;
            }
            self.outside.remove(name);
            self.clusters.change(Some(parts.cluster), None);
        }
    }

    /// Replaces clusters of servers that a cluster's secrets come from.
    fn change_servers(&mut self, gone: &[Arc<Cluster>], come: &[Arc<Cluster>]) {
        if gone != come {
            let alone = |servers: &[Arc<Cluster>]| servers.iter().cloned().map(ClusterParts::alone).collect();
            self.change_outside(alone(gone), alone(come));
        }
    }

    fn change_secrets(&mut self, gone: &[Arc<Secret>], come: &[Arc<Secret>]) {
        if gone == come {
            return;
        }
        for secret in come {
            let entry = self.named_secrets.entry(secret.name.clone());
            let (count, kept) = entry.or_insert_with(|| (0, Arc::clone(secret)));
            *count += 1;
            // All that name it resolve it alike; the last one that came is the newest.
            *kept = Arc::clone(secret);
        }
        for secret in gone {
            if let Some((count, _)) = self.named_secrets.get_mut(&secret.name) {
                *count -= 1;
                if *count == 0 {
                    self.named_secrets.remove(&secret.name);
                }
            }
        }
        self.secrets_state = State::Touched;
    }

    /// A certificate may be named by many listeners and clusters. Once a pass, however many of them changed.
    fn merge_secrets(&mut self) {
        if std::mem::take(&mut self.secrets_state) == State::Touched {
            let all = self.named_secrets.values().map(|(_, secret)| Arc::clone(secret));
            self.secrets.replace_all(all);
        }
    }

    /// Takes over the tables that sockets name; says whether they are others.
    fn merge_tables(&mut self) -> bool {
        if std::mem::take(&mut self.tables_state) == State::Settled {
            return false;
        }
        let tables = self.sockets.values().flat_map(|socket| &socket.tables);
        let named: BTreeMap<_, _> = tables.cloned().collect();
        if named == self.named_tables {
            return false;
        }
        for (name, table) in &mut self.tables {
            let frame = named.get(name);
            let is_same = |built: &Arc<RouteTable>| {
                frame.is_some_and(|frame| (&built.guards, &built.origins) == (&frame.guards, &frame.origins))
            };
            table.built = table.built.take().filter(is_same);
        }
        self.named_tables = named;
        true
    }

    /// Finishes the fleet; none when it has no Gateway.
    fn settle(&mut self) -> Option<Arc<Fleet>> {
        self.merge_secrets();
        let listeners_changed = self.listeners.settle();
        let secrets_changed = self.secrets.settle();
        let clusters_changed = self.clusters.settle();
        let endpoints_changed = self.endpoints.settle();
        let tables_changed = self.merge_tables();
        let mut changed =
            listeners_changed || secrets_changed || clusters_changed || endpoints_changed || tables_changed;
        for table in self.tables.values_mut() {
            if table.hosts.settle() {
                table.built = None;
                changed = true;
            }
        }
        let Some(frame) = &self.frame else {
            self.built = None;
            return None;
        };
        let built = self.built.as_ref().filter(|_| !changed);
        if let Some(built) = built {
            return Some(Arc::clone(built));
        }
        let tables = self.named_tables.iter().map(|(name, frame)| {
            let table = self.tables.entry(name.clone()).or_default();
            Arc::clone(table.built.get_or_insert_with(|| {
                Arc::new(RouteTable {
                    name: name.clone(),
                    guards: frame.guards.clone(),
                    hosts: table.hosts.items.clone(),
                    origins: Arc::clone(&frame.origins),
                })
            }))
        });
        let fleet = Arc::new(Fleet {
            key: frame.key.clone(),
            settings: Arc::clone(&frame.settings),
            listeners: Arc::clone(&self.listeners.items),
            route_tables: Arc::new(tables.collect()),
            clusters: Arc::clone(&self.clusters.items),
            endpoints: Arc::clone(&self.endpoints.items),
            secrets: Arc::clone(&self.secrets.items),
            patches: Arc::clone(&self.patches),
            custom_policies: Arc::clone(&self.custom_policies),
        });
        self.tables
            .retain(|_, table| table.built.is_some() || !table.hosts.items.is_empty());
        self.built = Some(Arc::clone(&fleet));
        Some(fleet)
    }

    fn is_empty(&self) -> bool {
        self.frame.is_none()
            && self.sockets.is_empty()
            && self.clusters.items.is_empty()
            && self.endpoints.items.is_empty()
            && self.tables.is_empty()
    }
}

/// All fleets.
#[derive(Default)]
pub(super) struct Assembly {
    fleets: FxHashMap<FleetId, FleetParts>,
    touched: Vec<FleetId>,
    published: BTreeMap<FleetKey, Arc<Fleet>>,
    infra: BTreeMap<FleetKey, Arc<Infra>>,
}

impl Assembly {
    /// A fleet that is about to change.
    pub(super) fn fleet(&mut self, id: FleetId) -> &mut FleetParts {
        let parts = self.fleets.entry(id).or_default();
        if std::mem::replace(&mut parts.state, State::Touched) == State::Settled {
            self.touched.push(id);
        }
        parts
    }

    /// Replaces a cluster of a fleet.
    pub(super) fn change_cluster(&mut self, id: FleetId, was: Option<&ClusterParts>, now: Option<&ClusterParts>) {
        self.fleet(id).change_cluster(was, now);
    }

    /// Moves a virtual host.
    pub(super) fn place_host(&mut self, was: Option<&PlacedHost>, now: Option<&PlacedHost>) {
        if let Some(was) = was {
            self.table(was).hosts.change(Some(Arc::clone(&was.host)), None);
        }
        if let Some(now) = now {
            self.table(now).hosts.change(None, Some(Arc::clone(&now.host)));
        }
    }

    /// The table that a host stands in.
    fn table(&mut self, host: &PlacedHost) -> &mut Table {
        self.fleet(host.fleet).tables.entry(host.table.clone()).or_default()
    }

    /// Sets what makes a fleet; with none, it goes.
    pub(super) fn set_settings(&mut self, id: FleetId, key: &str, settings: Option<Arc<FleetSettings>>) {
        let parts = self.fleet(id);
        let before = parts.frame.as_ref().map(|frame| &frame.settings);
        if settings.is_some() && settings.as_ref() == before {
            return;
        }
        parts.built = None;
        let key = FleetKey::from(key);
        match settings {
            Some(settings) => parts.frame = Some(Frame { key, settings }),
            None => {
                parts.frame = None;
                self.published.remove(&key);
                self.infra.remove(&key);
            }
        }
    }

    /// Finishes what was touched, and returns all fleets and their infrastructure.
    pub(super) fn settle(&mut self) -> (BTreeMap<FleetKey, Arc<Fleet>>, BTreeMap<FleetKey, Arc<Infra>>) {
        for id in std::mem::take(&mut self.touched) {
            let Some(parts) = self.fleets.get_mut(&id) else {
                continue;
            };
            parts.state = State::Settled;
            let Some(fleet) = parts.settle() else {
                if parts.is_empty() {
                    self.fleets.remove(&id);
                }
                continue;
            };
            match &parts.infra {
                Some(infra) => self.infra.insert(fleet.key.clone(), Arc::clone(infra)),
                None => self.infra.remove(&fleet.key),
            };
            self.published.insert(fleet.key.clone(), fleet);
        }
        (self.published.clone(), self.infra.clone())
    }
}

#[cfg(test)]
mod tests;
