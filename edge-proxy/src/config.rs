//! The compiled configuration: what the hot path reads.
//!
//! Plain immutable data made from Envoy v3 messages by [`crate::compile`]; everything is resolved, parsed and
//! rendered ahead of time, so that serving a request never parses configuration, formats a constant or takes a lock.
//! Why ids: a route names a cluster by [`ClusterId`] and a listener names a shared route table by [`RouteTableId`],
//! both indexes into [`Snapshot`]. So an endpoint update replaces one cluster entry and touches no route table, and a
//! route update touches no listener and no connection.
//! Deliberately absent: Envoy's protobuf types (they are large and stay in the control half) and any mutable state
//! except the shared counters that [`crate::stats`] owns.

pub mod access;
pub mod access_log;
pub mod address;
pub mod cluster;
pub mod collector;
pub mod connection_limit;
pub mod dynamic_forward_proxy;
pub mod endpoint;
pub mod filter;
pub mod hashing;
pub mod header;
pub mod health;
pub mod http_manager;
pub mod listener;
pub mod load;
pub mod metrics;
pub mod protocol;
pub mod request_id;
pub mod route;
pub mod socket;
pub mod stream;
pub mod table;
pub mod timeouts;
pub mod tls;
pub mod tracing;
pub mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use cluster::ClusterEntry;
use http_manager::RouteSource;
use listener::Listener;
use table::RouteTable;

/// The index of a cluster in a [`Snapshot`]; stable for a name while anything refers to that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub u32);

/// The index of a dynamic route table in a [`Snapshot`]; stable for a name while anything refers to that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteTableId(pub u32);

/// One consistent state of the whole configuration. It is replaced as a whole and never changed in place; a request
/// pins the `Arc` it started with.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Counts up by one with every published snapshot.
    pub version: u64,
    /// Listeners that are ready to serve, by name.
    pub listeners: Arc<BTreeMap<Arc<str>, Arc<Listener>>>,
    /// Route tables that listeners refer to by name, by [`RouteTableId`]; `None` while one has not arrived.
    pub route_tables: Arc<Vec<Option<Arc<RouteTable>>>>,
    /// Usable clusters by [`ClusterId`]; `None` for a name that routes mention and nothing defines.
    pub clusters: Arc<Vec<Option<Arc<ClusterEntry>>>>,
    /// The same clusters by name, for whoever has only a name.
    pub cluster_ids: Arc<FxHashMap<Arc<str>, ClusterId>>,
}

impl Snapshot {
    /// The cluster with this id, if it is defined and warmed.
    pub fn cluster(&self, id: ClusterId) -> Option<&Arc<ClusterEntry>> {
        self.clusters.get(id.0 as usize)?.as_ref()
    }

    /// The cluster with this name, if it is defined and warmed.
    pub fn cluster_by_name(&self, name: &str) -> Option<&Arc<ClusterEntry>> {
        self.cluster(*self.cluster_ids.get(name)?)
    }

    /// The route table that a connection manager uses now; `None` means that it has not arrived, which answers 404.
    pub fn route_table<'a>(&'a self, source: &'a RouteSource) -> Option<&'a Arc<RouteTable>> {
        match source {
            RouteSource::Inline(table) => Some(table),
            RouteSource::Dynamic { id, .. } => self.route_tables.get(id.0 as usize)?.as_ref(),
        }
    }
}
