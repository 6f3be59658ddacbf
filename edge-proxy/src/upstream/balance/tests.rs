use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::*;

use crate::config::ClusterId;
use crate::config::cluster::{Balancing, Cluster};
use crate::config::endpoint::hashing::{Hashing, Shape};
use crate::config::endpoint::{Group, Health, HostAddress, LbSettings, Level};
use crate::config::load::LoadWeights;
use crate::stats::ClusterStats;
use crate::vitals::Flag;

fn hosts(weights: &[u32]) -> Box<[Arc<Host>]> {
    let host = |(id, weight): (u64, &u32)| {
        Arc::new(Host {
            id: HostId(id),
            address: HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 8000 + id as u16))),
            hostname: Arc::from(""),
            weight: *weight,
            health: Health::Healthy,
            stats: Arc::default(),
            vitals: Arc::default(),
            check: None,
            socket: None,
        })
    };
    (0..).zip(weights).map(host).collect()
}

/// Hosts of these weights in one locality of one priority.
fn set(weights: &[u32]) -> EndpointSet {
    let everybody = (0..weights.len() as u32).collect();
    levels(weights, vec![vec![(None, everybody)]], LbSettings::default())
}

/// Hosts in priorities, and in them in localities with weights.
fn levels(weights: &[u32], levels: Vec<Vec<(Option<u32>, Vec<u32>)>>, lb_settings: LbSettings) -> EndpointSet {
    let group = |(weight, members): (Option<u32>, Vec<u32>)| Group {
        name: Arc::from(""),
        weight,
        members: members.into(),
    };
    let level = |groups: Vec<_>| Level {
        groups: groups.into_iter().map(group).collect(),
    };
    EndpointSet::new(hosts(weights), levels.into_iter().map(level).collect(), lb_settings)
}

pub(super) fn entry(policy: LbPolicy, locality_weighted: bool, endpoints: EndpointSet) -> ClusterEntry {
    let cluster = Cluster {
        balancing: Balancing {
            policy,
            locality_weighted,
            zones: None,
            slow_start: None,
        },
        ..Cluster::plain("c", ClusterStats::new("", "", 1))
    };
    ClusterEntry {
        id: ClusterId(3),
        cluster: Arc::new(cluster),
        endpoints: Arc::new(endpoints),
        proxies: None,
    }
}

