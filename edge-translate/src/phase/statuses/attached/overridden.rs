//! Who replaces a policy, and who merges into it, by what they are for.

use super::{
    super::target::{Target, has_section},
    held,
};
use crate::{
    api::Kind,
    engine::{index::RoutePolicy, reader::Reader},
    name::{Id, ListenerId, PolicyId},
    phase::{
        listeners::listener_set::{self, Admission},
        policies::policy::merges,
    },
    status::Condition,
};
use std::collections::BTreeSet;

/// Policies of a kind, in the words of messages.
pub(super) fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::BackendTrafficPolicy => "backendTrafficPolicies",
        Kind::SecurityPolicy => "securityPolicies",
        Kind::EdgeExtensionPolicy => "edgeExtensionPolicies",
        Kind::ClientTrafficPolicy => "ClientTrafficPolicies",
        _ => "policies",
    }
}

/// What a policy is replaced for, in no order and as often as that is found.
#[derive(Default)]
struct Scopes {
    gateway_listeners: Vec<String>,
    sets: Vec<String>,
    set_listeners: Vec<String>,
    routes: Vec<String>,
    rules: Vec<String>,
}

/// Names in their order, each once.
fn listed(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

/// The condition of a policy that others replace for a part of a target; none where nobody does.
pub(super) fn condition(reader: &Reader<'_>, policy: PolicyId, target: Target) -> Option<Condition> {
    if target.route().is_some() && target.section.is_some() {
        // There is nothing narrower.
        return None;
    }
    let scopes = scopes(reader, policy, target);
    if policy.kind == Kind::ClientTrafficPolicy {
        return of_clients(scopes);
    }
    let lists = [
        ("gateway listeners", scopes.gateway_listeners),
        ("listenersets", scopes.sets),
        ("listenerset listeners", scopes.set_listeners),
        ("routes", scopes.routes),
        ("route rules", scopes.rules),
    ];
    let written: Vec<String> = lists
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(scope, names)| format!("{scope}: [{}]", listed(names)))
        .collect();
    (!written.is_empty()).then(|| {
        let message = format!(
            "This policy is being overridden by other {} for these {}",
            plural(policy.kind),
            written.join(" and these ")
        );
        Condition::yes("Overridden", "Overridden", message)
    })
}

/// A policy for clients is for listeners alone.
fn of_clients(scopes: Scopes) -> Option<Condition> {
    let lists = [scopes.gateway_listeners, scopes.sets, scopes.set_listeners];
    let sections: Vec<String> = lists
        .into_iter()
        .map(listed)
        .filter(|names| !names.is_empty())
        .collect();
    (!sections.is_empty()).then(|| {
        let message = format!(
            "There are existing {} that are overriding these sections [{}]",
            plural(Kind::ClientTrafficPolicy),
            sections.join(" ")
        );
        Condition::yes("Overridden", "Overridden", message)
    })
}

