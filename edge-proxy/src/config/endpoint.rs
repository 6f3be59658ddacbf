//! Endpoints of a cluster, ready to pick from.
//!
//! Hosts, grouped by priority and locality, and a [`View`] of them with all decisions about health, panic and
//! load made, so that a load balancer only draws. The groups are configuration and never change; the view follows the
//! health of the hosts, is made once for all workers, and its version tells them of a new one.
//! Why `Arc<Host>`: a host that stays over an update keeps its identity ([`HostId`] is the key of connection pools),
//! its counters and its vitals.

pub mod hashing;
#[cfg(test)]
mod tests;
pub mod view;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use rustc_hash::FxHashMap;

use crate::config::endpoint::view::View;
use crate::stats::{ClusterStats, HostStats};
use crate::vitals::{Flag, Vitals};

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
    /// How it fares.
    pub vitals: Arc<Vitals>,
    /// What checks of it do otherwise than those of its cluster.
    pub check: Option<Box<HostCheck>>,
    /// Which of its cluster's sockets is for it; `None` is the one for all others.
    pub socket: Option<u16>,
}

/// Settings of the active checks of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCheck {
    /// It is not checked.
    pub disabled: bool,
    /// It is checked at another port.
    pub port: Option<u16>,
    /// It is checked at another address.
    pub address: Option<HostAddress>,
    /// The host name that checks ask for.
    pub hostname: Option<Arc<str>>,
}

impl Host {
    /// What configuration, checks and traffic say together.
    pub fn health(&self) -> Health {
        let vitals = &self.vitals;
        if matches!(self.health, Health::Unhealthy | Health::Draining)
            || vitals.has(Flag::FailedCheck)
            || vitals.has(Flag::Ejected)
        {
            Health::Unhealthy
        } else if self.health == Health::Degraded || vitals.has(Flag::DegradedCheck) {
            Health::Degraded
        } else {
            Health::Healthy
        }
    }

    /// Whether it doesn't count as a host at all yet, or any more.
    pub fn is_excluded(&self) -> bool {
        self.health == Health::Draining || self.vitals.has(Flag::PendingCheck) || self.vitals.has(Flag::Excluded)
    }
}

/// Health of a host as the configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Healthy, or unknown.
    Healthy,
    /// Used when there are not enough healthy ones.
    Degraded,
    /// Not used for new requests (unhealthy, timeout).
    Unhealthy,
    /// The same, for a host that takes its leave: as it isn't ill, others needn't stand in for it.
    Draining,
}

/// All endpoints of a cluster.
#[derive(Debug)]
pub struct EndpointSet {
    /// Every host, also unhealthy ones, in the order of the configuration.
    pub hosts: Box<[Arc<Host>]>,
    /// By priority; index 0 is the highest.
    pub levels: Box<[Level]>,
    /// What decides who is drawn.
    pub lb_settings: LbSettings,
    /// Indexes into [`Self::hosts`], made when somebody asks for a host by its address.
    by_address: OnceLock<FxHashMap<HostAddress, u32>>,
    view: RwLock<Arc<View>>,
    version: AtomicU64,
}

/// What decides, beside their health, which hosts may be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct LbSettings {
    /// In per cent: a priority is as good as whole while so much less than all of it is healthy.
    pub overprovisioning: u32,
    /// Below that many per cent of healthy hosts, all hosts are used.
    pub panic_threshold: u32,
    /// Tables by hash are needed.
    pub hashing: Option<hashing::Hashing>,
    /// Hosts of a locality are asked for, whatever it weighs.
    pub by_zone: bool,
}

impl Default for LbSettings {
    /// Envoy's.
    fn default() -> Self {
        Self {
            overprovisioning: 140,
            panic_threshold: 50,
            hashing: None,
            by_zone: false,
        }
    }
}

/// The hosts of one priority.
#[derive(Debug, Default)]
pub struct Level {
    /// By locality.
    pub groups: Box<[Group]>,
}

/// The hosts of one locality in one priority.
#[derive(Debug)]
pub struct Group {
    /// `region/zone/sub_zone`.
    pub name: Arc<str>,
    /// Its weight among the localities, if it has any.
    pub weight: Option<u32>,
    /// Indexes into [`EndpointSet::hosts`].
    pub members: Box<[u32]>,
}

impl Default for EndpointSet {
    /// Nobody.
    fn default() -> Self {
        Self::new(Box::default(), Box::default(), LbSettings::default())
    }
}

impl EndpointSet {
    /// A set, and the view of it by the health of now.
    pub fn new(hosts: Box<[Arc<Host>]>, levels: Box<[Level]>, lb_settings: LbSettings) -> Self {
        let view = View::new(&hosts, &levels, &lb_settings);
        Self {
            hosts,
            levels,
            lb_settings,
            by_address: OnceLock::new(),
            view: RwLock::new(Arc::new(view)),
            version: AtomicU64::new(0),
        }
    }

    /// The view of now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts up with every new view.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Looks at the hosts anew: the health of one has changed.
    pub fn refresh(&self) {
        let view = Arc::new(View::new(&self.hosts, &self.levels, &self.lb_settings));
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Says how many hosts there are, and how many are well.
    pub fn count(&self, stats: &ClusterStats) {
        let (mut healthy, mut degraded, mut excluded) = (0, 0, 0);
        for host in &self.hosts {
            match host.health() {
                Health::Healthy => healthy += 1,
                Health::Degraded => degraded += 1,
                Health::Unhealthy | Health::Draining => {}
            }
            excluded += i64::from(host.is_excluded());
        }
        let cells = stats.control();
        cells
            .membership_total
            .set(i64::try_from(self.hosts.len()).unwrap_or(i64::MAX));
        cells.membership_healthy.set(healthy);
        cells.membership_degraded.set(degraded);
        cells.membership_excluded.set(excluded);
    }

    /// The priority of a host.
    pub fn priority_of(&self, host: HostId) -> Option<usize> {
        let is_it = |index: &u32| self.hosts.get(*index as usize).is_some_and(|known| known.id == host);
        self.levels
            .iter()
            .position(|level| level.groups.iter().any(|group| group.members.iter().any(is_it)))
    }

    /// The host with this address, healthy or not.
    pub fn host_at(&self, address: &HostAddress) -> Option<&Arc<Host>> {
        let by_address = self.by_address.get_or_init(|| {
            let addresses = self.hosts.iter().map(|host| host.address.clone());
            addresses.zip(0..).collect()
        });
        self.hosts.get(*by_address.get(address)? as usize)
    }
}