fn draw(entry: &ClusterEntry, n: usize) -> Vec<u64> {
    let (balancers, random) = (Balancers::default(), Random::new());
    (0..n)
        .filter_map(|_| balancers.pick(entry, &random, Choice::default()))
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
fn weighted_turns_begin_anywhere() {
    // Else a change of endpoints now and then would keep all from the light one.
    let entry = entry(LbPolicy::RoundRobin, false, set(&[1, 9]));
    let first: Vec<u64> = (0..1000).flat_map(|_| draw(&entry, 1)).collect();
    assert!((50..150).contains(&counts(&first)[&0]), "{:?}", counts(&first));
}

#[test]
fn random_ignores_weights() {
    let counts = counts(&draw(&entry(LbPolicy::Random, false, set(&[1, 9])), 4000));
    assert!((1800..2200).contains(&counts[&0]), "{counts:?}");
}

fn least_request(choices: u32, bias: f64) -> LbPolicy {
    LbPolicy::LeastRequest { choices, bias }
}

fn busy(weights: &[u32], active: &[i64]) -> EndpointSet {
    let endpoints = set(weights);
    for (host, active) in endpoints.hosts.iter().zip(active) {
        host.stats.rq_active.store(*active, Memory::Relaxed);
    }
    endpoints
}

#[test]
fn least_request_compares_hosts_of_equal_weight() {
    for weight in [1, 7] {
        for choices in [12, ALL] {
            let endpoints = busy(&[weight; 3], &[9, 1, 0]);
            let counts = counts(&draw(&entry(least_request(choices, 1.0), false, endpoints), 300));
            assert!(counts[&2] > 280, "{counts:?}");
        }
    }
}

#[test]
fn least_request_gives_hosts_of_unequal_weight_turns_by_weight() {
    // Whatever is compared where weights are equal.
    for choices in [2, 12, ALL] {
        for weights in [[1, 99, 0], [90, 5, 5], [1, 4, 5]] {
            let endpoints = set(&weights[..2 + usize::from(weights[2] > 0)]);
            let counts = counts(&draw(&entry(least_request(choices, 1.0), false, endpoints), 1000));
            for (host, weight) in (0..).zip(weights).filter(|(_, weight)| *weight > 0) {
                let share = 1000 * weight as usize / weights.iter().sum::<u32>() as usize;
                assert!(counts[&host].abs_diff(share) <= 1, "{weights:?}: {counts:?}");
            }
        }
    }
}

#[test]
fn requests_in_flight_take_off_a_weight_as_the_bias_says() {
    // Shares of 1000 for the first host.
    for (bias, share) in [(0.0, 800), (0.5, 667), (1.0, 500), (2.0, 200), (f64::MAX, 0)] {
        let endpoints = busy(&[4, 1], &[3, 0]);
        let counts = counts(&draw(&entry(least_request(2, bias), false, endpoints), 1000));
        let found = counts.get(&0).copied().unwrap_or_default();
        assert!(found.abs_diff(share) <= 2, "{bias}: {counts:?}");
    }
}

/// Each request holds its host until some more have come; then loads follow weights.
#[test]
fn loads_follow_weights_while_requests_last() {
    let weights = [8, 3, 1];
    let entry = entry(least_request(2, 1.0), false, set(&weights));
    let (balancers, random) = (Balancers::default(), Random::new());
    let mut held = std::collections::VecDeque::new();
    let mut sums = [0; 3];
    for round in 0..6000 {
        let host = balancers.pick(&entry, &random, Choice::default()).unwrap();
        host.stats.rq_active.fetch_add(1, Memory::Relaxed);
        held.push_back(host);
        if held.len() > 48 {
            let done = held.pop_front().unwrap();
            done.stats.rq_active.fetch_sub(1, Memory::Relaxed);
        }
        if round >= 1000 {
            for (sum, host) in sums.iter_mut().zip(&entry.endpoints.hosts) {
                *sum += host.stats.rq_active.load(Memory::Relaxed);
            }
        }
    }
    // A heavier host has more of them, but less than its share: its load counts against it.
    assert!(sums[0] > sums[1] && sums[1] > sums[2], "{sums:?}");
    assert!(sums[0] < sums[2] * 8, "{sums:?}");
}

#[test]
fn priorities_take_their_load() {
    let endpoints = levels(
        &[1, 1, 1],
        vec![vec![(None, vec![0, 1])], vec![(None, vec![2])]],
        LbSettings::default(),
    );
    endpoints.hosts[1].vitals.set(Flag::FailedCheck);
    endpoints.refresh();
    let counts = counts(&draw(&entry(LbPolicy::RoundRobin, false, endpoints), 4000));
    assert!((1050..1350).contains(&counts[&2]), "{counts:?}");
    assert!(!counts.contains_key(&1), "{counts:?}");
}

#[test]
fn localities_take_their_weight_only_where_asked() {
    let localities = || {
        levels(
            &[1, 1],
            vec![vec![(Some(9), vec![0]), (Some(1), vec![1])]],
            LbSettings::default(),
        )
    };
    let weighted = counts(&draw(&entry(LbPolicy::RoundRobin, true, localities()), 4000));
    assert!((300..500).contains(&weighted[&1]), "{weighted:?}");
    let flat = counts(&draw(&entry(LbPolicy::RoundRobin, false, localities()), 4000));
    assert_eq!(flat[&1], 2000);
}

#[test]
fn a_host_that_falls_ill_is_drawn_no_more_until_it_is_well() {
    let entry = entry(LbPolicy::RoundRobin, false, set(&[1, 1, 1]));
    let (balancers, random) = (Balancers::default(), Random::new());
    let drawn = || -> BTreeMap<u64, usize> {
        let ids = (0..6).map(|_| balancers.pick(&entry, &random, Choice::default()).unwrap().id.0);
        counts(&ids.collect::<Vec<_>>())
    };
    assert_eq!(drawn(), BTreeMap::from([(0, 2), (1, 2), (2, 2)]));
    entry.endpoints.hosts[1].vitals.set(Flag::Ejected);
    entry.endpoints.refresh();
    assert_eq!(drawn(), BTreeMap::from([(0, 3), (2, 3)]));
    entry.endpoints.hosts[1].vitals.clear(Flag::Ejected);
    entry.endpoints.refresh();
    assert_eq!(drawn(), BTreeMap::from([(0, 2), (1, 2), (2, 2)]));
    // Two of three are too few: all are used.
    for host in &entry.endpoints.hosts[..2] {
        host.vitals.set(Flag::FailedCheck);
    }
    entry.endpoints.refresh();
    assert_eq!(drawn(), BTreeMap::from([(0, 2), (1, 2), (2, 2)]));
}

#[test]
fn a_hash_finds_its_host_again_and_another_one_for_a_retry() {
    for shape in [
        Shape::Maglev { size: 65_537 },
        Shape::Ring {
            min: 1024,
            max: 8 << 20,
        },
    ] {
        let hashing = Hashing {
            shape,
            by_hostname: false,
            locality_weighted: false,
        };
        let lb_settings = LbSettings {
            hashing: Some(hashing),
            ..LbSettings::default()
        };
        let entry = entry(
            LbPolicy::Hash,
            false,
            levels(&[1; 3], vec![vec![(None, vec![0, 1, 2])]], lb_settings),
        );
        let (one, other) = (Balancers::default(), Balancers::default());
        let random = Random::new();
        let mut found = BTreeMap::new();
        for hash in (0..300).map(|n: u64| crate::config::endpoint::hashing::hash(&n.to_be_bytes())) {
            let choice = Choice {
                hash: Some(hash),
                draws: 9,
                ..Choice::default()
            };
            let host = one.pick(&entry, &random, choice).unwrap();
            assert_eq!(
                host.id,
                other.pick(&entry, &random, choice).unwrap().id,
                "all workers agree"
            );
            *found.entry(host.id.0).or_insert(0) += 1;
            let again = Choice {
                avoid: &[host.id],
                ..choice
            };
            assert_ne!(host.id, one.pick(&entry, &random, again).unwrap().id);
        }
        assert!(
            found.len() == 3 && found.values().all(|n| *n > 60),
            "{shape:?}: {found:?}"
        );
    }
}

#[test]
fn a_new_host_gets_its_weight_slowly() {
    let slow = SlowStart {
        window: Duration::from_secs(60),
        aggression: 1.0,
        least: 0.1,
    };
    assert_eq!(
        [0, 30, 60].map(|age| slow.factor(Duration::from_secs(age))),
        [0.1, 0.5, 1.0]
    );
    let endpoints = set(&[1, 1]);
    let now = Instant::now() + Duration::from_secs(60);
    endpoints.hosts[1].vitals.begin(now);
    let (view, random) = (endpoints.view(), Random::new());
    let hosts = &view.priorities[0].healthy.all;
    let weights = Weights {
        endpoints: &endpoints,
        slow: Some((slow, now)),
        reported: None,
        bias: 1.0,
    };
    let mut turns = SmallVec::new();
    let id = (0, Fitness::Healthy, None);
    let drawn: Vec<u64> = (0..1100)
        .map(|_| u64::from(turn(&mut turns, id, hosts, weights, &random).unwrap()))
        .collect();
    assert_eq!(counts(&drawn), BTreeMap::from([(0, 1000), (1, 100)]));
    // With nine requests in flight the old host is as good as the new one.
    endpoints.hosts[0].stats.rq_active.store(9, Memory::Relaxed);
    let drawn: Vec<u64> = (0..1100)
        .map(|_| u64::from(turn(&mut turns, id, hosts, weights, &random).unwrap()))
        .collect();
    assert!(counts(&drawn)[&1].abs_diff(550) < 10, "{:?}", counts(&drawn));
    assert!(slow_until(&endpoints, slow).is_some());
}

#[test]
fn priorities_that_are_left_out_get_nothing_while_others_can_help() {
    use crate::config::endpoint::view::Passed;
    let entry = entry(
        LbPolicy::RoundRobin,
        false,
        levels(
            &[1; 3],
            vec![vec![(None, vec![0])], vec![(None, vec![1])], vec![(None, vec![2])]],
            LbSettings::default(),
        ),
    );
    let (balancers, random) = (Balancers::default(), Random::new());
    let drawn = |past: &[usize]| {
        let mut passed = Passed::default();
        past.iter().for_each(|priority| passed.add(*priority));
        let choice = Choice {
            past: passed,
            ..Choice::default()
        };
        let host = balancers.pick(&entry, &random, choice).unwrap();
        (
            entry.endpoints.priority_of(host.id),
            entry.endpoints.view().can_pass(passed),
        )
    };
    assert_eq!(drawn(&[]), (Some(0), true));
    assert_eq!(drawn(&[0]), (Some(1), true));
    assert_eq!(drawn(&[0, 1]), (Some(2), true));
    assert_eq!(drawn(&[0, 1, 2]), (Some(0), false));
}

fn avoiding(hosts: &[HostId]) -> Choice<'_> {
    Choice {
        hash: None,
        avoid: hosts,
        draws: 5,
        ..Choice::default()
    }
}

