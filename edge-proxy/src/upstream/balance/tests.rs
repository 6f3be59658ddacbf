use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::config::ClusterId;
use crate::config::cluster::{Balancing, CircuitLimits, Cluster, UpstreamProtocol};
use crate::config::endpoint::{Health, HostAddress, Locality};
use crate::config::listener::Http2Options;
use crate::stats::ClusterStats;

fn hosts(weights: &[u32]) -> Box<[Arc<Host>]> {
    let host = |(id, weight): (u64, &u32)| {
        Arc::new(Host {
            id: HostId(id),
            address: HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 1))),
            hostname: Arc::from(""),
            weight: *weight,
            health: Health::Healthy,
            stats: Arc::default(),
        })
    };
    (0..).zip(weights).map(host).collect()
}

fn set(weights: &[u32]) -> EndpointSet {
    let usable: Box<[u32]> = (0..weights.len() as u32).collect();
    let equal_weights = weights.windows(2).all(|pair| pair[0] == pair[1]);
    let total_weight = weights.iter().map(|weight| u64::from(*weight)).sum();
    let priority = Priority {
        usable,
        equal_weights,
        total_weight,
        ..Priority::default()
    };
    EndpointSet {
        hosts: hosts(weights),
        priorities: [priority].into(),
        priority_load: [100].into(),
        ..EndpointSet::default()
    }
}

fn entry(policy: LbPolicy, locality_weighted: bool, endpoints: EndpointSet) -> ClusterEntry {
    let cluster = Cluster {
        credential: None,
        name: Arc::from("c"),
        connect_timeout: Duration::from_secs(1),
        balancing: Balancing {
            policy,
            locality_weighted,
        },
        protocol: UpstreamProtocol::Http1,
        tls: None,
        limits: CircuitLimits::default(),
        per_connection_buffer_limit: 0,
        idle_timeout: None,
        max_connection_duration: None,
        max_requests_per_connection: None,
        http2: Http2Options {
            max_concurrent_streams: 1,
            initial_stream_window: 65_535,
            initial_connection_window: 65_535,
            keepalive: None,
            allow_connect: false,
        },
        tcp_keepalive: None,
        stats: Arc::new(ClusterStats::new("", "", 1)),
    };
    ClusterEntry {
        id: ClusterId(3),
        cluster: Arc::new(cluster),
        endpoints: Arc::new(endpoints),
    }
}

fn draw(entry: &ClusterEntry, n: usize) -> Vec<u64> {
    let (balancers, random) = (Balancers::default(), Random::new());
    (0..n)
        .filter_map(|_| balancers.pick(entry, &random, &[], 0))
        .map(|host| host.id.0)
        .collect()
}

fn counts(drawn: &[u64]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for host in drawn {
        *counts.entry(*host).or_default() += 1;
    }
    counts
}

#[test]
fn round_robin_takes_turns() {
    let drawn = draw(&entry(LbPolicy::RoundRobin, false, set(&[1, 1, 1])), 9);
    assert_eq!(counts(&drawn), BTreeMap::from([(0, 3), (1, 3), (2, 3)]));
    assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
}

#[test]
fn weighted_round_robin_gives_exact_shares_and_spreads_them() {
    let drawn = draw(&entry(LbPolicy::RoundRobin, false, set(&[3, 1, 1])), 50);
    assert_eq!(counts(&drawn), BTreeMap::from([(0, 30), (1, 10), (2, 10)]));
    assert!(
        !drawn.windows(4).any(|four| four.iter().all(|host| *host == 0)),
        "{drawn:?}"
    );
}

#[test]
fn random_follows_weights() {
    let counts = counts(&draw(&entry(LbPolicy::Random, false, set(&[1, 3])), 4000));
    assert!((800..1200).contains(&counts[&0]), "{counts:?}");
}

