//! The backends' side: choosing a host, connections, and their pools.
//!
//! Every worker has its own pools, keyed by host, and its own balancing positions, keyed by cluster. A request
//! picks a host ([`balance`]), gets a [`Lease`] on a connection ([`pool`]) and sends. Hosts that leave a cluster, and
//! clusters whose settings change, lose their idle connections at once and their busy ones when they come back.

pub(crate) mod balance;
pub(crate) mod connect;
pub(crate) mod counters;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod retry;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_64;

use crate::authority::Authority;
use crate::config::Snapshot;
use crate::config::cluster::{Cluster, ClusterEntry};
use crate::config::endpoint::{Host, HostId};
use crate::config::tls::Sni;
use crate::local::Local;
use crate::proxy_protocol::Addresses;

pub(crate) use lease::{Lease, SendFailure};
pub(crate) use limits::RequestGuard;
pub(crate) use pool::HostPool;

/// What keeps connections to one host apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Apart {
    /// Hash of the TLS server name where that follows the request's authority, else 0.
    name: u64,
    /// Whom the connection says that it is for, where it says so.
    behalf: Option<Addresses>,
}

impl Apart {
    /// For requests to an authority, on behalf of a client's connection or of nobody.
    pub(crate) fn of(cluster: &Cluster, authority: &str, behalf: Option<Addresses>) -> Self {
        let name = match cluster.any_tls().any(|tls| tls.sni == Sni::Authority) {
            true => xxh3_64(Authority::of(authority).host.as_bytes()).max(1),
            false => 0,
        };
        Self {
            name,
            behalf: behalf.filter(|_| cluster.proxy_protocol.is_some()),
        }
    }
}

/// All backend state of a worker.
#[derive(Debug)]
pub(crate) struct Upstreams {
    /// The state of the worker's thread.
    pub(crate) worker: Rc<Local>,
    /// By host, and by what keeps connections to it apart.
    pools: RefCell<FxHashMap<(HostId, Apart), Rc<HostPool>>>,
    /// Which of them are for one client's connection alone.
    behalf: RefCell<FxHashMap<Addresses, Vec<(HostId, Apart)>>>,
    /// Balancing positions by cluster id.
    pub(crate) balancers: balance::Balancers,
    /// Hosts by the names that requests ask for.
    pub(crate) names: names::KnownNames,
    /// Rung when a connection becomes idle, or one that is shared has come, for the sweeper.
    idle: tokio::sync::Notify,
}

impl Upstreams {
    /// No connection yet.
    pub(crate) fn new(worker: Rc<Local>) -> Rc<Self> {
        Rc::new(Self {
            worker,
            pools: RefCell::default(),
            behalf: RefCell::default(),
            balancers: balance::Balancers::default(),
            names: names::KnownNames::default(),
            idle: tokio::sync::Notify::new(),
        })
    }

    /// The pool of a host.
    pub(crate) fn pool(&self, entry: &ClusterEntry, host: &Arc<Host>, apart: Apart) -> Rc<HostPool> {
        let mut pools = self.pools.borrow_mut();
        if let Some(pool) = pools.get(&(host.id, apart)) {
            if Arc::ptr_eq(&pool.cluster, &entry.cluster) {
                return Rc::clone(pool);
            }
            // The cluster's settings changed: what was opened under the old ones must not serve new requests.
            pool.close();
        }
        let pool = Rc::new(HostPool::new(self.worker.index, entry, Arc::clone(host), apart.behalf));
        pools.insert((host.id, apart), Rc::clone(&pool));
        if let Some(behalf) = apart.behalf {
            let mut all = self.behalf.borrow_mut();
            all.entry(behalf).or_default().push((host.id, apart));
        }
        pool
    }

    /// A client's connection has ended: nobody else uses what was opened on its behalf.
    pub(crate) fn client_left(&self, addresses: Addresses) {
        let Some(keys) = self.behalf.borrow_mut().remove(&addresses) else {
            return;
        };
        for key in keys {
            // Taken out first: closing may wake code that asks for a pool.
            let pool = self.pools.borrow_mut().remove(&key);
            if let Some(pool) = pool {
                pool.close();
            }
        }
    }

    /// Closes pools whose host or cluster is no longer part of the configuration.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.balancers.follow(snapshot);
        self.names.follow(snapshot);
        let mut hosts: FxHashMap<u32, FxHashSet<HostId>> = FxHashMap::default();
        self.pools.borrow_mut().retain(|(host, _), pool| {
            let stays = snapshot.cluster(pool.cluster_id).is_some_and(|entry| {
                Arc::ptr_eq(&entry.cluster, &pool.cluster)
                    && (self.names.has(pool.cluster_id, *host)
                        || hosts
                            .entry(pool.cluster_id.0)
                            .or_insert_with(|| entry.endpoints.hosts.iter().map(|host| host.id).collect())
                            .contains(host))
            });
            if !stays {
                pool.close();
            }
            stays
        });
    }

    /// Tells the sweeper that there is something to look after.
    fn look_after(&self) {
        self.idle.notify_one();
    }

    /// One round of the sweeper; true while an idle connection remains.
    fn sweep(&self) -> bool {
        let now = self.worker.clock.now();
        // Cloned out, because closing a connection may wake code that asks for a pool.
        let pools: smallvec::SmallVec<[Rc<HostPool>; 16]> = self.pools.borrow().values().cloned().collect();
        pools.iter().fold(false, |any, pool| pool.sweep(now) | any)
    }
}

/// Closes idle connections that their host has closed or that were unused for too long. Runs as one task per worker
/// and sleeps without a timer while no connection is idle.
pub(crate) async fn sweep(upstreams: Rc<Upstreams>) {
    loop {
        upstreams.idle.notified().await;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if !upstreams.sweep() {
                break;
            }
        }
    }
}