#[test]
fn hosts_that_were_tried_are_avoided_while_draws_last() {
    let entry = entry(LbPolicy::RoundRobin, false, set(&[1, 1]));
    let (balancers, random) = (Balancers::default(), Random::new());
    for _ in 0..10 {
        let host = balancers.pick(&entry, &random, avoiding(&[HostId(0)])).unwrap();
        assert_eq!(host.id, HostId(1));
    }
    // Nobody else is there: the tried one is better than none.
    let both = [HostId(0), HostId(1)];
    assert!(balancers.pick(&entry, &random, avoiding(&both)).is_some());
}

#[test]
fn a_cluster_without_usable_hosts_gives_none() {
    assert!(draw(&entry(LbPolicy::RoundRobin, false, set(&[])), 3).is_empty());
}

#[test]
fn new_endpoints_start_a_new_round() {
    let (balancers, random) = (Balancers::default(), Random::new());
    let mut entry = entry(LbPolicy::RoundRobin, false, set(&[1, 1]));
    balancers.pick(&entry, &random, Choice::default()).unwrap();
    entry.endpoints = Arc::new(set(&[1, 1, 1]));
    let drawn: Vec<u64> = (0..6)
        .map(|_| balancers.pick(&entry, &random, Choice::default()).unwrap().id.0)
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

#[test]
fn hosts_get_their_share_by_the_load_that_they_report() {
    let mut entry = entry(LbPolicy::Reported, false, set(&[1, 1, 5]));
    let cluster = Arc::get_mut(&mut entry.cluster).unwrap();
    cluster.loads = Some(Box::new(LoadWeights {
        blackout: Duration::ZERO,
        expiration: Duration::from_secs(3600),
        update: Duration::ZERO,
        error_penalty: 0.0,
        metrics: Box::default(),
    }));
    let (balancers, random) = (Balancers::default(), Random::new());
    let draw = |n: usize| {
        let drawn = (0..n).filter_map(|_| balancers.pick(&entry, &random, Choice::default()));
        counts(&drawn.map(|host| host.id.0).collect::<Vec<_>>())
    };
    assert_eq!(
        draw(30),
        BTreeMap::from([(0, 10), (1, 10), (2, 10)]),
        "nobody has reported"
    );
    let report = |host: usize, weight| entry.endpoints.hosts[host].vitals.reported.tell(weight, Instant::now());
    report(0, 300);
    report(1, 100);
    // Who hasn't reported is taken for the median, 200.
    let drawn = draw(600);
    for (host, share) in [(0, 300), (1, 100), (2, 200)] {
        assert!(drawn[&host].abs_diff(share) <= 2, "{drawn:?}");
    }
}
