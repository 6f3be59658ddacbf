//! Virtual hosts: the routes of one effective hostname, in order of precedence.

use super::{
    bound::Serves,
    overlap::{self, Overlap},
    rules::{Wording, internal_error},
};
use crate::{
    engine::{index::HostRoute, reader::Reader, value::PlacedHost},
    name::{FleetId, HostId, RouteId},
    phase::{listeners::view::ListenerView, precedence::Precedence},
};
use edge_ir::{
    DirectResponse, Domain, Domains, ELSEWHERE, FleetTracing, HostStats, PathMatch, Route, RouteAction, RouteEffect,
    RouteMatch, RouteTracing, RouteTraffic, VirtualHost,
};
use std::{cmp::Reverse, sync::Arc};

/// Builds a virtual host; none when nothing attaches and nobody needs it to hide a broader listener.
pub(crate) fn host(reader: &Reader<'_>, id: HostId) -> Option<PlacedHost> {
    let entry = reader.host_routes(id)?;
    let views = reader.listener_views(id.listener.gateway)?;
    let view = views.listeners.iter().find(|d| d.id == id.listener)?;
    let host = reader.text(id.host);
    let (domains, routes, overlaps) = if *host == *ELSEWHERE {
        let names = Domains::Many(Arc::clone(&view.elsewhere));
        (names, vec![misdirected(view)], Vec::new())
    } else {
        let (routes, overlaps) = collect(reader, views.fleet, &entry.routes);
        (Domains::One(Domain::new(Arc::clone(&host))), routes, overlaps)
    };
    let mut name = String::with_capacity(view.full_name.len() + 1 + host.len());
    name.push_str(&view.full_name);
    name.push('/');
    name.extend(host.chars().map(|c| if c == '.' { '_' } else { c }));
    let host = VirtualHost {
        name: name.into(),
        domains,
        port: view.port,
        routes,
        limits: view.limits,
        stats: stats(reader, views.fleet),
        origins: Arc::clone(&view.origins),
    };
    Some(PlacedHost {
        fleet: views.fleet,
        table: view.table.clone(),
        host: Arc::new(host),
        overlaps: overlaps.into(),
    })
}

/// Whether a fleet counts the requests of each host.
fn stats(reader: &Reader<'_>, fleet: FleetId) -> HostStats {
    let shape = reader.fleet_shape(fleet);
    shape.map(|shape| shape.telemetry.host_stats).unwrap_or_default()
}

/// The answer to requests for other listeners of the port: the client shall take a connection with that name (RFC 9110
/// §15.5.20; GEP-3567). One host has it for all of their names: where a certificate is shared, each listener's table
/// names each of the others.
fn misdirected(view: &ListenerView) -> Arc<Route> {
    Arc::new(Route {
        name: "misdirected-request".into(),
        matches: RouteMatch::on_path(PathMatch::Any),
        portion: None,
        effect: Arc::new(RouteEffect::new(
            RouteAction::Respond(DirectResponse {
                status: 421,
                body: None,
            }),
            Arc::clone(&view.origins),
        )),
    })
}

/// A match on its way into a virtual host.
struct Candidate<'a> {
    precedence: Precedence<'a>,
    of: RouteId,
    route: &'a Arc<Route>,
    wording: Wording,
    state: State,
}

/// Whether a route does what it is bound to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Bound,
    /// Its rules couldn't be bound for what policies decide now (`engine/faults`), and are those of before. What they
    /// match answers 500, so that it falls to no broader route.
    Broken,
}

/// All matches of all routes, best first, and which of the routes have matches in common.
fn collect(reader: &Reader<'_>, fleet: FleetId, routes: &[HostRoute]) -> (Vec<Arc<Route>>, Vec<Overlap>) {
    let shape = reader.fleet_shape(fleet);
    let keep_order = shape.is_some_and(|shape| shape.settings.preserve_route_order);
    let mut found: Vec<Candidate<'_>> = Vec::new();
    for HostRoute { route, own, context } in routes {
        // Rules that never were bound match nothing that anybody knows.
        let Some(bound) = reader.bound(*route) else {
            continue;
        };
        let (list, state) = match bound.under(*context).map(|binding| &binding.serves) {
            Some(Serves::Http(list)) => (list.as_slice(), State::Bound),
            Some(Serves::Stream(_)) => continue,
            None => (bound.any_http(), State::Broken),
        };
        found.extend(list.iter().map(|ranked| Candidate {
            precedence: Precedence {
                hostname: *own,
                rank: &ranked.rank,
                seniority: Reverse(&bound.summary.seniority),
                kind: Reverse(route.kind),
                position: Reverse(ranked.position),
            },
            of: *route,
            route: &ranked.route,
            wording: ranked.wording,
            state,
        }));
    }
    if keep_order {
        found.sort_unstable_by(|a, b| {
            let (a, b) = (&a.precedence, &b.precedence);
            (b.seniority, b.kind, b.position).cmp(&(a.seniority, a.kind, a.position))
        });
    } else {
        found.sort_unstable_by(|a, b| b.precedence.cmp(&a.precedence));
    }
    let overlaps = match routes {
        // Nearly all hosts.
        [] | [_] => Vec::new(),
        // Of what we made of a refused match nobody is told: nobody wrote it.
        _ => {
            let written = found.iter().filter(|one| one.wording == Wording::Written);
            overlap::overlaps(written.map(|one| (one.of, &**one.route)))
        }
    };
    // Not collected in place: the list would keep the room of the candidates, ten times its own.
    let mut routes = Vec::with_capacity(found.len());
    routes.extend(found.iter().map(|one| match one.state {
        State::Bound => traced(shape.and_then(|shape| shape.telemetry.tracing.as_deref()), one.route),
        State::Broken => Arc::new(closed(one.route)),
    }));
    (routes, overlaps)
}

/// A route with the shares of its fleet where its own traces have none: a proxy takes what a route doesn't say for all.
fn traced(fleet: Option<&FleetTracing>, route: &Arc<Route>) -> Arc<Route> {
    let traffic = route.effect.traffic();
    let own = traffic.and_then(|traffic| Some((traffic, traffic.tracing.as_ref()?)));
    let (Some(fleet), Some((traffic, own))) = (fleet, own) else {
        return Arc::clone(route);
    };
    let tracing = RouteTracing {
        client_sampling: own.client_sampling.or(fleet.client_sampling),
        random_sampling: own.random_sampling.or(Some(fleet.random_sampling)),
        overall_sampling: own.overall_sampling.or(fleet.overall_sampling),
        ..own.clone()
    };
    let traffic = Some(Arc::new(RouteTraffic {
        tracing: Some(tracing),
        ..traffic.clone()
    }));
    let mut effect = RouteEffect::clone(&route.effect);
    match &mut effect.action {
        RouteAction::Forward(forward) => forward.traffic = traffic,
        RouteAction::Redirect(_) | RouteAction::Respond(_) => effect.telemetry = traffic,
    }
    Arc::new(Route {
        effect: Arc::new(effect),
        ..Route::clone(route)
    })
}

fn closed(route: &Route) -> Route {
    Route {
        effect: Arc::new(RouteEffect::new(internal_error(), Arc::clone(&route.effect.origins))),
        ..route.clone()
    }
}
