//! Zone aware routing, with the shares that Envoy computes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::*;

use crate::config::cluster::{ClusterEntry, LbPolicy};
use crate::config::endpoint::{Host, HostAddress, HostId, LbSettings, Level};
use crate::upstream::balance::tests::entry;
use crate::upstream::balance::{Balancers, Choice};
use crate::vitals::Flag;

/// Localities with so many hosts each, and so many of them unhealthy.
fn set(localities: &[(&str, usize, usize)]) -> Arc<EndpointSet> {
    let mut hosts = Vec::new();
    let groups = localities.iter().map(|(name, count, unhealthy)| {
        let members = (0..*count).map(|number| {
            let id = hosts.len() as u32;
            let host = Host {
                id: HostId(u64::from(id)),
                address: HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 8000 + id as u16))),
                hostname: Arc::from(""),
                weight: 1,
                health: Health::Healthy,
                stats: Arc::default(),
                vitals: Arc::default(),
                check: None,
                socket: None,
            };
            if number < *unhealthy {
                host.vitals.set(Flag::FailedCheck);
            }
            hosts.push(Arc::new(host));
            id
        });
        Group {
            name: Arc::from(*name),
            weight: Some(1),
            members: members.collect(),
        }
    });
    let level = Level {
        groups: groups.collect(),
    };
    let lb_settings = LbSettings {
        by_zone: true,
        ..LbSettings::default()
    };
    Arc::new(EndpointSet::new(hosts.into(), [level].into(), lb_settings))
}

/// Hosts and proxies by locality, of which `a` is the own one.
fn planned(awareness: ZoneAwareness, hosts: &[(&str, usize, usize)], proxies: &[(&str, usize, usize)]) -> Plan {
    let (hosts, proxies) = (set(hosts), set(proxies));
    let view = hosts.view();
    plan(&awareness, &view.priorities[0].zones, &Around::of(&proxies, "a", 50))
}

const ONE: ZoneAwareness = ZoneAwareness {
    min_cluster_size: 1,
    percent: 100,
    fails_in_panic: false,
    force: None,
};

#[test]
fn the_own_locality_takes_all_that_its_share_allows() {
    let even = [("a", 1, 0), ("b", 1, 0)];
    assert_eq!(planned(ONE, &even, &even), Plan::To(0));
    assert_eq!(planned(ONE, &[("a", 3, 0), ("b", 1, 0)], &even), Plan::To(0));
    // Three quarters of the proxies, half of the hosts: two thirds stay.
    let kept = Plan::Shared(Some((0, 6666)), [0, 2500].into());
    assert_eq!(planned(ONE, &even, &[("a", 3, 0), ("b", 1, 0)]), kept);
    // The example in Envoy's source.
    let (hosts, proxies) = (
        [("a", 1, 0), ("b", 2, 0), ("c", 1, 0)],
        [("a", 2, 0), ("b", 2, 0), ("c", 1, 0)],
    );
    let kept = Plan::Shared(Some((0, 6250)), [0, 1000, 1500].into());
    assert_eq!(planned(ONE, &hosts, &proxies), kept);
    // Nobody in the own zone.
    let away = planned(ONE, &[("b", 1, 0), ("c", 1, 0)], &[("a", 1, 0), ("b", 1, 0)]);
    assert_eq!(away, Plan::Shared(None, [0, 5000].into()));
}

#[test]
fn a_locality_that_is_told_to_keeps_all_while_it_has_enough_hosts() {
    let forced = |least| ZoneAwareness {
        force: Some(least),
        ..ONE
    };
    let hosts = [("a", 2, 1), ("b", 3, 0)];
    let alone = [("a", 4, 0)];
    assert_eq!(
        planned(ONE, &hosts, &alone),
        Plan::Anywhere,
        "no other zone has proxies"
    );
    assert_eq!(planned(forced(1), &hosts, &alone), Plan::To(0));
    let kept = Plan::Shared(Some((0, 2500)), [0, 7500].into());
    assert_eq!(planned(forced(2), &hosts, &alone), kept, "one of two is unhealthy");
}

#[test]
fn localities_do_not_matter_where_too_little_is_known() {
    let even = [("a", 2, 0), ("b", 2, 0)];
    assert_eq!(planned(ZoneAwareness::default(), &even, &even), Plan::Anywhere, "of 6");
    assert_eq!(planned(ONE, &[("a", 2, 0)], &even), Plan::Anywhere, "one zone of hosts");
    assert_eq!(
        planned(ONE, &even, &[("b", 2, 0), ("c", 1, 0)]),
        Plan::Anywhere,
        "not here"
    );
    assert_eq!(planned(ONE, &even, &[]), Plan::Anywhere, "no proxies");
    let ill = [("a", 2, 2), ("b", 2, 1)];
    assert_eq!(planned(ONE, &even, &ill), Plan::Anywhere, "proxies panic");
    let strict = ZoneAwareness {
        fails_in_panic: true,
        ..ONE
    };
    assert_eq!(planned(strict, &even, &ill), Plan::Nowhere);
}

fn zoned(awareness: ZoneAwareness, hosts: &[(&str, usize, usize)], local: &Arc<LocalProxies>) -> ClusterEntry {
    let plain = entry(LbPolicy::RoundRobin, false, EndpointSet::default());
    let mut cluster = Arc::into_inner(plain.cluster).unwrap();
    cluster.balancing.zones = Some(awareness);
    ClusterEntry {
        cluster: Arc::new(cluster),
        endpoints: set(hosts),
        proxies: Some(Arc::clone(local)),
        ..plain
    }
}

#[test]
fn requests_follow_hosts_and_proxies() {
    let local = Arc::new(LocalProxies::new("fleet", "a"));
    let entry = zoned(ONE, &[("a", 2, 0), ("b", 2, 0)], &local);
    let (balancers, random) = (Balancers::default(), Random::new());
    let near = || {
        let mut counts = BTreeMap::new();
        for _ in 0..4000 {
            let host = balancers.pick(&entry, &random, Choice::default()).unwrap();
            *counts.entry(host.id.0 < 2).or_insert(0) += 1;
        }
        counts.get(&true).copied().unwrap_or(0)
    };
    assert!((1800..=2200).contains(&near()), "nobody knows of proxies");
    local.replace(set(&[("a", 1, 0), ("b", 1, 0)]));
    assert_eq!(near(), 4000);
    local.replace(set(&[("a", 3, 0), ("b", 1, 0)]));
    assert!((2500..=2830).contains(&near()), "two thirds");
    entry.endpoints.hosts[0].vitals.set(Flag::FailedCheck);
    entry.endpoints.refresh();
    assert!((1600..=1960).contains(&near()), "33 of 75 per cent");
    entry.endpoints.hosts[1].vitals.set(Flag::FailedCheck);
    entry.endpoints.refresh();
    assert_eq!(near(), 0, "nobody is left here");
}

#[test]
fn a_part_of_the_requests_can_go_by_localities() {
    let local = Arc::new(LocalProxies::new("fleet", "a"));
    local.replace(set(&[("a", 1, 0)]));
    let half = ZoneAwareness {
        percent: 50,
        force: Some(1),
        ..ONE
    };
    let entry = zoned(half, &[("a", 1, 0), ("b", 1, 0)], &local);
    let (balancers, random) = (Balancers::default(), Random::new());
    let near = (0..4000).filter(|_| {
        let host = balancers.pick(&entry, &random, Choice::default());
        host.unwrap().id.0 == 0
    });
    let near = near.count();
    assert!((2800..=3200).contains(&near), "{near}");
}
