use std::net::SocketAddr;

use super::*;

/// Priorities of hosts, each with the health that it has.
fn set(levels: &[&[Health]], lb_settings: LbSettings) -> EndpointSet {
    let mut hosts = Vec::new();
    let levels = levels.iter().map(|level| {
        let first = hosts.len() as u32;
        hosts.extend(level.iter().map(|health| {
            Arc::new(Host {
                id: HostId(0),
                address: HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 80))),
                hostname: "".into(),
                weight: 1,
                health: *health,
                stats: Arc::default(),
                vitals: Arc::default(),
                check: None,
                socket: None,
            })
        }));
        let group = Group {
            name: "".into(),
            weight: None,
            members: (first..hosts.len() as u32).collect(),
        };
        Level { groups: [group].into() }
    });
    let levels = levels.collect();
    EndpointSet::new(hosts.into(), levels, lb_settings)
}

fn load(set: &EndpointSet) -> Vec<(u32, u32)> {
    let view = set.view();
    let priorities = view.priorities.iter();
    priorities.map(|one| (one.healthy_load, one.degraded_load)).collect()
}

const H: Health = Health::Healthy;
const D: Health = Health::Degraded;
const U: Health = Health::Unhealthy;
const L: Health = Health::Draining;

/// The example of Envoy's documentation, and the cases of its page on degraded endpoints.
#[test]
fn healthy_hosts_of_any_priority_come_before_degraded_ones() {
    let lb_settings = LbSettings::default();
    assert_eq!(load(&set(&[&[H, H, D, D]], lb_settings.clone())), [(70, 30)]);
    assert_eq!(load(&set(&[&[D, D], &[H, H]], lb_settings.clone())), [(0, 0), (100, 0)]);
    assert_eq!(load(&set(&[&[U, D], &[U, H]], lb_settings.clone())), [(0, 30), (70, 0)]);
    assert_eq!(load(&set(&[&[U, U], &[U, D]], lb_settings)), [(0, 0), (0, 100)]);
}

#[test]
fn a_priority_panics_only_while_all_together_are_too_few() {
    let panics = |set: &EndpointSet| -> Vec<bool> { set.view().priorities.iter().map(|one| one.panics).collect() };
    let one = set(&[&[H, U, U, U], &[H, H]], LbSettings::default());
    assert_eq!((panics(&one), load(&one)), (vec![false, false], vec![(35, 0), (65, 0)]));
    let both = set(&[&[H, U, U, U], &[U, U]], LbSettings::default());
    // By their sizes.
    assert_eq!((panics(&both), load(&both)), (vec![true, true], vec![(67, 0), (33, 0)]));
    let never = LbSettings {
        panic_threshold: 0,
        ..LbSettings::default()
    };
    let never = set(&[&[U, U]], never);
    assert_eq!((panics(&never), load(&never)), (vec![false], vec![(100, 0)]));
    assert!(never.view().priorities[0].healthy.all.indexes.is_empty());
}

#[test]
fn hosts_that_are_excluded_do_not_count_against_the_others() {
    let set = set(&[&[H, H, U, U]], LbSettings::default());
    for host in &set.hosts[2..] {
        host.vitals.set(Flag::PendingCheck);
    }
    let version = set.version();
    set.refresh();
    assert_eq!((load(&set), set.version()), (vec![(100, 0)], version + 1));
}

/// As in Envoy (`excludeBasedOnHealthFlag`): whoever leaves isn't ill, so nobody has to stand in for it.
#[test]
fn hosts_that_take_their_leave_are_no_reason_for_panic_or_another_priority() {
    let view = |levels: &[&[Health]]| {
        let set = set(levels, LbSettings::default());
        let panics: Vec<bool> = set.view().priorities.iter().map(|one| one.panics).collect();
        let used: Vec<u32> = set.view().priorities[0].healthy.all.indexes.to_vec();
        (load(&set), panics, used)
    };
    assert_eq!(view(&[&[H, L, L]]), (vec![(100, 0)], vec![false], vec![0]));
    assert_eq!(
        view(&[&[L, H], &[H]]),
        (vec![(100, 0), (0, 0)], vec![false, false], vec![1])
    );
    // Beside one that is ill, of which the count is of two.
    assert_eq!(view(&[&[L, H, U]]), (vec![(100, 0)], vec![false], vec![1]));
    // Where nobody stays, the next priority has it all.
    assert_eq!(view(&[&[L, L], &[H]]).0, [(0, 0), (100, 0)]);
}
