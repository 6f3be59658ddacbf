//! What others may see of an assembly: subscriptions to make, progress, and the resources for the admin interface.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use crate::compile::cluster::{Discovery, DnsSpec};
use crate::compile::endpoint::Checks;
use crate::compile::secret::SecretKey;
use crate::config::Snapshot;
use crate::config::cluster::{Cluster, ClusterEntry};
use crate::xds::assembly::{Assembly, Held, ListenerState, Origin};
use crate::xds::{Kind, Rejected};

/// A resource as the admin interface shows it.
#[derive(Clone, Debug)]
pub struct ResourceView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The server's version; empty for static ones.
    pub version: &'a str,
    /// When it arrived.
    pub updated: SystemTime,
    /// The encoded message.
    pub body: Cow<'a, [u8]>,
    /// Where it came from.
    pub origin: Origin,
    /// Whether it serves, or waits for what it depends on.
    pub state: ViewState,
}

/// Secrets that are wanted of others than the stream.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// Files to read.
    pub files: Vec<SecretKey>,
    /// Names, by the cluster of the server that has them.
    pub of_servers: BTreeMap<String, BTreeSet<String>>,
}

/// Progress of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewState {
    /// In the snapshot.
    Active,
    /// Waiting.
    Warming,
}

impl Assembly {
    /// The snapshot of now.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The names to subscribe of a type that is asked for by reference.
    pub fn wanted(&self, kind: Kind) -> BTreeSet<String> {
        match kind {
            Kind::Assignment => self.services.names().map(ToString::to_string).collect(),
            // A listener that waits for another table goes on with the one that it has.
            Kind::Routes => self
                .listeners
                .values()
                .flat_map(|state| state.spec.route_tables())
                .chain(self.listeners.values().flat_map(ListenerState::tables_in_use))
                .map(ToString::to_string)
                .collect(),
            Kind::Secret => self
                .wanted_secrets()
                .into_iter()
                .filter_map(|key| match key {
                    SecretKey::Named(name) if !self.is_static_secret(name) => Some(name.clone()),
                    _ => None,
                })
                .collect(),
            Kind::Cluster | Kind::Listener => BTreeSet::new(),
        }
    }

    fn wanted_secrets(&self) -> BTreeSet<&SecretKey> {
        let clusters = self.clusters.values().flat_map(|state| state.spec.secrets());
        clusters
            .chain(self.listeners.values().flat_map(|state| state.spec.secrets()))
            .collect()
    }

    fn is_static_secret(&self, name: &str) -> bool {
        self.secrets.contains_key(&SecretKey::Named(name.to_owned())) && !self.secret_versions.contains_key(name)
    }

    /// The secrets that are wanted of others than the stream.
    pub fn wanted_elsewhere(&self) -> Elsewhere {
        let mut elsewhere = Elsewhere::default();
        for key in self.wanted_secrets() {
            match key {
                SecretKey::File { .. } => elsewhere.files.push(key.clone()),
                SecretKey::Server { cluster, name } => {
                    let of_server = elsewhere.of_servers.entry(cluster.clone()).or_default();
                    of_server.insert(name.clone());
                }
                SecretKey::Named(_) => {}
            }
        }
        elsewhere
    }

    /// What servers of secrets have sent, by name, with the version and the time of it.
    pub fn secrets_of_servers(&self) -> impl Iterator<Item = (&str, &str, SystemTime)> {
        let told = self.served.iter();
        told.filter_map(|(key, (version, updated))| match key {
            SecretKey::Server { name, .. } => Some((name.as_str(), version.as_str(), *updated)),
            SecretKey::Named(_) | SecretKey::File { .. } => None,
        })
    }

    /// The clusters whose host names must be resolved.
    pub fn dns_clusters(&self) -> Vec<(Arc<str>, DnsSpec)> {
        self.clusters
            .iter()
            .filter_map(|(name, state)| match &state.spec.discovery {
                Discovery::Dns(spec) => Some((name.clone(), spec.clone())),
                _ => None,
            })
            .collect()
    }

    /// What is in use, or is to be, of the clusters the health of whose hosts is watched.
    pub fn watched_clusters(&self) -> Vec<Arc<ClusterEntry>> {
        let watched = self.clusters.values().filter(|state| {
            // The version before may be watched although the new one is not.
            state.spec.watches_health() || state.pending
        });
        watched
            .flat_map(|state| state.active.iter().chain(&state.warming).cloned())
            .collect()
    }

    /// The clusters that wait for their hosts to be probed.
    pub fn warming_clusters(&self) -> Vec<Arc<Cluster>> {
        let warming = self.clusters.values().filter_map(|state| state.warming.as_ref());
        warming.map(|entry| entry.cluster.clone()).collect()
    }

    /// Whether one of these clusters can't be used in any version because of what is found out here: the addresses of
    /// its names, or the health of its hosts.
    pub fn awaits_findings(&self, clusters: &[String]) -> bool {
        clusters.iter().any(|name| {
            self.clusters.get(name.as_str()).is_some_and(|state| {
                let spec = &state.spec;
                let finds_out = matches!(spec.discovery, Discovery::Dns(_)) || spec.checks() != Checks::None;
                finds_out && state.active.is_none() && !self.is_hopeless(Kind::Cluster, name, spec.secrets())
            })
        })
    }