#[test]
fn least_request_prefers_fewer_requests_for_the_weight() {
    let endpoints = set(&[1, 1, 1]);
    endpoints.hosts[0].stats.rq_active.store(9, Memory::Relaxed);
    endpoints.hosts[1].stats.rq_active.store(1, Memory::Relaxed);
    let counts = counts(&draw(
        &entry(LbPolicy::LeastRequest { choices: 12 }, false, endpoints),
        300,
    ));
    assert!(counts[&2] > 280, "{counts:?}");
    // Five requests on a host of weight 10 are less than one on a host of weight 1.
    let endpoints = set(&[10, 1]);
    endpoints.hosts[0].stats.rq_active.store(5, Memory::Relaxed);
    endpoints.hosts[1].stats.rq_active.store(1, Memory::Relaxed);
    let counts = self::counts(&draw(
        &entry(LbPolicy::LeastRequest { choices: 12 }, false, endpoints),
        300,
    ));
    assert!(counts[&0] > 280, "{counts:?}");
}

#[test]
fn priorities_take_their_load() {
    let mut endpoints = set(&[1, 1]);
    let one = |host| Priority {
        usable: [host].into(),
        equal_weights: true,
        total_weight: 1,
        ..Priority::default()
    };
    endpoints.priorities = [one(0), one(1)].into();
    endpoints.priority_load = [70, 30].into();
    let counts = counts(&draw(&entry(LbPolicy::RoundRobin, false, endpoints), 4000));
    assert!((1050..1350).contains(&counts[&1]), "{counts:?}");
}

#[test]
fn localities_take_their_weight_only_where_asked() {
    let localities = |mut endpoints: EndpointSet| {
        let locality = |host, effective_weight| Locality {
            name: Arc::from(""),
            effective_weight,
            usable: [host].into(),
            equal_weights: true,
            total_weight: 1,
        };
        endpoints.priorities[0].localities = [locality(0, 9), locality(1, 1)].into();
        endpoints.priorities[0].total_locality_weight = 10;
        endpoints
    };
    let weighted = counts(&draw(
        &entry(LbPolicy::RoundRobin, true, localities(set(&[1, 1]))),
        4000,
    ));
    assert!((300..500).contains(&weighted[&1]), "{weighted:?}");
    let flat = counts(&draw(
        &entry(LbPolicy::RoundRobin, false, localities(set(&[1, 1]))),
        4000,
    ));
    assert_eq!(flat[&1], 2000);
}

#[test]
fn hosts_that_were_tried_are_avoided_while_draws_last() {
    let entry = entry(LbPolicy::RoundRobin, false, set(&[1, 1]));
    let (balancers, random) = (Balancers::default(), Random::new());
    for _ in 0..10 {
        let host = balancers.pick(&entry, &random, &[HostId(0)], 5).unwrap();
        assert_eq!(host.id, HostId(1));
    }
    // Nobody else is there: the tried one is better than none.
    let both = [HostId(0), HostId(1)];
    assert!(balancers.pick(&entry, &random, &both, 5).is_some());
}

#[test]
fn a_cluster_without_usable_hosts_gives_none() {
    assert!(draw(&entry(LbPolicy::RoundRobin, false, set(&[])), 3).is_empty());
}

#[test]
fn new_endpoints_start_a_new_round() {
    let (balancers, random) = (Balancers::default(), Random::new());
    let mut entry = entry(LbPolicy::RoundRobin, false, set(&[1, 1]));
    balancers.pick(&entry, &random, &[], 0).unwrap();
    entry.endpoints = Arc::new(set(&[1, 1, 1]));
    let drawn: Vec<u64> = (0..6)
        .map(|_| balancers.pick(&entry, &random, &[], 0).unwrap().id.0)
        .collect();
    assert_eq!(counts(&drawn), BTreeMap::from([(0, 2), (1, 2), (2, 2)]));
}

#[test]
fn retries_are_limited() {
    let entry = entry(LbPolicy::RoundRobin, false, set(&[1]));
    let balancers = Balancers::default();
    // The default limit of three retries over two workers is two for each.
    let held: Vec<_> = (0..2).map(|_| balancers.begin_retry(&entry, 2).unwrap()).collect();
    assert!(balancers.begin_retry(&entry, 2).is_none());
    drop(held);
    assert!(balancers.begin_retry(&entry, 2).is_some());
}
