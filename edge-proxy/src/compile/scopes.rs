//! Counters and files that outlive updates of the resources that use them.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use crate::config::ClusterId;
use crate::config::access_log::LogFile;
use crate::config::collector::Collector;
use crate::config::endpoint::HostAddress;
use crate::stats::{ClusterStats, HostStats, HttpStats, ListenerStats, TcpStats, UdpStats};

/// Finds the scope that an earlier version of a resource counts in, as long as anything uses it.
#[derive(Debug)]
pub struct Scopes {
    workers: usize,
    clusters: FxHashMap<Arc<str>, Weak<ClusterStats>>,
    http: FxHashMap<Arc<str>, Weak<HttpStats>>,
    listeners: FxHashMap<Arc<str>, Weak<ListenerStats>>,
    tcp: FxHashMap<Arc<str>, Weak<TcpStats>>,
    udp: FxHashMap<Arc<str>, Weak<UdpStats>>,
    hosts: FxHashMap<(Arc<str>, HostAddress), Weak<HostStats>>,
    logs: FxHashMap<PathBuf, Weak<LogFile>>,
    collectors: FxHashMap<(ClusterId, Box<[u8]>), Weak<Collector>>,
}

impl Scopes {
    /// No scopes yet; each gets a slot for that many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            clusters: FxHashMap::default(),
            http: FxHashMap::default(),
            listeners: FxHashMap::default(),
            tcp: FxHashMap::default(),
            udp: FxHashMap::default(),
            hosts: FxHashMap::default(),
            logs: FxHashMap::default(),
            collectors: FxHashMap::default(),
        }
    }

    /// `cluster.<name>.`
    pub fn cluster(&mut self, name: &str) -> Arc<ClusterStats> {
        let workers = self.workers;
        find(&mut self.clusters, name.into(), || {
            ClusterStats::new(format!("cluster.{name}."), name, workers)
        })
    }

    /// `http.<prefix>.`
    pub fn http(&mut self, prefix: &str) -> Arc<HttpStats> {
        let workers = self.workers;
        find(&mut self.http, prefix.into(), || {
            HttpStats::new(format!("http.{prefix}."), prefix, workers)
        })
    }

    /// `listener.<address>.`
    pub fn listener(&mut self, name: &str) -> Arc<ListenerStats> {
        let workers = self.workers;
        find(&mut self.listeners, name.into(), || {
            ListenerStats::new(format!("listener.{name}."), name, workers)
        })
    }

    /// `tcp.<prefix>.`
    pub fn tcp(&mut self, prefix: &str) -> Arc<TcpStats> {
        let workers = self.workers;
        find(&mut self.tcp, prefix.into(), || {
            TcpStats::new(format!("tcp.{prefix}."), prefix, workers)
        })
    }

    /// `udp.<prefix>.`
    pub fn udp(&mut self, prefix: &str) -> Arc<UdpStats> {
        let workers = self.workers;
        find(&mut self.udp, prefix.into(), || {
            UdpStats::new(format!("udp.{prefix}."), prefix, workers)
        })
    }

    /// The file that logs are written into.
    pub fn log_file(&mut self, path: &str) -> Arc<LogFile> {
        find(&mut self.logs, path.into(), || LogFile { path: path.into() })
    }

    /// The service of a log: one for all logs that are configured alike, so that they share what waits and its stream.
    pub(super) fn collector(&mut self, collector: Collector, message: &[u8]) -> Arc<Collector> {
        let key = (collector.cluster, message.into());
        find(&mut self.collectors, key, || collector)
    }

    /// Counters of one host.
    pub fn host(&mut self, cluster: &Arc<str>, address: &HostAddress) -> Arc<HostStats> {
        find(&mut self.hosts, (cluster.clone(), address.clone()), HostStats::default)
    }
}

fn find<K: std::hash::Hash + Eq, V>(table: &mut FxHashMap<K, Weak<V>>, key: K, make: impl FnOnce() -> V) -> Arc<V> {
    if let Some(known) = table.get(&key).and_then(Weak::upgrade) {
        return known;
    }
    // Dead entries are dropped as the table would grow, so it stays within twice of what lives.
    if table.len() == table.capacity() {
        table.retain(|_, value| value.strong_count() > 0);
    }
    let value = Arc::new(make());
    table.insert(key, Arc::downgrade(&value));
    value
}
