//! Every golden policy as a chain of edits: it comes, is edited without another meaning, breaks, heals and goes; so do
//! Backends, EdgeProxies and filters of routes. What it isn't about keeps its allocation at each step, and at the end
//! the bytes are those of the start.

use super::case::{Case, Piece, Places, Running, differences, is_about, is_one_of};
use edge_ir::{Fleet, FleetKey};
use edge_xds::{
    lower::Lowering,
    snapshot::{ResourceType, diff},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Kinds that say something of others.
const POLICIES: &[&str] = &[
    "BackendTrafficPolicy",
    "BackendTLSPolicy",
    "ClientTrafficPolicy",
    "EdgeExtensionPolicy",
    "EdgePatchPolicy",
    "SecurityPolicy",
];

/// Kinds that others name, instead of naming them.
const NAMED: &[&str] = &["Backend", "EdgeProxy", "HTTPRouteFilter"];

/// Units that make what proxies are sent.
const MAKERS: &[&str] = &["Bound", "Cluster", "Endpoints", "Host", "Socket"];

#[test]
fn a_policy_that_comes_and_goes_leaves_nothing_and_touches_what_it_is_about() {
    every(POLICIES);
}

#[test]
fn an_object_that_is_named_comes_and_goes_in_the_same_way() {
    every(NAMED);
}

fn every(kinds: &[&str]) {
    let mut wrong = Vec::new();
    for case in Case::all() {
        for policy in case.of_kinds(kinds) {
            let told = chain(&case, policy);
            wrong.extend(
                told.into_iter()
                    .map(|what| format!("{}: {}: {what}", case.name, policy["metadata"]["name"])),
            );
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is wrong about a policy's coming and going.
fn chain(case: &Case, policy: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut running = Running::new(case);
    running.remove(policy);
    let (fleets, start) = (running.fleets.clone(), running.places());
    let mut lowerings: BTreeMap<FleetKey, Lowering> = BTreeMap::new();
    let bytes = lowered(&mut lowerings, &fleets);
    let mut noted = policy.clone();
    noted["metadata"]["annotations"]["example.com/note"] = json!("edited");
    let mut broken = policy.clone();
    broken["spec"]["unheardOf"] = json!(true);
    for (step, value) in [
        ("added", policy),
        ("edited", &noted),
        ("broken", &broken),
        ("healed", policy),
    ] {
        let (fleets, places) = (running.fleets.clone(), running.places());
        running.put(value);
        let mut say = |what: String| wrong.push(format!("{step}: {what}"));
        // With an answer from outside there were two translations, and what went with the first came back.
        if running.rounds == 1 {
            kept(&fleets, &running.fleets).into_iter().for_each(&mut say);
        }
        strangers(case, policy, &places, &running.places())
            .into_iter()
            .for_each(&mut say);
        if step == "edited" && !differences(&places, &running.places()).is_empty() {
            say("changed something for a note".to_owned());
        }
        let made: Vec<_> = running.runs.iter().filter(|(unit, _)| MAKERS.contains(unit)).collect();
        // What is named is read by who names it, note and all.
        if step == "edited" && !made.is_empty() && is_one_of(policy, POLICIES) {
            say(format!("ran {made:?} for a note"));
        }
        lowered(&mut lowerings, &running.fleets);
    }
    running.remove(policy);
    if running.fleets != fleets {
        wrong.push(format!(
            "left something behind: {:?}",
            differences(&start, &running.places())
        ));
    }
    let after = lowered(&mut lowerings, &running.fleets);
    for (key, was) in &bytes {
        for kind in ResourceType::ALL {
            let diff = diff(was.section(kind), after[key].section(kind));
            if !diff.is_empty() {
                wrong.push(format!("{key}: other bytes of {kind:?} than at the start"));
            }
        }
    }
    wrong
}

fn lowered(
    lowerings: &mut BTreeMap<FleetKey, Lowering>,
    fleets: &BTreeMap<FleetKey, Arc<Fleet>>,
) -> BTreeMap<FleetKey, edge_xds::snapshot::Snapshot> {
    let lower =
        |(key, fleet): (&FleetKey, &Arc<Fleet>)| (key.clone(), lowerings.entry(key.clone()).or_default().lower(fleet));
    fleets.iter().map(lower).collect()
}

/// Pieces that are equal and were made again.
fn kept(before: &BTreeMap<FleetKey, Arc<Fleet>>, after: &BTreeMap<FleetKey, Arc<Fleet>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, was) in before {
        let Some(now) = after.get(key).filter(|now| !Arc::ptr_eq(was, now)) else {
            continue;
        };
        if was == now {
            wrong.push(format!("fleet {key} was made again"));
        }
        again("listener", &was.listeners, &now.listeners, |one| &one.name, &mut wrong);
        again(
            "table",
            &was.route_tables,
            &now.route_tables,
            |one| &one.name,
            &mut wrong,
        );
        again("cluster", &was.clusters, &now.clusters, |one| &one.name, &mut wrong);
        again("endpoints", &was.endpoints, &now.endpoints, |one| &one.name, &mut wrong);
        again("secret", &was.secrets, &now.secrets, |one| &one.name, &mut wrong);
        for (was, now) in was.route_tables.iter().zip(now.route_tables.iter()) {
            let [was, now] = [was, now].map(|table| table.hosts.iter().cloned().collect::<Vec<_>>());
            again("host", &was, &now, |one| &one.name, &mut wrong);
        }
    }
    wrong
}

fn again<T: PartialEq>(
    what: &str,
    before: &[Arc<T>],
    after: &[Arc<T>],
    name: impl Fn(&T) -> &str,
    wrong: &mut Vec<String>,
) {
    for was in before {
        let now = after.iter().find(|now| name(now) == name(was));
        if now.is_some_and(|now| now == was && !Arc::ptr_eq(now, was)) {
            wrong.push(format!("{what} {} was made again", name(was)));
        }
    }
}

/// Places that changed although the policy isn't about them.
fn strangers(case: &Case, policy: &Value, before: &Places, after: &Places) -> Vec<String> {
    let changed = differences(before, after);
    let is_stranger = |place: &&(FleetKey, String, String)| {
        let pieces = before.get(*place).into_iter().chain(after.get(*place));
        !pieces
            .flat_map(Piece::origins)
            .any(|origin| is_about(case, policy, &origin))
    };
    changed
        .iter()
        .filter(is_stranger)
        .map(|place| format!("{place:?} changed"))
        .collect()
}
