//! IR to resources.
//!
//! One module for each kind. Messages are built with generated types, encoded at once and dropped; only routes and
//! endpoints are so many that their fields are written one by one (`route`, `matches`, `headers`, `endpoints`), and
//! clusters so much alike that most of one is copied from the one before. Defaults of the data plane that the IR
//! doesn't speak of are set here and nowhere else.
//!
//! [`Lowering`] remembers what it made from what. A piece of IR that is the same as last time (by pointer, else by
//! content) is not encoded again and keeps its [`Entry`], so that a change costs what it touches and a walk over
//! pointers. What comes out never depends on what is remembered: it is byte for byte what a new `Lowering` gives.

mod access;
mod access_log;
mod between;
mod client;
mod cluster;
mod common;
mod cors;
mod datagram;
mod downstream_tls;
mod endpoints;
mod expression;
mod ext_authz;
mod extension;
mod filter;
mod headers;
mod host;
mod listener;
mod manager;
mod matches;
mod metadata;
mod mutation;
mod oauth2;
mod place;
mod quic;
mod rewrite;
mod route;
pub(crate) mod secret;
mod session;
mod sharing;
mod socket_options;
mod stream;
mod table;
mod token;
mod tracing;
mod upstream_tls;
mod wasm;

#[cfg(test)]
mod tests;

pub(crate) use between::{between, tables_of};
pub(crate) use filter::described;
pub(crate) use host::host_suffix;
pub(crate) use route::INTERNAL_ERROR;
pub(crate) use table::{encode_host_alone, plain_table_name, replace_hosts, table_of_name};

use crate::{
    patch::Patched,
    snapshot::{Entry, ResourceType, Section, Snapshot, Source},
};
use edge_ir::{Cluster, EndpointSet, Fleet, FleetSettings, Listener, PatchFailure, Secret};
use std::{cmp::Ordering, sync::Arc};
use table::Tables;

/// Lowers the successive states of one fleet.
#[derive(Debug, Default)]
pub struct Lowering {
    settings: Option<Arc<FleetSettings>>,
    clusters: Kept<Cluster>,
    endpoints: Kept<EndpointSet>,
    secrets: Kept<Secret>,
    listeners: Kept<Listener>,
    tables: Tables,
    /// The rest of a cluster, for the next one.
    cluster: cluster::Encoder,
    /// Scratch space for encoding.
    buffer: Vec<u8>,
    patched: Patched,
}

impl Lowering {
    /// One that remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Patches of the fleet lowered last that could not be applied, in their order.
    pub fn failures(&self) -> &Arc<Vec<PatchFailure>> {
        self.patched.failures()
    }

    /// The resources of a fleet.
    pub fn lower(&mut self, fleet: &Fleet) -> Snapshot {
        let snapshot = self.lower_unpatched(fleet);
        self.patched.apply(snapshot, fleet)
    }

    fn lower_unpatched(&mut self, fleet: &Fleet) -> Snapshot {
        // Every listener depends on the settings.
        if self.settings.as_deref() != Some(&*fleet.settings) {
            self.settings = Some(Arc::clone(&fleet.settings));
            self.listeners = Kept::default();
        }
        let settings = &*fleet.settings;
        let ready = || settings.ready.iter().map(listener::encode_ready).collect();
        let none = Vec::new;
        Snapshot::default()
            .with(
                ResourceType::Cluster,
                self.clusters
                    .lower(&fleet.clusters, |cluster| self.cluster.encode(cluster), none),
            )
            .with(
                ResourceType::Endpoints,
                self.endpoints.lower(
                    &fleet.endpoints,
                    |set| endpoints::encode_endpoints(&mut self.buffer, set),
                    none,
                ),
            )
            .with(
                ResourceType::Secret,
                self.secrets
                    .lower(&fleet.secrets, |secret| secret::encode_secret(secret), none),
            )
            .with(
                ResourceType::Listener,
                self.listeners.lower(
                    &fleet.listeners,
                    |listener| listener::encode_listener(listener, settings),
                    ready,
                ),
            )
            .with(ResourceType::Routes, self.tables.lower(&fleet.route_tables))
    }
}

/// A piece of IR that becomes a resource of its own.
trait Named {
    fn name(&self) -> &str;

    /// The piece as an entry keeps it.
    fn source(self: &Arc<Self>) -> Source {
        Source::Other
    }
}

impl Named for Cluster {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(self: &Arc<Self>) -> Source {
        Source::Cluster(Arc::clone(self))
    }
}

impl Named for EndpointSet {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Secret {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Listener {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(self: &Arc<Self>) -> Source {
        Source::Listener(Arc::clone(self))
    }
}

/// The last list of pieces, what became of each, and the section that they made.
#[derive(Debug)]
struct Kept<T> {
    source: Arc<Vec<Arc<T>>>,
    entries: Vec<Arc<Entry>>,
    section: Option<Arc<Section>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            source: Arc::default(),
            entries: Vec::new(),
            section: None,
        }
    }
}

impl<T: Named + PartialEq> Kept<T> {
    /// The section of a list, and of resources that stand beside it and don't change with it.
    fn lower(
        &mut self,
        source: &Arc<Vec<Arc<T>>>,
        mut encode: impl FnMut(&Arc<T>) -> Entry,
        beside: impl FnOnce() -> Vec<Entry>,
    ) -> Arc<Section> {
        if let Some(section) = self.section.as_ref().filter(|_| Arc::ptr_eq(source, &self.source)) {
            return Arc::clone(section);
        }
        let mut before = self.source.iter().zip(&self.entries).peekable();
        let mut entries = Vec::with_capacity(source.len());
        for piece in source.iter() {
            let kept = seek(&mut before, piece.name(), |(before, _)| before.name());
            entries.push(match kept {
                Some((before, entry)) if Arc::ptr_eq(before, piece) || before == piece => Arc::clone(entry),
                _ => Arc::new(encode(piece).made_from(piece.source())),
            });
        }
        let unchanged = self.entries.len() == entries.len()
            && self
                .entries
                .iter()
                .zip(&entries)
                .all(|(before, after)| Arc::ptr_eq(before, after));
        self.source = Arc::clone(source);
        if let Some(section) = self.section.as_ref().filter(|_| unchanged) {
            return Arc::clone(section);
        }
        let all = entries
            .iter()
            .map(Arc::clone)
            .chain(beside().into_iter().map(Arc::new))
            .collect();
        let section = Arc::new(Section::new(all));
        self.entries = entries;
        self.section = Some(Arc::clone(&section));
        section
    }
}

/// Moves on in a sorted sequence to the element of a name. `None` if it isn't there; what is behind stays for later
/// names. In a sequence that isn't sorted some elements are not found, which costs an encoding and nothing else.
pub(crate) fn seek<T>(
    sequence: &mut std::iter::Peekable<impl Iterator<Item = T>>,
    name: &str,
    name_of: impl Fn(&T) -> &str,
) -> Option<T> {
    loop {
        match name_of(sequence.peek()?).cmp(name) {
            Ordering::Less => {
                sequence.next();
            }
            Ordering::Equal => return sequence.next(),
            Ordering::Greater => return None,
        }
    }
}