fn scopes(reader: &Reader<'_>, policy: PolicyId, target: Target) -> Scopes {
    let mut scopes = Scopes::default();
    let whole = |kind: Kind, id: Id| Target {
        kind,
        id,
        section: None,
    };
    let parts = |of: Kind, id: Id| {
        let held = held(reader, whole(of, id));
        let others = held.parts(policy.kind).iter().filter(|(_, by)| *by != policy.id);
        // A policy for a part that isn't there replaces nothing.
        let there = others.filter(|(part, _)| has_section(reader, whole(of, id), *part));
        let names: Vec<String> = there.map(|(part, _)| reader.text(*part).to_string()).collect();
        names
    };
    let listeners = |of: Kind, id: Id| {
        let owner = name(reader, id);
        let full = |listener: String| [&*owner, "/", &*listener].concat();
        parts(of, id).into_iter().map(full).collect::<Vec<_>>()
    };
    // A policy for clients names the sections of its own target as the target does.
    let own = |of, id| match policy.kind {
        Kind::ClientTrafficPolicy => parts(of, id),
        _ => listeners(of, id),
    };
    match (target.kind, target.section) {
        (Kind::Gateway, None) => {
            scopes.gateway_listeners.extend(own(Kind::Gateway, target.id));
            for set in taken_sets(reader, target.id) {
                let holder = held(reader, whole(Kind::ListenerSet, set)).whole(policy.kind);
                if holder.is_some_and(|by| by != policy.id) {
                    scopes.sets.push(name(reader, set));
                }
                scopes.set_listeners.extend(listeners(Kind::ListenerSet, set));
            }
        }
        (Kind::ListenerSet, None) => scopes.set_listeners.extend(own(Kind::ListenerSet, target.id)),
        (_, Some(_)) => {}
        (of, None) => scopes.rules.extend(parts(of, target.id)),
    }
    let is_there = |below: &RoutePolicy| {
        let route = whole(below.route.kind.kind(), below.route.id);
        below.rule.is_none_or(|rule| has_section(reader, route, rule))
    };
    let mut others: Vec<RoutePolicy> = below(reader, policy.kind, target)
        .filter(|below| below.policy != policy)
        .filter(is_there)
        .collect();
    let merging: Vec<RoutePolicy> = others
        .iter()
        .filter(|below| merges(reader, below.policy))
        .copied()
        .collect();
    // One that merges into the policy of another listener stands in place of this one, as that does.
    let heirs = heirs(reader, policy, &merging);
    others.retain(|below| !heirs.contains(&below.listener) || !merges(reader, below.policy));
    for below in others {
        let route = name(reader, below.route.id);
        match below.rule {
            None => scopes.routes.push(route),
            Some(rule) => scopes.rules.push([&*route, "/", &*reader.text(rule)].concat()),
        }
    }
    scopes
}

/// The ListenerSets that add to a Gateway and may.
fn taken_sets(reader: &Reader<'_>, gateway: Id) -> Vec<Id> {
    let sets = reader
        .gateway_object(gateway)
        .map(|object| listener_set::sets_of(reader, gateway, object));
    let taken = sets
        .into_iter()
        .flatten()
        .filter(|(.., admission)| *admission == Admission::Allowed);
    taken.map(|(set, ..)| set).collect()
}

/// Routes below a target that merge their policy into that of the target.
pub(super) fn merging(reader: &Reader<'_>, policy: PolicyId, target: Target) -> Vec<String> {
    let below = below(reader, policy.kind, target);
    let merging: Vec<RoutePolicy> = below.filter(|below| merges(reader, below.policy)).collect();
    let heirs = heirs(reader, policy, &merging);
    let routes = merging.iter().filter(|below| heirs.contains(&below.listener));
    let names: BTreeSet<String> = routes.map(|below| name(reader, below.route.id)).collect();
    names.into_iter().collect()
}

/// The listeners of a Gateway whose policy this one is, by policies on routes below it; none where there are none of
/// these.
fn heirs(reader: &Reader<'_>, policy: PolicyId, below: &[RoutePolicy]) -> BTreeSet<ListenerId> {
    let views = below
        .first()
        .and_then(|one| reader.listener_views(one.listener.gateway));
    let views = views.iter().flat_map(|views| &views.listeners);
    let heirs = views.filter(|view| view.inherited.policy(policy.kind) == Some(policy.id));
    heirs.map(|view| view.id).collect()
}

/// Policies of a kind on routes below a Gateway, a ListenerSet or one of their listeners.
fn below<'r>(reader: &'r Reader<'_>, kind: Kind, target: Target) -> impl Iterator<Item = RoutePolicy> + use<'r> {
    let (gateway, set) = match target.kind {
        Kind::Gateway => (Some(target.id), None),
        Kind::ListenerSet => {
            let gateway = reader
                .listener_set(target.id)
                .and_then(|set| listener_set::parent(reader, set));
            (gateway, Some(target.id))
        }
        _ => (None, None),
    };
    let section = target.section;
    let policies: Vec<RoutePolicy> = gateway
        .into_iter()
        .flat_map(|gateway| reader.route_policies(gateway))
        .filter(|below| below.policy.kind == kind)
        .collect();
    policies.into_iter().filter(move |policy| {
        // A Gateway's policy is for its ListenerSets too, that of its listener is not.
        let in_set = policy.listener.set == set || (set.is_none() && section.is_none());
        in_set && section.is_none_or(|section| policy.listener.name == section)
    })
}

fn name(reader: &Reader<'_>, id: Id) -> String {
    [&*reader.text(id.namespace), "/", &*reader.text(id.name)].concat()
}
