//! What a fleet is served: for each kind of resource a sorted list of encoded resources, each with the hash of its
//! bytes as version.
//!
//! Versions come from the content, so every replica of the controller serves the same ones, and a proxy that comes back
//! is sent only what changed. Decoded messages are never kept: a route is two kilobytes as a struct and about a
//! hundred bytes encoded. A snapshot is cheap to clone, and one made from the previous one shares every unchanged
//! [`Entry`] with it, which makes [`diff`] a walk over pointers.

mod body;
mod owners;

#[cfg(test)]
mod tests;

pub use body::{Body, Piece, Rope};
pub(crate) use body::{PieceChunk, SharedBytes};
pub(crate) use owners::clusters_of;
pub use owners::owners;

use edge_ir::{Cluster, Listener, Origins, RouteTable};
use std::{cmp::Ordering, sync::Arc};

/// The kinds of resources, in the order in which a proxy is given new ones: what is pointed at before what points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceType {
    /// Clusters (CDS).
    Cluster,
    /// Cluster load assignments (EDS).
    Endpoints,
    /// Secrets (SDS).
    Secret,
    /// Listeners (LDS).
    Listener,
    /// Route configurations (RDS).
    Routes,
}

impl ResourceType {
    /// Every kind, in order.
    pub const ALL: [Self; 5] = [
        Self::Cluster,
        Self::Endpoints,
        Self::Secret,
        Self::Listener,
        Self::Routes,
    ];

    /// The type URL that names it on the wire.
    pub fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Routes => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The kind that a type URL names.
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// One encoded resource.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The resource's name.
    pub name: Arc<str>,
    /// Hash of the body, never 0.
    pub version: u64,
    /// The encoded message.
    pub body: Body,
    /// The objects it came from, for whoever rejects it.
    pub origins: Origins,
    /// For a cluster: the endpoints without which it doesn't become usable.
    pub warmed_by: Option<Arc<str>>,
    /// The IR behind it, for questions that are asked when somebody rejects it.
    pub source: Source,
}

/// The piece of IR that an entry was encoded from. It is the fleet's own allocation, so that keeping it costs a
/// pointer.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Something that refers to nothing else.
    #[default]
    Other,
    /// A cluster.
    Cluster(Arc<Cluster>),
    /// A listener.
    Listener(Arc<Listener>),
    /// A table. The pieces of the body are its header and then its hosts, in their order.
    Table(Arc<RouteTable>),
}

/// The source doesn't count: equal bytes are equal, whatever allocation they came from.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && (&self.name, &self.body, &self.origins, &self.warmed_by)
                == (&other.name, &other.body, &other.origins, &other.warmed_by)
    }
}

impl Eq for Entry {}

impl Entry {
    /// An entry with the version that follows from its body.
    pub fn new(name: impl Into<Arc<str>>, body: Body, origins: Origins) -> Self {
        Self {
            name: name.into(),
            version: body.version(),
            body,
            origins,
            warmed_by: None,
            source: Source::Other,
        }
    }

    /// The same entry, with the IR it came from.
    #[must_use]
    pub fn made_from(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The version as it is written on the wire.
    pub fn version_text(&self) -> String {
        version_text(self.version)
    }
}

/// A version as it is written on the wire.
pub fn version_text(version: u64) -> String {
    format!("{version:016x}")
}

/// The resources of one kind, sorted by name, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    entries: Vec<Arc<Entry>>,
}

impl Section {
    /// Takes entries in any order; of several with one name the first stays.
    pub fn new(mut entries: Vec<Arc<Entry>>) -> Self {
        if !entries.is_sorted_by(|a, b| a.name < b.name) {
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            entries.dedup_by(|later, first| later.name == first.name);
        }
        Self { entries }
    }

    /// All entries by name.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The entry of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        let found = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        self.entries.get(found)
    }
}

/// Everything a fleet is served at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    sections: [Arc<Section>; 5],
}

impl Snapshot {
    /// The resources of one kind.
    pub fn section(&self, kind: ResourceType) -> &Arc<Section> {
        &self.sections[kind.index()]
    }

    /// The same snapshot with other resources of one kind.
    #[must_use]
    pub fn with(mut self, kind: ResourceType, section: Arc<Section>) -> Self {
        self.sections[kind.index()] = section;
        self
    }
}

/// What turns one section into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Entries that are new or have another version, by name.
    pub changed: Vec<Arc<Entry>>,
    /// Names that are gone, sorted.
    pub removed: Vec<Arc<str>>,
}

impl Diff {
    /// Nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two sections; costs a pointer comparison for each shared entry, and one in all for a shared section.
pub fn diff(before: &Arc<Section>, after: &Arc<Section>) -> Diff {
    let mut diff = Diff::default();
    if Arc::ptr_eq(before, after) {
        return diff;
    }
    let (mut old, mut new) = (before.entries().iter().peekable(), after.entries().iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return diff,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
            (Some(a), Some(b)) => a.name.cmp(&b.name),
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        match (before, after) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) || a.version == b.version => {}
            (_, Some(b)) => diff.changed.push(Arc::clone(b)),
            (Some(a), None) => diff.removed.push(Arc::clone(&a.name)),
            (None, None) => return diff,
        }
    }
}
