//! From resources to snapshots.
//!
//! Holds the last good version of every resource, knows who depends on whom, and builds a snapshot of what is
//! ready. Pure but for the files that a resource names: no sockets, no clock.
//! Rules: a cluster becomes active when its secrets and its endpoints are there; a listener when its secrets and route
//! tables are. Until then the version before stays active. A bad resource is rejected alone and its last good version
//! stays. What a snapshot shares with the one before is not rebuilt.

mod services;
pub mod settle;
#[cfg(test)]
mod tests;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster as ProtoCluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener as ProtoListener;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret as ProtoSecret;
use prost::Message;

use crate::compile::cluster::{self, ClusterSpec, Discovery, DnsSpec};
use crate::compile::endpoint::{Checks, EndpointInput, Resolved, endpoints};
use crate::compile::listener::{self, ListenerSpec};
use crate::compile::route_table::{self, CompiledTable};
use crate::compile::secret::{self, SecretKey, Secrets};
use crate::compile::{At, Context, Rejection, Rejections};
use crate::config::Snapshot;
use crate::config::cluster::ClusterEntry;
use crate::config::endpoint::LbSettings;
use crate::config::listener::{ListenAddress, Listener};
use crate::xds::assembly::services::Services;
use crate::xds::delta::Incoming;
use crate::xds::{Kind, Rejected};

/// Where a resource came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The bootstrap. Nothing replaces it.
    Static,
    /// The stream.
    Dynamic,
}

/// Everything that was received, and what became of it.
#[derive(Debug)]
pub struct Assembly {
    context: Context,
    clusters: BTreeMap<Arc<str>, ClusterState>,
    services: Services,
    /// Encoded: the messages are an order of magnitude larger in memory than on the wire.
    assignments: BTreeMap<Arc<str>, Held<Bytes>>,
    listeners: BTreeMap<Arc<str>, ListenerState>,
    tables: BTreeMap<Arc<str>, Held<CompiledTable>>,
    secret_versions: BTreeMap<String, String>,
    secrets: Secrets,
    /// Which version servers of secrets have sent, and when.
    served: BTreeMap<SecretKey, (String, SystemTime)>,
    resolved: BTreeMap<Arc<str>, Resolved>,
    /// Clusters whose hosts have all been probed.
    warm: BTreeSet<Arc<str>>,
    failures: BTreeMap<(Kind, String), Rejected>,
    /// Files for whose sake listeners were rejected.
    unusable: BTreeMap<String, BTreeSet<PathBuf>>,
    changes: Changes,
    snapshot: Arc<Snapshot>,
    now: SystemTime,
}

/// What the next snapshot must rebuild.
#[derive(Debug, Default)]
struct Changes {
    clusters: BTreeSet<Arc<str>>,
    listeners: BTreeSet<Arc<str>>,
    tables: BTreeSet<Arc<str>>,
    removed_listeners: bool,
}

/// A resource as it is kept.
#[derive(Debug)]
struct Held<T> {
    version: String,
    updated: SystemTime,
    /// `None`: the server says that there is no such resource.
    value: Option<T>,
}

#[derive(Debug)]
struct ClusterState {
    origin: Origin,
    version: String,
    updated: SystemTime,
    body: Bytes,
    spec: Arc<ClusterSpec>,
    /// The spec is newer than what is active.
    pending: bool,
    active: Option<Arc<ClusterEntry>>,
    /// What is to become active once its hosts have been probed.
    warming: Option<Arc<ClusterEntry>>,
}

#[derive(Debug)]
struct ListenerState {
    origin: Origin,
    version: String,
    updated: SystemTime,
    body: Bytes,
    spec: Arc<ListenerSpec>,
    pending: bool,
    active: Option<Arc<Listener>>,
    /// What to go back to when the sockets of a new version can't be bound.
    before: Option<Box<ListenerState>>,
}

impl ListenerState {
    /// The tables that the version in use names.
    fn tables_in_use(&self) -> impl Iterator<Item = &Arc<str>> {
        self.active.iter().flat_map(|active| active.route_tables())
    }
}

impl Assembly {
    /// Nothing received yet.
    pub fn new(context: Context) -> Self {
        Self {
            context,
            clusters: BTreeMap::new(),
            services: Services::default(),
            assignments: BTreeMap::new(),
            listeners: BTreeMap::new(),
            tables: BTreeMap::new(),
            secret_versions: BTreeMap::new(),
            secrets: Secrets::new(),
            served: BTreeMap::new(),
            resolved: BTreeMap::new(),
            warm: BTreeSet::new(),
            failures: BTreeMap::new(),
            unusable: BTreeMap::new(),
            changes: Changes::default(),
            snapshot: Arc::new(Snapshot::default()),
            now: SystemTime::UNIX_EPOCH,
        }
    }

