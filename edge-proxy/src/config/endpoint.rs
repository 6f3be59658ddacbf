//! Endpoints of a cluster, ready to pick from.
//!
//! What: hosts, grouped by priority and locality, with health and panic decisions already made, so that a load
//! balancer only draws. Why `Arc<Host>`: a host that stays over an update keeps its identity ([`HostId`] is the key of
//! connection pools) and its counters.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::stats::HostStats;

/// Identifies one host of one cluster in connection pools; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u64);

/// Where a host listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostAddress {
    /// TCP.
    Socket(SocketAddr),
    /// A Unix domain socket.
    Pipe(Arc<Path>),
    /// The proxy's own admin interface (the statistics route of the bootstrap leads there).
    Internal(Arc<str>),
}

/// One endpoint.
#[derive(Debug)]
pub struct Host {
    /// Pool key.
    pub id: HostId,
    /// Where to connect.
    pub address: HostAddress,
    /// The endpoint's host name (for `auto_host_rewrite`, and the name that DNS resolved), may be empty.
    pub hostname: Arc<str>,
    /// At least 1.
    pub weight: u32,
    /// As the configuration says.
    pub health: Health,
    /// Counters that all workers share.
    pub stats: Arc<HostStats>,
}

/// Health of a host as the configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Healthy, or unknown.
    Healthy,
    /// Used when there are not enough healthy ones.
    Degraded,
    /// Not used for new requests (unhealthy, draining, timeout).
    Unhealthy,
}

/// All endpoints of a cluster.
#[derive(Debug, Default)]
pub struct EndpointSet {
    /// Every host, also unhealthy ones, in the order of the configuration.
    pub hosts: Box<[Arc<Host>]>,
    /// By priority; index 0 is the highest.
    pub priorities: Box<[Priority]>,
    /// Fleet-wide share of every priority in per cent, made from its health (Envoy's overprovisioning factor 140);
    /// the sum is 100, or 0 when there is no host at all.
    pub priority_load: Box<[u32]>,
    /// Indexes into [`Self::hosts`], made when somebody asks for a host by its address.
    pub by_address: OnceLock<FxHashMap<HostAddress, u32>>,
}

/// The usable hosts of one priority.
#[derive(Debug, Default)]
pub struct Priority {
    /// Usable hosts of all localities: indexes into [`EndpointSet::hosts`]. In panic these are all hosts.
    pub usable: Box<[u32]>,
    /// True when every usable host has the same weight.
    pub equal_weights: bool,
    /// Sum of the usable hosts' weights.
    pub total_weight: u64,
    /// Usable localities, for locality weighted balancing; empty when no locality has a weight.
    pub localities: Box<[Locality]>,
    /// Sum of [`Locality::effective_weight`].
    pub total_locality_weight: u64,
}

/// The usable hosts of one locality.
#[derive(Debug)]
pub struct Locality {
    /// `region/zone/sub_zone` for the admin interface.
    pub name: Arc<str>,
    /// The configured weight, scaled down by how many of its hosts are healthy.
    pub effective_weight: u64,
    /// Indexes into [`EndpointSet::hosts`].
    pub usable: Box<[u32]>,
    /// True when every usable host has the same weight.
    pub equal_weights: bool,
    /// Sum of the usable hosts' weights.
    pub total_weight: u64,
}

impl EndpointSet {
    /// The priority for a random number; `None` when there is no host.
    pub fn pick_priority(&self, random: u64) -> Option<&Priority> {
        if let ([only], [_]) = (&*self.priorities, &*self.priority_load) {
            return (!only.usable.is_empty()).then_some(only);
        }
        let mut rest = (random % 100) as u32;
        for (priority, load) in self.priorities.iter().zip(&self.priority_load) {
            if rest < *load {
                return Some(priority);
            }
            rest -= load;
        }
        None
    }

    /// The host with this address, healthy or not.
    pub fn host_at(&self, address: &HostAddress) -> Option<&Arc<Host>> {
        let by_address = self.by_address.get_or_init(|| {
            let addresses = self.hosts.iter().map(|host| host.address.clone());
            addresses.zip(0..).collect()
        });
        self.hosts.get(*by_address.get(address)? as usize)
    }

    /// True when no host can be picked.
    pub fn is_empty(&self) -> bool {
        self.priorities.iter().all(|priority| priority.usable.is_empty())
    }
}
