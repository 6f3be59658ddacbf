//! Routes of a virtual host that have a match in common: what it matches goes to the first in precedence, and never to
//! the others by this match. Each is told of the others.

use crate::name::RouteId;
use edge_ir::{MethodName, PathMatch, Route, RouteAction, RouteTraffic, ValueMatch};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A route, and another with a match of its own.
pub(crate) type Overlap = (RouteId, RouteId);

/// How many others a route is told of. A thousand routes with one match aren't told of a thousand others each.
pub(crate) const MAX_TOLD: usize = 8;

/// What a match asks for, in whatever order it is written.
#[derive(PartialEq, Eq, Hash)]
struct Conditions<'a> {
    /// None where it is for CONNECT alone: that has no path, so the first of all takes it, and nothing else.
    path: Option<&'a PathMatch>,
    method: Option<&'a MethodName>,
    headers: SmallVec<[&'a ValueMatch; 2]>,
    query: SmallVec<[&'a ValueMatch; 2]>,
    cookies: SmallVec<[&'a ValueMatch; 2]>,
}

impl<'a> Conditions<'a> {
    fn of(route: &'a Route) -> Self {
        let matches = &route.matches;
        let traffic = match &route.effect.action {
            RouteAction::Forward(forward) => forward.traffic.as_deref(),
            RouteAction::Redirect(_) | RouteAction::Respond(_) => None,
        };
        let sorted = |list: &'a [ValueMatch]| {
            let mut list: SmallVec<[&ValueMatch; 2]> = list.iter().collect();
            list.sort_unstable();
            list
        };
        let tunnels = traffic.is_some_and(RouteTraffic::is_for_tunnels_alone);
        Self {
            path: (!tunnels).then_some(&matches.path),
            method: matches.method.as_ref(),
            headers: sorted(&matches.headers),
            query: sorted(&matches.query),
            cookies: sorted(&matches.cookies),
        }
    }
}

/// Overlaps among routes in order of precedence, sorted: for each route the first of the others, one more than it is
/// told of, so that it knows that there are more.
pub(super) fn overlaps<'a>(in_order: impl Iterator<Item = (RouteId, &'a Route)>) -> Vec<Overlap> {
    let mut alike: FxHashMap<Conditions<'a>, SmallVec<[RouteId; 1]>> = FxHashMap::default();
    for (route, written) in in_order {
        let routes = alike.entry(Conditions::of(written)).or_default();
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