    /// Says what time it is, for what is applied from now on.
    pub fn tell_time(&mut self, now: SystemTime) {
        self.now = now;
    }

    /// Takes resources in and out. Returns those that can't be honoured; the others are taken.
    pub fn apply(&mut self, kind: Kind, origin: Origin, added: &[Incoming], removed: &[String]) -> Vec<Rejected> {
        let mut rejected = Vec::new();
        for resource in added {
            let result = match kind {
                Kind::Cluster => self.put_cluster(origin, resource).map_err(Rejections::from),
                Kind::Assignment => self.put_assignment(resource).map_err(Rejections::from),
                Kind::Listener => self.put_listener(origin, resource).map_err(Rejections::from),
                Kind::Routes => self.put_routes(resource),
                Kind::Secret => self.put_secret(resource).map_err(Rejections::from),
            };
            let key = (kind, resource.name.clone());
            match result {
                Ok(()) => {
                    self.failures.remove(&key);
                }
                Err(error) => {
                    let bad = Rejected {
                        name: resource.name.clone(),
                        reason: error.to_string(),
                    };
                    self.failures.insert(key, bad.clone());
                    self.wait_no_longer(kind, &bad.name);
                    rejected.push(bad);
                }
            }
        }
        for name in removed {
            self.failures.remove(&(kind, name.clone()));
            self.remove(kind, name);
        }
        rejected
    }

