//! Conflicts between the listeners of a fleet (Gateway API: `Gateway.spec.listeners`).
//!
//! Only listeners that are valid by themselves, certificates included, take part. HTTPS and TLS are one protocol group;
//! UDP is apart from all others. Listeners of one object that disagree all lose; nobody is preferred for standing
//! first. Gateways come before ListenerSets, and of each the older stays (GEP-1713).

use super::fleet::Candidate;
use crate::api::Protocol;
use std::collections::{BTreeMap, BTreeSet};

/// Protocols that can share a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Http,
    Tls,
    Tcp,
    Udp,
}

fn group(protocol: &Protocol) -> Option<Group> {
    match protocol {
        Protocol::Http => Some(Group::Http),
        Protocol::Https | Protocol::Tls => Some(Group::Tls),
        Protocol::Tcp => Some(Group::Tcp),
        Protocol::Udp => Some(Group::Udp),
        Protocol::Other(_) => None,
    }
}

/// Finds conflicts and writes them on the losers.
pub(crate) fn check(candidates: &mut [Candidate]) {
    let mut ports: BTreeMap<u16, Vec<(usize, Group)>> = BTreeMap::new();
    for (i, candidate) in candidates.iter().enumerate() {
        if let Some(group) = group(&candidate.spec().protocol).filter(|_| candidate.is_sound()) {
            ports.entry(candidate.spec().port).or_default().push((i, group));
        }
    }
    for members in ports.values() {
        check_port(candidates, members);
    }
}

fn check_port(candidates: &mut [Candidate], members: &[(usize, Group)]) {
    let of = |wanted: Group| {
        members
            .iter()
            .filter(move |(_, g)| *g == wanted)
            .map(|(i, _)| *i)
            .collect::<Vec<_>>()
    };
    let stream: Vec<(usize, Group)> = members.iter().copied().filter(|(_, g)| *g != Group::Udp).collect();
    let groups: BTreeSet<Group> = stream.iter().map(|(_, g)| *g).collect();
    if groups.len() > 1 {
        protocol_conflict(candidates, &stream);
    }
    let still_sound = |candidates: &[Candidate], list: Vec<usize>| -> Vec<usize> {
        list.into_iter().filter(|i| candidates[*i].is_sound()).collect()
    };
    let hosts = still_sound(candidates, [of(Group::Http), of(Group::Tls)].concat());
    hostname_conflicts(candidates, &hosts);
    for (wanted, name) in [(Group::Tcp, "TCP"), (Group::Udp, "UDP")] {
        for i in still_sound(candidates, of(wanted)).into_iter().skip(1) {
            let message = format!("Only one {name} listener is allowed in a given port");
            candidates[i].conflict("ProtocolConflict", message);
        }
    }
}

/// Listeners of different protocol groups on one port. The oldest Gateway that agrees with itself keeps the port, and
/// whoever comes after it may share it, listener by listener. Where only ListenerSets want it, the oldest that agrees
/// with itself keeps it, and one that doesn't gets none of it.
fn protocol_conflict(candidates: &mut [Candidate], stream: &[(usize, Group)]) {
    let holder = |i: usize| (candidates[i].id.gateway, candidates[i].id.set);
    let agrees = |i: usize| {
        let mut groups = stream
            .iter()
            .filter(|(other, _)| holder(*other) == holder(i))
            .map(|(_, g)| g);
        let first = groups.next();
        groups.all(|g| Some(g) == first)
    };
    let is_gateway = |i: usize| candidates[i].id.set.is_none();
    let all = || stream.iter().enumerate();
    let of_gateways = || all().filter(|(_, (i, _))| is_gateway(*i));
    let has_gateway = of_gateways().next().is_some();
    // The first that keeps the port, and its group.
    let winner = match has_gateway {
        true => of_gateways().find(|(_, (i, _))| agrees(*i)),
        false => all().find(|(_, (i, _))| agrees(*i)),
    };
    let keeps = |at: usize, i: usize, group: Group| {
        let may = |first: usize| match has_gateway {
            true => at >= first || !is_gateway(i),
            false => agrees(i),
        };
        winner.is_some_and(|(first, (_, kept))| *kept == group && may(first))
    };
    let losers: Vec<usize> = stream
        .iter()
        .enumerate()
        .filter(|(at, (i, group))| !keeps(*at, *i, *group))
        .map(|(_, (i, _))| *i)
        .collect();
    let message = format!(
        "All listeners for a given port must use a compatible protocol, conflicting listeners: {}",
        names(candidates, stream.iter().map(|(i, _)| *i))
    );
    for i in losers {
        candidates[i].conflict("ProtocolConflict", message.clone());
    }
}

/// Listeners with the same hostname on one port.
fn hostname_conflicts(candidates: &mut [Candidate], hosts: &[usize]) {
    let mut by_name: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for i in hosts {
        by_name.entry(candidates[*i].hostname.clone()).or_default().push(*i);
    }
    for same in by_name.values().filter(|same| same.len() > 1) {
        let first = candidates[same[0]].id;
        let is_of_first =
            |i: &&usize| (candidates[**i].id.gateway, candidates[**i].id.set) == (first.gateway, first.set);
        let of_first = same.iter().filter(is_of_first).count();
        let message = format!(
            "All listeners for a given port must use a unique hostname, conflicting listeners: {}",
            names(candidates, same.iter().copied())
        );
        let winners = if of_first == 1 { 1 } else { 0 };
        for i in &same[winners..] {
            let text = match candidates[*i].id.gateway == first.gateway {
                true => message.clone(),
                false => "Port, protocol and hostname tuple must be unique for every listener".into(),
            };
            candidates[*i].conflict("HostnameConflict", text);
        }
    }
}

fn names(candidates: &[Candidate], which: impl Iterator<Item = usize>) -> String {
    let name = |i: usize| {
        let metadata = candidates[i].holder.metadata();
        format!("{}/{}/{}", metadata.namespace, metadata.name, candidates[i].spec().name)
    };
    let mut names: Vec<String> = which.map(name).collect();
    names.sort_unstable();
    names.join(", ")
}
