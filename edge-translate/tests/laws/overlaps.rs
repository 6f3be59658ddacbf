//! Who is told of whom: routes with a match in common on one host, found by comparing every two; and nobody else.

use super::{
    cases, check,
    history::{World, history},
    words::read,
};
use edge_ir::{Route, RouteMatch, ValueMatch};
use edge_translate::{
    api::{Kind, Object, ObjectKey},
    status::{Status, StatusBody},
};
use proptest::prelude::*;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The route object that a route of a table comes from.
fn object(route: &Route) -> Option<ObjectKey> {
    let origin = route.effect.origins.first()?;
    let kind = Kind::ALL.iter().copied().find(|kind| kind.as_str() == &*origin.kind)?;
    Some(ObjectKey::new(
        kind,
        Arc::clone(&origin.namespace),
        Arc::clone(&origin.name),
    ))
}

fn are_alike(a: &RouteMatch, b: &RouteMatch) -> bool {
    let all_in = |these: &[ValueMatch], those: &[ValueMatch]| these.iter().all(|one| those.contains(one));
    let same = |these: &[ValueMatch], those: &[ValueMatch]| all_in(these, those) && all_in(those, these);
    a.path == b.path && a.method == b.method && same(&a.headers, &b.headers) && same(&a.query, &b.query)
}

/// Whom a route is told of, under any of its parents; none where the message is cut short.
fn told(status: &Status) -> Option<BTreeSet<String>> {
    let StatusBody::Parents { parents, .. } = &status.body else {
        return Some(BTreeSet::new());
    };
    let conditions = parents.iter().flat_map(|parent| &parent.conditions);
    let mut names = BTreeSet::new();
    for condition in conditions.filter(|condition| condition.kind == "RouteRulesOverlap") {
        let list = condition.message.split_once(": ")?.1;
        if list.ends_with(" and others") {
            return None;
        }
        names.extend(list.split(", ").map(str::to_owned));
    }
    Some(names)
}

/// As a message names it.
fn named(key: &ObjectKey) -> String {
    format!("{} {}/{}", key.kind.as_str(), key.namespace, key.name)
}

/// Names of routes whose match is one that somebody wrote: nobody is told of what stands in for a match that is
/// refused, and without whatever may be a guard nothing does.
fn written(world: &World) -> BTreeSet<String> {
    let mut world = world.clone();
    let policy = [
        Kind::SecurityPolicy,
        Kind::ClientTrafficPolicy,
        Kind::EdgeExtensionPolicy,
    ];
    world.objects.retain(|key, _| !policy.contains(&key.kind));
    for object in world.objects.values_mut() {
        if !matches!(object, Object::HttpRoute(_) | Object::GrpcRoute(_)) {
            continue;
        }
        let mut value = object.to_value().unwrap();
        for rule in value["spec"]["rules"].as_array_mut().into_iter().flatten() {
            rule["filters"] = json!([]);
            let backends = rule["backendRefs"].as_array_mut().into_iter().flatten();
            backends.for_each(|backend| backend["filters"] = json!([]));
        }
        *object = read(value);
    }
    let engine = world.translate();
    let routes = engine.fleets().values().flat_map(|fleet| check::routes(fleet));
    routes.map(|(_, route)| route.name.to_string()).collect()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn routes_with_a_match_in_common_are_told_of_each_other(edits in history(0..50)) {
        let world = World::after(&edits);
        let (engine, written) = (world.translate(), written(&world));
        let mut expected: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
        let tables = engine.fleets().values().flat_map(|fleet| fleet.route_tables.iter());
        for host in tables.flat_map(|table| table.hosts.iter()) {
            let routes = || host.routes.iter().filter(|route| written.contains(&route.name.to_string()));
            for (one, key) in routes().filter_map(|one| Some((one, object(one)?))) {
                let others = routes().filter(|other| are_alike(&one.matches, &other.matches)).filter_map(|r| object(r));
                let others = others.filter(|other| *other != key).map(|other| named(&other));
                expected.entry(key.clone()).or_default().extend(others);
            }
        }
        for (key, status) in engine.translator.statuses() {
            if let Some(told) = told(&status) {
                prop_assert_eq!(told, expected.remove(&key).unwrap_or_default(), "{}", key);
            }
        }
    }
}
