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
#[doc(hidden)]
pub mod access_log;
mod bridged;
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
mod geoip;
mod headers;
mod host;
mod listener;
mod manager;
mod matches;
mod metadata;
mod mutation;
mod networks;
mod oauth2;
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

pub(crate) use bridged::{bridged, tables_of, with_filters_of};
pub(crate) use filter::described;
pub(crate) use route::INTERNAL_ERROR;
pub(crate) use table::{behind_guards, encode_host_alone, plain_table_name, replace_hosts, table_of_name, wire_name};

use crate::{
    patch::Patched,
    snapshot::{Entry, ResourceType, Section, Snapshot, Source},
};
use edge_ir::{
    Cluster, EndpointSet, Executor, Fleet, FleetSettings, InPlace, Listener, PatchFailure, Secret, in_shares,
};
use endpoints::encode_endpoints;
use listener::{encode_listener, encode_ready};
use secret::encode_secret;
use std::{cmp::Ordering, sync::Arc};
use table::Tables;

/// Lowers the successive states of one fleet.
#[derive(Debug)]
pub struct Lowering {
    /// Who encodes where there is much to encode.
    executor: Arc<dyn Executor>,
    settings: Option<Arc<FleetSettings>>,
    clusters: Kept<Cluster>,
    endpoints: Kept<EndpointSet>,
    secrets: Kept<Secret>,
    listeners: Kept<Listener>,
    tables: Tables,
    patched: Patched,
}

impl Default for Lowering {
    fn default() -> Self {
        Self {
            executor: Arc::new(InPlace),
            settings: None,
            clusters: Kept::default(),
            endpoints: Kept::default(),
            secrets: Kept::default(),
            listeners: Kept::default(),
            tables: Tables::default(),
            patched: Patched::default(),
        }
    }
}

impl Lowering {
    /// One that remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets somebody encode what is much and can be encoded in any order. What comes out is the same.
    #[must_use]
    pub fn run_by(self, executor: Arc<dyn Executor>) -> Self {
        Self { executor, ..self }
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
        let ready = || settings.ready.iter().map(encode_ready).collect();
        let none = Vec::new;
        let by = &*self.executor;
        let clusters = || {
            let mut encoder = cluster::Encoder::default();
            move |cluster: &Arc<Cluster>| encoder.encode(cluster)
        };
        let endpoints = || {
            let mut buffer = Vec::new();
            move |set: &Arc<EndpointSet>| encode_endpoints(&mut buffer, set)
        };
        let listeners = || move |listener: &Arc<Listener>| encode_listener(listener, settings);
        Snapshot::default()
            .with(
                ResourceType::Cluster,
                self.clusters.lower(by, &fleet.clusters, clusters, none),
            )
            .with(
                ResourceType::Endpoints,
                self.endpoints.lower(by, &fleet.endpoints, endpoints, none),
            )
            .with(
                ResourceType::Secret,
                self.secrets.lower(
                    by,
                    &fleet.secrets,
                    || |secret: &Arc<Secret>| encode_secret(secret),
                    none,
                ),
            )
            .with(
                ResourceType::Listener,
                self.listeners.lower(by, &fleet.listeners, listeners, ready),
            )
            .with(ResourceType::Routes, self.tables.lower(by, &fleet.route_tables))
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

impl<T: Named + PartialEq + Send + Sync> Kept<T> {
    /// The section of a list, and of resources that stand beside it and don't change with it. An encoder encodes one
    /// piece after another, and there may be several.
    fn lower<E: FnMut(&Arc<T>) -> Entry>(
        &mut self,
        by: &dyn Executor,
        source: &Arc<Vec<Arc<T>>>,
        encoder: impl Fn() -> E + Sync,
        beside: impl FnOnce() -> Vec<Entry>,
    ) -> Arc<Section> {
        if let Some(section) = self.section.as_ref().filter(|_| Arc::ptr_eq(source, &self.source)) {
            return Arc::clone(section);
        }
        let mut before = self.source.iter().zip(&self.entries).peekable();
        let mut entries: Vec<Option<Arc<Entry>>> = Vec::with_capacity(source.len());
        let mut new = Vec::new();
        for piece in source.iter() {
            let kept = seek(&mut before, piece.name(), |(before, _)| before.name());
            let kept = kept.filter(|(before, _)| Arc::ptr_eq(before, piece) || *before == piece);
            if kept.is_none() {
                new.push(piece);
            }
            entries.push(kept.map(|(_, entry)| Arc::clone(entry)));
        }
        let made = in_shares(by, &new, 1, |share| -> Vec<Arc<Entry>> {
            let mut encode = encoder();
            let entry = |piece: &&Arc<T>| Arc::new(encode(piece).made_from(piece.source()));
            share.iter().map(entry).collect()
        });
        let mut made = made.into_iter().flatten();
        let entries: Vec<Arc<Entry>> = entries
            .into_iter()
            .filter_map(|kept| kept.or_else(|| made.next()))
            .collect();
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