    /// Whether there are tables that no listener names any more: one goes over to another when that arrives, or a
    /// secret.
    pub fn has_left_tables(&self) -> bool {
        let wanted = self.wanted(Kind::Routes);
        self.tables.keys().any(|name| !wanted.contains(&**name))
    }

    /// Forgets assignments, route tables and secrets that nothing refers to.
    pub fn forget_unwanted(&mut self) {
        let tables = self.wanted(Kind::Routes);
        let services = &self.services;
        self.assignments.retain(|name, _| services.contains(name));
        let gone: Vec<Arc<str>> = self
            .tables
            .keys()
            .filter(|name| !tables.contains(&***name))
            .cloned()
            .collect();
        for name in gone {
            self.tables.remove(&name);
            self.changes.tables.insert(name);
        }
        // A failure that nobody asks about any more says nothing about a resource that is wanted again later.
        let (assignments, secrets) = (self.wanted(Kind::Assignment), self.wanted(Kind::Secret));
        self.failures.retain(|(kind, name), _| match kind {
            Kind::Routes => tables.contains(name),
            Kind::Assignment => assignments.contains(name),
            Kind::Secret => secrets.contains(name),
            Kind::Cluster | Kind::Listener => true,
        });
        let wanted: BTreeSet<SecretKey> = self.wanted_secrets().into_iter().cloned().collect();
        let versions = &mut self.secret_versions;
        self.secrets.retain(|key, _| match key {
            SecretKey::Named(name) if versions.contains_key(name) && !wanted.contains(key) => {
                versions.remove(name);
                false
            }
            SecretKey::Server { .. } => wanted.contains(key),
            _ => true,
        });
        self.served.retain(|key, _| wanted.contains(key));
    }

    /// Whether a listener, in any version that may still serve, uses this address.
    pub fn uses_address(&self, listener: &str, address: std::net::SocketAddr) -> bool {
        let Some(state) = self.listeners.get(listener) else {
            return false;
        };
        let active = state.active.iter().flat_map(|active| &active.addresses);
        active.chain(&state.spec.addresses).any(|used| used.address == address)
    }

    /// True when nothing more is to be awaited of clusters: each is active, or can't be as things stand.
    pub fn clusters_ready(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters
            .all(|(name, state)| state.active.is_some() || self.is_hopeless(Kind::Cluster, name, state.spec.secrets()))
    }

    /// The same for listeners. One that can't open must not keep the others closed.
    pub fn listeners_ready(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners
            .all(|(name, state)| state.active.is_some() || self.is_hopeless(Kind::Listener, name, state.spec.secrets()))
    }

    fn is_hopeless<'a>(&self, kind: Kind, name: &str, mut secrets: impl Iterator<Item = &'a SecretKey>) -> bool {
        let missing = |key: &SecretKey| match key {
            SecretKey::Named(secret) => !self.secrets.contains_key(key) && self.has_failed(Kind::Secret, secret),
            _ => false,
        };
        self.has_failed(kind, name) || secrets.any(missing)
    }

    /// Resources that were rejected last, by type and name.
    pub fn failures(&self) -> impl Iterator<Item = (Kind, &Rejected)> {
        self.failures.iter().map(|((kind, _), bad)| (*kind, bad))
    }

    /// The resources of a type, by name.
    pub fn resources(&self, kind: Kind) -> Vec<ResourceView<'_>> {
        let state = |active: bool| if active { ViewState::Active } else { ViewState::Warming };
        match kind {
            Kind::Cluster => self
                .clusters
                .iter()
                .map(|(name, held)| ResourceView {
                    name,
                    version: &held.version,
                    updated: held.updated,
                    body: Cow::Borrowed(&*held.body),
                    origin: held.origin,
                    state: state(!held.pending),
                })
                .collect(),
            Kind::Listener => self
                .listeners
                .iter()
                .map(|(name, held)| ResourceView {
                    name,
                    version: &held.version,
                    updated: held.updated,
                    body: Cow::Borrowed(&*held.body),
                    origin: held.origin,
                    state: state(!held.pending),
                })
                .collect(),
            Kind::Routes => held(&self.tables, |table| Cow::Owned(table.body())),
            Kind::Assignment => held(&self.assignments, |body| Cow::Borrowed(&**body)),
            Kind::Secret => self
                .secret_versions
                .iter()
                .map(|(name, version)| ResourceView {
                    name,
                    version,
                    updated: SystemTime::UNIX_EPOCH,
                    body: Cow::Borrowed(&[]),
                    origin: Origin::Dynamic,
                    state: ViewState::Active,
                })
                .collect(),
        }
    }
}

fn held<'a, T>(all: &'a BTreeMap<Arc<str>, Held<T>>, body: impl Fn(&'a T) -> Cow<'a, [u8]>) -> Vec<ResourceView<'a>> {
    let view = |(name, held): (&'a Arc<str>, &'a Held<T>)| {
        Some(ResourceView {
            name,
            version: &held.version,
            updated: held.updated,
            body: body(held.value.as_ref()?),
            origin: Origin::Dynamic,
            state: ViewState::Active,
        })
    };
    all.iter().filter_map(view).collect()
}
