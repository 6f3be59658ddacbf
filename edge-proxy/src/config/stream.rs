//! Streams and datagrams: bytes handed on as they are.
//!
//! Where the connections of a chain, or the datagrams of a listener, go, and how long silence is borne.
//! Deliberately absent: hashes of anything but the client's address, tunnelling over HTTP and per-packet balancing (the
//! compiler rejects them by name).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh64::xxh64;

use crate::config::ClusterId;
use crate::config::access_log::AccessLogs;
use crate::config::endpoint::hashing::hash;
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
    /// By what its host is chosen, where the cluster chooses by hash.
    pub hashed: Hashed,
    /// Where its host is, if the cluster's hosts are those that clients ask for: at this port of the server name.
    pub named_at: Option<u16>,
    /// What is written of connections, if anything.
    pub access_logs: Option<Arc<AccessLogs>>,
    /// The `tcp.<stat_prefix>.` counters.
    pub stats: Arc<TcpStats>,
}

/// What of a client is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// Nothing: a hash is drawn.
    Nothing,
    /// Its address, without the port.
    Address,
}

impl Hashed {
    /// The hash of a client, as Envoy computes it.
    pub fn of(self, client: IpAddr) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Address => Some(hash(client.to_canonical().to_string().as_bytes())),
        }
    }
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
    /// Where flows go.
    pub route: FlowRoute,
    /// A session in which nothing moves for this long ends; `None` is never.
    pub idle_timeout: Option<Duration>,
    /// Larger datagrams of clients are dropped.
    pub max_downstream_datagram: usize,
    /// Larger datagrams of backends are dropped.
    pub max_upstream_datagram: usize,
    /// By what the host of a flow is chosen, where the cluster chooses by hash.
    pub hashed: Hashed,
    /// What is written of sessions, if anything.
    pub access_logs: Option<Arc<AccessLogs>>,
    /// The `udp.<stat_prefix>.` counters.
    pub stats: Arc<UdpStats>,
}

/// Where flows of datagrams go; a flow is what comes from one address and port. A cluster may be undefined: its part
/// is dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct FlowRoute {
    /// The first that takes a flow has it.
    pub shares: Box<[(PortHash, ClusterId)]>,
    /// Where all others go.
    pub otherwise: ClusterId,
}

/// A share of all flows, drawn by their source port as Envoy's consistent hashing matcher draws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortHash {
    /// It takes the flows whose number is that or more …
    pub threshold: u32,
    /// … of so many, at least 1.
    pub modulo: u32,
    /// Of the hash.
    pub seed: u64,
}

impl PortHash {
    /// Whether flows of this port are taken.
    pub fn takes(self, port: u16) -> bool {
        xxh64(port.to_string().as_bytes(), self.seed) % u64::from(self.modulo) >= u64::from(self.threshold)
    }
}

impl FlowRoute {
    /// Everything to one cluster.
    pub fn always(cluster: ClusterId) -> Self {
        Self {
            shares: [].into(),
            otherwise: cluster,
        }
    }

    /// The cluster for flows of a client's port.
    pub fn pick(&self, port: u16) -> ClusterId {
        let taken = self.shares.iter().find(|(hash, _)| hash.takes(port));
        taken.map_or(self.otherwise, |(_, cluster)| *cluster)
    }

    /// Every cluster that is mentioned.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterId> {
        let shares = self.shares.iter().map(|(_, cluster)| *cluster);
        shares.chain(std::iter::once(self.otherwise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stock Envoy 1.40 with 70, 20 and 10 of a hundred to a, b and c, asked from ports 20000 to 20039.
    #[test]
    fn flows_go_where_envoy_sends_them() {
        let clusters = [ClusterId(0), ClusterId(1), ClusterId(2)];
        for (seed, wanted) in [
            (0, "aaaaabacbacaaaaaccaabaaaaaaaaaaabaaabaaa"),
            (5, "baaaaaaacababaaabaaaaacaaabaaaaaaaabaaaa"),
        ] {
            let hash = |threshold| PortHash {
                threshold,
                modulo: 10,
                seed,
            };
            let route = FlowRoute {
                shares: [(hash(9), clusters[2]), (hash(7), clusters[1])].into(),
                otherwise: clusters[0],
            };
            let name = |port| char::from(b"abc"[route.pick(port).0 as usize]);
            assert_eq!((20_000..20_040).map(name).collect::<String>(), wanted);
        }
    }

    /// The hash of the text of an address, whichever form the socket has it in.
    #[test]
    fn addresses_are_hashed_as_they_are_written() {
        let text = hash(b"192.0.2.7");
        for address in ["192.0.2.7", "::ffff:192.0.2.7"] {
            assert_eq!(Hashed::Address.of(address.parse().expect("an address")), Some(text));
        }
        assert_eq!(Hashed::Nothing.of(IpAddr::from([192, 0, 2, 7])), None);
    }

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
