//! Routes of a virtual host that have a match in common: what it matches goes to the first in precedence, and never to
//! the others by this match. Each is told of the others.

use crate::name::RouteId;
use edge_ir::{MethodName, PathMatch, RouteMatch, ValueMatch};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A route, and another with a match of its own.
pub(crate) type Overlap = (RouteId, RouteId);

/// How many others a route is told of. A thousand routes with one match aren't told of a thousand others each.
pub(crate) const MAX_TOLD: usize = 8;

/// What a match asks for, in whatever order it is written.
#[derive(PartialEq, Eq, Hash)]
struct Conditions<'a> {
    path: &'a PathMatch,
    method: Option<&'a MethodName>,
    headers: SmallVec<[&'a ValueMatch; 2]>,
    query: SmallVec<[&'a ValueMatch; 2]>,
}

impl<'a> Conditions<'a> {
    fn of(matches: &'a RouteMatch) -> Self {
        let sorted = |list: &'a [ValueMatch]| {
            let mut list: SmallVec<[&ValueMatch; 2]> = list.iter().collect();
            list.sort_unstable();
            list
        };
        Self {
            path: &matches.path,
            method: matches.method.as_ref(),
            headers: sorted(&matches.headers),
            query: sorted(&matches.query),
        }
    }
}

/// Overlaps among routes in order of precedence, sorted: for each route the first of the others, one more than it is
/// told of, so that it knows that there are more.
pub(super) fn overlaps<'a>(in_order: impl Iterator<Item = (RouteId, &'a RouteMatch)>) -> Vec<Overlap> {
    let mut alike: FxHashMap<Conditions<'a>, SmallVec<[RouteId; 1]>> = FxHashMap::default();
    for (route, matches) in in_order {
        let routes = alike.entry(Conditions::of(matches)).or_default();
        // Matches of one route that are the same are one after the other, or nearly so.
        if routes.last() != Some(&route) {
            routes.push(route);
        }
    }
    let mut overlaps = Vec::new();
    for routes in alike.values().filter(|routes| routes.len() > 1) {
        for route in routes {
            let others = routes.iter().filter(|other| *other != route);
            overlaps.extend(others.take(MAX_TOLD + 1).map(|other| (*route, *other)));
        }
    }
    overlaps.sort_unstable();
    overlaps.dedup();
    overlaps
}
