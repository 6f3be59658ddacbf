//! Streams and datagrams: bytes handed on as they are.
//!
//! What: where the connections of a chain, or the datagrams of a listener, go, and how long silence is borne.
//! Deliberately absent: hash policies, tunnelling over HTTP and per-packet balancing (the compiler rejects them by name).

use std::sync::Arc;
use std::time::Duration;

use crate::config::ClusterId;
use crate::stats::{TcpStats, UdpStats};

/// What a chain does with its connections when it does not speak HTTP.
#[derive(Debug)]
pub struct TcpProxy {
    /// Where connections go.
    pub shares: ClusterShares,
    /// A connection on which nothing moves for this long is closed.
    pub idle_timeout: Option<Duration>,
    /// A connection older than this is closed.
    pub max_duration: Option<Duration>,
    /// How many hosts are tried, at least 1.
    pub max_connect_attempts: u32,
    /// The `tcp.<stat_prefix>.` counters.
    pub stats: Arc<TcpStats>,
}

/// Clusters with their part of the connections. A cluster may be undefined: its part is closed.
#[derive(Debug, PartialEq, Eq)]
pub struct ClusterShares {
    /// Cluster and weight, at least one of them, every weight at least 1.
    shares: Box<[(ClusterId, u32)]>,
    total: u64,
}

impl ClusterShares {
    /// Everything to one cluster.
    pub fn single(cluster: ClusterId) -> Self {
        Self {
            shares: [(cluster, 1)].into(),
            total: 1,
        }
    }

    /// By weight; `None` when all weights are 0.
    pub fn weighted(shares: impl IntoIterator<Item = (ClusterId, u32)>) -> Option<Self> {
        let shares: Box<[_]> = shares.into_iter().filter(|(_, weight)| *weight > 0).collect();
        let total = shares.iter().map(|(_, weight)| u64::from(*weight)).sum();
        (total > 0).then_some(Self { shares, total })
    }

    /// The cluster for a random number.
    pub fn pick(&self, random: u64) -> Option<ClusterId> {
        if let [(only, _)] = &*self.shares {
            return Some(*only);
        }
        let mut rest = random % self.total;
        for (cluster, weight) in &self.shares {
            let weight = u64::from(*weight);
            if rest < weight {
                return Some(*cluster);
            }
            rest -= weight;
        }
        None
    }

    /// Every cluster that is mentioned.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        self.shares.iter().map(|(cluster, _)| *cluster)
    }
}

/// What a listener does with datagrams.
#[derive(Debug)]
pub struct UdpProxy {
    /// Where sessions go; it may be undefined.
    pub cluster: ClusterId,
    /// A session in which nothing moves for this long ends; `None` is never.
    pub idle_timeout: Option<Duration>,
    /// Larger datagrams of clients are dropped.
    pub max_downstream_datagram: usize,
    /// Larger datagrams of backends are dropped.
    pub max_upstream_datagram: usize,
    /// The `udp.<stat_prefix>.` counters.
    pub stats: Arc<UdpStats>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_gets_its_part_of_all_numbers() {
        let (a, b, c) = (ClusterId(0), ClusterId(1), ClusterId(2));
        let shares = ClusterShares::weighted([(a, 3), (b, 0), (c, 1)]).expect("not all are 0");
        let picked: Vec<_> = (0..8).filter_map(|random| shares.pick(random)).collect();
        assert_eq!(picked, [a, a, a, c, a, a, a, c]);
        assert_eq!(shares.clusters().collect::<Vec<_>>(), [a, c]);
        assert_eq!(ClusterShares::weighted([(a, 0)]), None);
        assert_eq!(ClusterShares::single(b).pick(u64::MAX), Some(b));
    }
}
