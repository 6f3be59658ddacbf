//! What a proxy's words point at.
//!
//! Proxies say what they refuse in their own ways: by the resource's name, by the name of a virtual host or route, or
//! by places (`virtual_hosts[3].routes[0].match` and `VirtualHosts[3]: … Routes[0]: …`). None of it is relied on: it
//! only says what to suspect first, and trial shows whether that is right.

use crate::quarantine::Part;
use edge_ir::{RouteTable, VirtualHost};
use std::{collections::BTreeSet, sync::Arc};

/// How much of a message is looked at.
const MAX_TEXT: usize = 4096;
/// More suspects than these are as good as none.
const MAX_SUSPECTS: usize = 16;

/// The parts of a table that a proxy's message points at.
pub(super) fn suspects(table: &RouteTable, detail: &str) -> BTreeSet<Part> {
    let text = &detail[..detail.floor_char_boundary(MAX_TEXT)];
    let lower = text.to_ascii_lowercase();
    let hosts = places(&lower, &["virtual_hosts[", "virtualhosts["]);
    let routes = places(&lower, &["routes["]);
    let mut found = BTreeSet::new();
    for (place, host) in table.hosts.iter().enumerate() {
        let here = hosts.contains(&place);
        let rules = found.len();
        add_rules(&mut found, host, |n, name| {
            (here && routes.contains(&n)) || names_route(text, name)
        });
        let mut names = host.domains.iter().map(|domain| &**domain).chain([&*host.name]);
        let about_host = (here && routes.is_empty()) || names.any(|name| mentions(text, name));
        if about_host && found.len() == rules {
            found.insert(Part::Host(Arc::clone(&host.name)));
        }
    }
    found
}

fn add_rules(found: &mut BTreeSet<Part>, host: &VirtualHost, is_meant: impl Fn(usize, &str) -> bool) {
    let meant = host.routes.iter().enumerate();
    let meant = meant.filter(|(n, route)| is_meant(*n, &route.name.to_string()));
    found.extend(meant.map(|(_, route)| Part::Rule(route.name.rule().into())));
}

/// Parts in groups in the order in which they are best tried: first all that nothing points at, and then, one by one,
/// the suspects. Without anything to go by they are halved.
pub(super) fn order(parts: &[Part], suspects: &BTreeSet<Part>) -> Vec<Vec<Part>> {
    let (suspects, rest): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| suspects.contains(part));
    if suspects.is_empty() || suspects.len() > MAX_SUSPECTS {
        return halves(parts);
    }
    let mut groups: Vec<Vec<Part>> = suspects.into_iter().map(|part| vec![part.clone()]).collect();
    if !rest.is_empty() {
        groups.insert(0, rest.into_iter().cloned().collect());
    }
    groups
}

fn halves(parts: &[Part]) -> Vec<Vec<Part>> {
    let (first, second) = parts.split_at(parts.len() / 2);
    let halves = [first, second].into_iter().filter(|half| !half.is_empty());
    halves.map(<[Part]>::to_vec).collect()
}

/// The numbers that follow these words.
fn places(text: &str, words: &[&str]) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for word in words {
        for (start, _) in text.match_indices(word) {
            let digits = text[start + word.len()..].split(']').next().unwrap_or_default();
            found.extend(digits.parse::<usize>());
        }
    }
    found
}

/// Whether a text contains a route's name; the lowering puts the host behind it.
fn names_route(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(start, _)| !text[start + name.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// Whether a text contains a name that no longer name goes around.
pub(super) fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || "_-~/".contains(character);
    !name.is_empty()
        && text.match_indices(name).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            let after = text[start + name.len()..].chars().next();
            !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
        })
}