    /// Whoever waits for the first version of a resource goes on without it, as there will be no other for now: a
    /// listener with a route table that has no routes, a cluster without endpoints. (Nothing goes on without a secret.)
    fn wait_no_longer(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Routes => self.wake_listeners_of(name),
            Kind::Assignment => self.changes.clusters.extend(self.services.clusters_of(name).cloned()),
            Kind::Cluster | Kind::Listener | Kind::Secret => {}
        }
    }

    fn wake_listeners_of(&mut self, table: &str) {
        for (listener, state) in &self.listeners {
            if state.pending && state.spec.route_tables().any(|wanted| **wanted == *table) {
                self.changes.listeners.insert(listener.clone());
            }
        }
    }

    /// Whether a resource was sent, or asked for, and there is nothing of it to be had.
    fn has_failed(&self, kind: Kind, name: &str) -> bool {
        self.failures.contains_key(&(kind, name.to_owned()))
    }

    fn put_cluster(&mut self, origin: Origin, resource: &Incoming) -> Result<(), Rejection> {
        let message: ProtoCluster = decode(resource, |message: &ProtoCluster| &message.name)?;
        let before = self.clusters.get(resource.name.as_str());
        if origin == Origin::Dynamic && before.is_some_and(|before| before.origin == Origin::Static) {
            return Err(At::root()
                .field("name")
                .error("a cluster of the bootstrap has this name"));
        }
        let spec = cluster::cluster(&mut self.context, &message)?;
        // An assignment in the message is compiled once now, so that a bad one is rejected and not found out later.
        if let Discovery::Static(assignment) | Discovery::Dns(DnsSpec { assignment, .. }) = &spec.discovery {
            let nothing = Resolved::new();
            let by_name = matches!(spec.discovery, Discovery::Dns(_));
            let input = EndpointInput {
                cluster: &spec.name,
                assignment,
                resolved: by_name.then_some(&nothing),
                previous: None,
                lb_settings: &spec.lb_settings,
                sockets: spec.socket_matches(),
                checks: Checks::None,
            };
            endpoints(&mut self.context, &At::root().field("load_assignment"), &input)?;
        }
        let active = before.and_then(|before| before.active.clone());
        let name = spec.name.clone();
        // Whoever resolves its names only tells of the next answer.
        if before.is_none_or(|before| before.spec.discovery.lookup() != spec.discovery.lookup()) {
            self.resolved.remove(&name);
        }
        if let Some(before) = before {
            self.services.remove(&name, &before.spec.discovery);
        }
        self.services.add(&name, &spec.discovery);
        let (version, body) = (resource.version.clone(), resource.body.clone());
        let state = ClusterState {
            origin,
            version,
            updated: self.now,
            body,
            spec: Arc::new(spec),
            pending: true,
            active,
            warming: None,
        };
        self.warm.remove(&name);
        self.clusters.insert(name.clone(), state);
        self.changes.clusters.insert(name);
        Ok(())
    }

    fn put_assignment(&mut self, resource: &Incoming) -> Result<(), Rejection> {
        let message: ClusterLoadAssignment = decode(resource, |message: &ClusterLoadAssignment| &message.cluster_name)?;
        let name: Arc<str> = resource.name.as_str().into();
        // Compiled here without regard to a cluster, to reject it as a whole if something in it can't be honoured.
        let input = EndpointInput {
            cluster: &name,
            assignment: &message,
            resolved: None,
            previous: None,
            lb_settings: &LbSettings::default(),
            sockets: &[],
            checks: Checks::None,
        };
        endpoints(&mut self.context, &At::root(), &input)?;
        self.hold_assignment(name, resource.version.clone(), Some(resource.body.clone()));
        Ok(())
    }

    fn hold_assignment(&mut self, name: Arc<str>, version: String, value: Option<Bytes>) {
        self.changes.clusters.extend(self.services.clusters_of(&name).cloned());
        self.assignments.insert(
            name,
            Held {
                version,
                updated: self.now,
                value,
            },
        );
    }

    fn put_listener(&mut self, origin: Origin, resource: &Incoming) -> Result<(), Rejection> {
        let message: ProtoListener = decode(resource, |message: &ProtoListener| &message.name)?;
        let before = self.listeners.get(resource.name.as_str());
        if origin == Origin::Dynamic && before.is_some_and(|before| before.origin == Origin::Static) {
            return Err(At::root()
                .field("name")
                .error("a listener of the bootstrap has this name"));
        }
        self.context.unusable.clear();
        let spec = listener::listener(&mut self.context, &message).inspect_err(|_| {
            let files = std::mem::take(&mut self.context.unusable);
            if !files.is_empty() {
                self.unusable.insert(resource.name.clone(), files);
            }
        })?;
        let name = spec.name.clone();
        let before = self.listeners.remove(&name);
        let active = before.as_ref().and_then(|before| before.active.clone());
        let state = ListenerState {
            origin,
            version: resource.version.clone(),
            updated: self.now,
            body: resource.body.clone(),
            spec: Arc::new(spec),
            pending: true,
            active,
            before: before.map(|before| Box::new(ListenerState { before: None, ..before })),
        };
        self.listeners.insert(name.clone(), state);
        self.changes.listeners.insert(name);
        Ok(())
    }

    fn put_routes(&mut self, resource: &Incoming) -> Result<(), Rejections> {
        let before = self.tables.get(resource.name.as_str());
        let before = before.and_then(|held| held.value.as_ref());
        let context = &mut self.context;
        let table = match &resource.parts {
            Some(parts) => route_table::changed(context, &resource.name, parts, before)?,
            None => route_table::received(context, &resource.name, &resource.body, before)?,
        };
        let name: Arc<str> = resource.name.as_str().into();
        self.hold_table(name, resource.version.clone(), Some(table));
        Ok(())
    }

    fn hold_table(&mut self, name: Arc<str>, version: String, value: Option<CompiledTable>) {
        self.wake_listeners_of(&name);
        self.changes.tables.insert(name.clone());
        self.tables.insert(
            name,
            Held {
                version,
                updated: self.now,
                value,
            },
        );
    }

    fn put_secret(&mut self, resource: &Incoming) -> Result<(), Rejection> {
        let message: ProtoSecret = decode(resource, |message: &ProtoSecret| &message.name)?;
        self.put_secret_message(SecretKey::Named(resource.name.clone()), &message)?;
        self.secret_versions
            .insert(resource.name.clone(), resource.version.clone());
        Ok(())
    }

    /// Takes a version of a secret from the server that has it.
    pub fn put_secret_of_server(
        &mut self,
        cluster: &str,
        message: &ProtoSecret,
        version: &str,
    ) -> Result<(), Rejection> {
        let key = SecretKey::Server {
            cluster: cluster.to_owned(),
            name: message.name.clone(),
        };
        self.put_secret_message(key.clone(), message)?;
        self.served.insert(key, (version.to_owned(), self.now));
        Ok(())
    }

    /// Takes a secret, of the stream or of a file. Whoever uses it is rebuilt if it is a new one.
    pub fn put_secret_message(&mut self, key: SecretKey, message: &ProtoSecret) -> Result<(), Rejection> {
        let compiled = secret::secret(&*self.context.files, message)?;
        if self.secrets.get(&key).is_some_and(|known| known.hash == compiled.hash) {
            return Ok(());
        }
        for (name, state) in &mut self.clusters {
            if state.spec.secrets().any(|wanted| *wanted == key) {
                state.pending = true;
                state.warming = None;
                self.warm.remove(name);
                self.changes.clusters.insert(name.clone());
            }
        }
        for (name, state) in &mut self.listeners {
            if state.spec.secrets().any(|wanted| *wanted == key) {
                state.pending = true;
                self.changes.listeners.insert(name.clone());
            }
        }
        self.secrets.insert(key, Arc::new(compiled));
        Ok(())
    }

    fn remove(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Cluster => {
                if let Some(state) = self.clusters.get(name)
                    && state.origin == Origin::Dynamic
                {
                    self.services.remove(name, &state.spec.discovery);
                    self.clusters.remove(name);
                    self.resolved.remove(name);
                    self.changes.clusters.insert(name.into());
                }
            }
            Kind::Listener => {
                if self
                    .listeners
                    .get(name)
                    .is_some_and(|state| state.origin == Origin::Dynamic)
                {
                    self.listeners.remove(name);
                    self.changes.removed_listeners = true;
                }
            }
            Kind::Assignment => self.hold_assignment(name.into(), String::new(), None),
            // Nobody takes a table from a listener that uses it, as in Envoy.
            Kind::Routes if self.is_table_in_use(name) => {}
            Kind::Routes => self.hold_table(name.into(), String::new(), None),
            Kind::Secret => self.note_absent_secret(name),
        }
    }

    fn is_table_in_use(&self, name: &str) -> bool {
        let mut tables = self.listeners.values().flat_map(ListenerState::tables_in_use);
        let is_here = self.tables.get(name).is_some_and(|held| held.value.is_some());
        is_here && tables.any(|table| **table == *name)
    }

    /// A certificate that is gone must not take down what serves with it; one that never was there keeps what needs it
    /// closed, and nothing else.
    fn note_absent_secret(&mut self, name: &str) {
        if !self.secrets.contains_key(&SecretKey::Named(name.to_owned())) {
            let bad = Rejected {
                name: name.to_owned(),
                reason: "the server has no secret of this name".to_owned(),
            };
            self.failures.insert((Kind::Secret, name.to_owned()), bad);
        }
    }

    /// The answers of DNS for a cluster.
    pub fn put_resolved(&mut self, cluster: &str, resolved: Resolved) {
        let Some((name, _)) = self.clusters.get_key_value(cluster) else {
            return;
        };
        if self.resolved.get(name) != Some(&resolved) {
            self.changes.clusters.insert(name.clone());
            self.resolved.insert(name.clone(), resolved);
        }
    }

    /// The hosts of a cluster that is not in use yet have all been probed.
    pub fn put_warm(&mut self, cluster: &Arc<str>) {
        if self.clusters.get(cluster).is_some_and(|state| state.warming.is_some()) {
            self.warm.insert(cluster.clone());
            self.changes.clusters.insert(cluster.clone());
        }
    }

    /// Listeners that were rejected since this was asked last because of files that may come yet, and these.
    pub fn take_unusable(&mut self) -> BTreeMap<String, BTreeSet<PathBuf>> {
        std::mem::take(&mut self.unusable)
    }

    /// Listeners that have arrived and whose sockets nobody has checked yet.
    pub fn unchecked_listeners(&self) -> Vec<(Arc<str>, Vec<ListenAddress>)> {
        let unchecked = self
            .changes
            .listeners
            .iter()
            .filter_map(|name| self.listeners.get(name));
        unchecked
            .map(|state| (state.spec.name.clone(), state.spec.addresses.clone()))
            .collect()
    }

    /// The sockets of a listener can't be bound: the version before comes back.
    pub fn refuse_listener(&mut self, name: &str, reason: String) -> Rejected {
        let bad = Rejected {
            name: name.to_owned(),
            reason,
        };
        self.failures.insert((Kind::Listener, name.to_owned()), bad.clone());
        self.changes.listeners.remove(name);
        if let Some((name, state)) = self.listeners.remove_entry(name)
            && let Some(before) = state.before
        {
            if before.pending {
                self.changes.listeners.insert(name.clone());
            }
            self.listeners.insert(name, *before);
        }
        bad
    }
}

/// Decodes a resource and checks that it carries the name it was sent under.
fn decode<M: Message + Default>(resource: &Incoming, name: impl Fn(&M) -> &String) -> Result<M, Rejection> {
    let at = At::root();
    let message = M::decode(resource.body.clone()).map_err(|error| at.error(format!("can't be decoded: {error}")))?;
    let own = name(&message);
    // A listener without a name is known by its address.
    if *own != resource.name && !own.is_empty() {
        return Err(at
            .field("name")
            .error(format!("{own:?} was sent as {:?}", resource.name)));
    }
    Ok(message)
}
