//! Where this proxy is, and where the others of its fleet are.
//!
//! The locality of the bootstrap's node, and the endpoints of the cluster that the bootstrap calls the local one:
//! by these a proxy knows which share of all requests comes from its zone.
//! Why shared: the endpoints of that one cluster matter for the choice of hosts in others, which nobody makes anew for
//! it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::endpoint::EndpointSet;

/// How far hosts in the locality of the proxy come first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneAwareness {
    /// With fewer healthy hosts all localities are equally near.
    pub min_cluster_size: u64,
    /// The share of requests that localities matter for, in per cent.
    pub percent: u32,
    /// While too few hosts are healthy, nobody is asked rather than everybody.
    pub fails_in_panic: bool,
    /// With so many healthy hosts the own locality gets everything.
    pub force: Option<u32>,
}

impl Default for ZoneAwareness {
    /// Envoy's.
    fn default() -> Self {
        Self {
            min_cluster_size: 6,
            percent: 100,
            fails_in_panic: false,
            force: None,
        }
    }
}

/// The proxies of the fleet, this one among them.
#[derive(Debug)]
pub struct LocalProxies {
    /// The cluster that they are the endpoints of.
    pub cluster: Arc<str>,
    /// `region/zone/sub_zone` of this one, as [`crate::config::endpoint::Group::name`].
    pub locality: Arc<str>,
    endpoints: RwLock<Arc<EndpointSet>>,
    version: AtomicU64,
}

impl LocalProxies {
    /// Of whom nothing is known yet.
    pub fn new(cluster: &str, locality: &str) -> Self {
        Self {
            cluster: cluster.into(),
            locality: locality.into(),
            endpoints: RwLock::default(),
            version: AtomicU64::new(0),
        }
    }

    /// Where they are now.
    pub fn endpoints(&self) -> Arc<EndpointSet> {
        Arc::clone(&self.endpoints.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts up with every [`Self::replace`].
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// They are elsewhere.
    pub fn replace(&self, endpoints: Arc<EndpointSet>) {
        *self.endpoints.write().unwrap_or_else(PoisonError::into_inner) = endpoints;
        self.version.fetch_add(1, Ordering::Release);
    }
}
