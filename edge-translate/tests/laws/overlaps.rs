//! Who is told of whom: routes with a match in common on one host, found by comparing every two.

use super::{
    cases,
    history::{World, history},
};
use edge_ir::{Route, RouteMatch, ValueMatch};
use edge_translate::{
    api::{Kind, ObjectKey},
    status::{Status, StatusBody},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc};

/// The route object that a route of a table comes from.
fn object(route: &Route) -> Option<ObjectKey> {
    let origin = route.origins.first()?;
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

fn is_told(status: &Status) -> bool {
    let StatusBody::Parents { parents, .. } = &status.body else {
        return false;
    };
    let mut conditions = parents.iter().flat_map(|parent| &parent.conditions);
    conditions.any(|condition| condition.kind == "RouteRulesOverlap")
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn routes_with_a_match_in_common_are_told(edits in history(0..50)) {
        let engine = World::after(&edits).translate();
        let tables = engine.fleets().values().flat_map(|fleet| fleet.route_tables.iter());
        let mut expected = BTreeSet::new();
        for host in tables.flat_map(|table| table.hosts.iter()) {
            for one in &host.routes {
                let others = host.routes.iter().filter(|other| are_alike(&one.matches, &other.matches));
                let mine = object(one);
                if others.into_iter().any(|other| object(other) != mine) {
                    expected.extend(mine);
                }
            }
        }
        let statuses = engine.translator.statuses();
        let told = statuses.iter().filter(|(_, status)| is_told(status)).map(|(key, _)| key.clone());
        prop_assert_eq!(told.collect::<BTreeSet<_>>(), expected);
    }
}
