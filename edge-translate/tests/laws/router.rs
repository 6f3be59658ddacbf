//! A router over the plain objects, by brute force and by the text of the Gateway API: attachment, isolation of
//! listeners, server names, precedence, misdirected requests (GEP-3567), whole streams. It shares nothing with
//! translation, and remembers nothing.

use super::meaning::{Answer, Request};
use edge_ir::{Listener, Origin};
use edge_translate::api::{self, Kind, Object, ObjectKey, Protocol, StringMap, Text};
use std::{cmp::Reverse, collections::BTreeMap};

type Objects = BTreeMap<ObjectKey, Object>;

/// The answers of the objects; more than one where the API leaves a choice.
pub(crate) fn by_objects(objects: &Objects, socket: &Listener, request: &Request) -> Vec<Answer> {
    let doors: Vec<Door<'_>> = socket
        .origins
        .iter()
        .filter_map(|origin| door(objects, origin))
        .collect();
    let of = |protocol: Protocol| doors.iter().find(|door| door.spec.protocol == protocol);
    if of(Protocol::Http).is_some() {
        return match best(doors.iter(), |d| &d.hostname, request.host) {
            Some(door) => routed(objects, door, request),
            None => vec![Answer::Nobody],
        };
    }
    if let Some(door) = of(Protocol::Tcp).or(of(Protocol::Udp)) {
        return vec![streamed(objects, door, None)];
    }
    let chosen = match request.server_name {
        Some(server_name) => best(doors.iter(), |d| &d.hostname, server_name),
        // What has no hostname takes connections without a name.
        None => doors.iter().find(|door| door.hostname == "*"),
    };
    match chosen {
        None => vec![Answer::Closed],
        Some(door) if door.spec.protocol == Protocol::Tls => vec![streamed(objects, door, request.server_name)],
        Some(door) => on_connection(objects, &doors, door, request),
    }
}

/// Who answers a request on a connection that a listener took.
fn on_connection(objects: &Objects, all: &[Door<'_>], chosen: &Door<'_>, request: &Request) -> Vec<Answer> {
    match best(all.iter(), |d| &d.hostname, request.host) {
        Some(owner) if owner.hostname == chosen.hostname => routed(objects, chosen, request),
        Some(_) if is_for(&chosen.hostname, request.host) => vec![Answer::Misdirected],
        Some(_) => vec![Answer::Misdirected, Answer::Nobody],
        None => vec![Answer::Nobody],
    }
}

/// A listener that serves.
struct Door<'a> {
    gateway: ObjectKey,
    set: Option<ObjectKey>,
    spec: &'a api::Listener,
    hostname: String,
}

fn door<'a>(objects: &'a Objects, origin: &Origin) -> Option<Door<'a>> {
    let key = |kind| ObjectKey::new(kind, &*origin.namespace, &*origin.name);
    let (gateway, set, listeners) = match objects
        .get(&key(Kind::ListenerSet))
        .filter(|_| &*origin.kind == "ListenerSet")
    {
        Some(Object::ListenerSet(set)) => {
            let parent = &set.spec.parent_ref;
            let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
            let gateway = ObjectKey::new(Kind::Gateway, namespace, &*parent.name);
            (gateway, Some(key(Kind::ListenerSet)), &set.spec.listeners)
        }
        _ => match objects.get(&key(Kind::Gateway))? {
            Object::Gateway(gateway) => (key(Kind::Gateway), None, &gateway.spec.listeners),
            _ => return None,
        },
    };
    let spec = listeners.iter().find(|l| Some(&*l.name) == origin.section.as_deref())?;
    let hostname = spec.hostname.as_deref().unwrap_or("*").to_lowercase();
    Some(Door {
        gateway,
        set,
        spec,
        hostname,
    })
}

/// A route, whatever its kind.
struct Route<'a> {
    object: &'a Object,
    metadata: &'a api::Metadata,
    parents: &'a [std::sync::Arc<api::ParentReference>],
    hostnames: &'a [Text],
}

impl<'a> Route<'a> {
    fn of(object: &'a Object) -> Option<Self> {
        let (parents, hostnames): (_, &[Text]) = match object {
            Object::HttpRoute(route) => (&route.spec.parent_refs, &route.spec.hostnames),
            Object::GrpcRoute(route) => (&route.spec.parent_refs, &route.spec.hostnames),
            Object::TlsRoute(route) => (&route.spec.parent_refs, &route.spec.hostnames),
            Object::TcpRoute(route) => (&route.spec.parent_refs, &[]),
            Object::UdpRoute(route) => (&route.spec.parent_refs, &[]),
            _ => return None,
        };
        Some(Self {
            object,
            metadata: object.metadata(),
            parents,
            hostnames,
        })
    }

    fn name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// The elder is less; of the same age the name decides.
    fn age(&self) -> (Option<api::Timestamp>, String) {
        (self.metadata.creation_timestamp, self.name())
    }
}

/// A hostname that a route gets on a listener, and what the route wrote for it.
struct Got<'a> {
    effective: String,
    own: String,
    route: Route<'a>,
}

/// Every hostname that a route gets on a listener.
fn attached<'a>(objects: &'a Objects, door: &Door<'_>) -> Vec<Got<'a>> {
    let mut all = Vec::new();
    for object in objects.values() {
        let Some(route) = Route::of(object) else { continue };
        if !route
            .parents
            .iter()
            .any(|parent| attaches(objects, door, &route, parent))
        {
            continue;
        }
        let own: Vec<String> = route.hostnames.iter().map(|h| h.to_lowercase()).collect();
        let own = if own.is_empty() { vec!["*".to_owned()] } else { own };
        for own in own {
            if let Some(effective) = narrower(&door.hostname, &own) {
                let route = Route::of(object).unwrap();
                all.push(Got { effective, own, route });
            }
        }
    }
    all
}

/// The route that takes the streams of a listener: by server name the most specific, then the oldest.
fn streamed(objects: &Objects, door: &Door<'_>, server_name: Option<&str>) -> Answer {
    let got = attached(objects, door);
    // One with other rules isn't accepted, and leaves the listener and its names to others.
    let is_accepted = |got: &&Got<'_>| match got.route.object {
        Object::TcpRoute(route) => route.spec.rules.len() == 1,
        Object::UdpRoute(route) => route.spec.rules.len() == 1,
        Object::TlsRoute(route) => !route.spec.rules.is_empty(),
        _ => true,
    };
    let is_meant = |got: &&Got<'_>| match (&door.spec.protocol, server_name) {
        (Protocol::Tls, Some(name)) => is_for(&got.effective, name),
        (Protocol::Tls, None) => got.effective == "*",
        _ => true,
    };
    let by_name = door.spec.protocol == Protocol::Tls;
    let rank = |got: &Got<'_>| {
        let names = by_name.then(|| (specificity(&got.effective), specificity(&got.own)));
        // TLSRoutes before TCPRoutes, of which both may ask for the name of a listener that ends TLS.
        let is_tls = got.route.object.kind() == Kind::TlsRoute;
        (names, Reverse(got.route.age()), is_tls)
    };
    let taker = got
        .iter()
        .filter(is_accepted)
        .filter(is_meant)
        .max_by_key(|got| rank(got));
    taker.map_or(Answer::Closed, |got| {
        Answer::Stream(format!("{}/{}", got.route.object.kind(), got.route.name()))
    })
}

/// The rules that may answer on a listener, all routes of which compete. Between an HTTPRoute and a GRPCRoute of the
/// same hostname the API doesn't decide.
fn routed(objects: &Objects, door: &Door<'_>, request: &Request) -> Vec<Answer> {
    let got = attached(objects, door);
    let effective = best(got.iter(), |got| &got.effective, request.host).map(|got| got.effective.clone());
    let competing: Vec<_> = got
        .iter()
        .filter(|got| Some(&got.effective) == effective.as_ref())
        .collect();
    let best_of = |kind: Kind| {
        let of_kind = competing.iter().filter(|got| got.route.object.kind() == kind);
        let found = of_kind.flat_map(|got| {
            let name = format!("{}/{}", kind.as_str().to_lowercase(), got.route.name());
            matches(got.route.object, request).into_iter().map(move |(r, m, rank)| {
                let place = (specificity(&got.own), rank, Reverse((got.route.age(), r, m)));
                (place, format!("{name}/rule/{r}/match/{m}"))
            })
        });
        let first = found.max_by(|(a, _), (b, _)| a.cmp(b));
        first.map(|(_, name)| Answer::Rule(name))
    };
    let answers: Vec<_> = [Kind::HttpRoute, Kind::GrpcRoute]
        .into_iter()
        .filter_map(best_of)
        .collect();
    match answers.is_empty() {
        true => vec![Answer::Nobody],
        false => answers,
    }
}

/// The matches of a route that a request meets, by rule and match.
fn matches(route: &Object, request: &Request) -> Vec<(usize, usize, MatchRank)> {
    let placed = |rule: usize| move |(m, rank): (usize, MatchRank)| (rule, m, rank);
    match route {
        Object::HttpRoute(route) => {
            let rules = route.spec.rules.iter().enumerate();
            rules
                .flat_map(|(r, rule)| http_matches(rule, request).map(placed(r)))
                .collect()
        }
        Object::GrpcRoute(route) => {
            let rules = route.spec.rules.iter().enumerate();
            rules
                .flat_map(|(r, rule)| grpc_matches(rule, request).map(placed(r)))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// How specific a match is: exact path, length, method (of a call its characters), header, parameter.
type MatchRank = (bool, usize, usize, usize, usize);

/// The matches of an HTTPRoute's rule that a request meets.
fn http_matches<'a>(
    rule: &'a api::HttpRouteRule,
    request: &'a Request,
) -> impl Iterator<Item = (usize, MatchRank)> + 'a {
    let nothing = rule.matches.is_empty().then_some((0, (false, 0, 0, 0, 0)));
    let met = rule.matches.iter().enumerate().filter_map(|(i, m)| {
        let is_exact = m.path.r#type == api::PathMatchType::Exact;
        let prefix = m.path.value.trim_end_matches('/');
        let meets = match is_exact {
            true => *m.path.value == *request.path,
            false => is_below(request.path, prefix),
        };
        let length = if is_exact { m.path.value.len() } else { prefix.len() };
        let meets = meets
            && m.method.as_ref().is_none_or(|wanted| wanted.as_str() == request.method)
            && m.headers.iter().all(|h| request.headers.of(&h.name) == Some(&h.value))
            && m.query_params
                .iter()
                .all(|q| request.parameters.of(&q.name) == Some(&q.value));
        let rank = (
            is_exact,
            length,
            usize::from(m.method.is_some()),
            m.headers.len(),
            m.query_params.len(),
        );
        meets.then_some((i, rank))
    });
    nothing.into_iter().chain(met)
}

/// The matches of a GRPCRoute's rule that a request meets: more of the service counts before more of the method.
fn grpc_matches<'a>(
    rule: &'a api::GrpcRouteRule,
    request: &'a Request,
) -> impl Iterator<Item = (usize, MatchRank)> + 'a {
    let nothing = rule.matches.is_empty().then_some((0, (false, 0, 0, 0, 0)));
    let call = request.path.strip_prefix('/').and_then(|call| call.split_once('/'));
    let met = rule.matches.iter().enumerate().filter_map(move |(i, m)| {
        let wanted = m.method.as_deref();
        let service = wanted.and_then(|m| m.service.as_deref()).filter(|s| !s.is_empty());
        let method = wanted.and_then(|m| m.method.as_deref()).filter(|m| !m.is_empty());
        let meets = service.is_none_or(|service| call.is_some_and(|(s, _)| s == service))
            && method.is_none_or(|method| call.is_some_and(|(_, m)| m == method))
            && m.headers.iter().all(|h| request.headers.of(&h.name) == Some(&h.value));
        let (is_exact, length, method) = match (service, method) {
            (Some(service), Some(method)) => (true, service.len() + method.len(), 0),
            (service, method) => (false, service.map_or(0, str::len), method.map_or(0, str::len)),
        };
        meets.then_some((i, (is_exact, length, method, m.headers.len(), 0)))
    });
    nothing.into_iter().chain(met)
}

fn attaches(objects: &Objects, door: &Door<'_>, route: &Route<'_>, parent: &api::ParentReference) -> bool {
    let (own, allowed) = (&route.metadata.namespace, &door.spec.allowed_routes);
    let named = |kind| ObjectKey::new(kind, parent.namespace.as_deref().unwrap_or(own), &*parent.name);
    let is_parent = match &door.set {
        None => parent.kind == "Gateway" && named(Kind::Gateway) == door.gateway,
        Some(set) => parent.kind == "ListenerSet" && named(Kind::ListenerSet) == *set,
    };
    let home = &door.set.as_ref().unwrap_or(&door.gateway).namespace;
    let kind = route.object.kind();
    let is_kind = |k: &api::RouteGroupKind| k.kind == kind.as_str() && k.group == "gateway.networking.k8s.io";
    let empty = StringMap::new();
    let labels = match objects.get(&ObjectKey::new(Kind::Namespace, "", &**own)) {
        Some(Object::Namespace(namespace)) => &namespace.metadata.labels,
        _ => &empty,
    };
    let is_let_in = match &allowed.namespaces.from {
        api::FromNamespaces::All => true,
        api::FromNamespaces::Same => own == home,
        api::FromNamespaces::Selector => {
            let selector = allowed.namespaces.selector.as_ref();
            selector.is_some_and(|s| s.matches(labels) == Some(true))
        }
        _ => false,
    };
    is_parent
        && takes(door.spec).contains(&kind)
        && parent.group == "gateway.networking.k8s.io"
        && parent.section_name.as_deref().is_none_or(|s| *s == *door.spec.name)
        && parent.port.is_none_or(|port| port == door.spec.port)
        && (allowed.kinds.is_empty() || allowed.kinds.iter().any(is_kind))
        && is_let_in
}

/// The kinds of routes that a listener can take.
fn takes(listener: &api::Listener) -> &'static [Kind] {
    let passes = listener
        .tls
        .as_deref()
        .is_some_and(|tls| tls.mode == api::TlsMode::Passthrough);
    match listener.protocol {
        Protocol::Http | Protocol::Https => &[Kind::HttpRoute, Kind::GrpcRoute],
        Protocol::Tls if passes => &[Kind::TlsRoute],
        Protocol::Tls => &[Kind::TlsRoute, Kind::TcpRoute],
        Protocol::Tcp => &[Kind::TcpRoute],
        Protocol::Udp => &[Kind::UdpRoute],
        Protocol::Other(_) => &[],
    }
}

/// Of what is for a name: exact before the longest wildcard before what is for all.
pub(crate) fn best<'a, T: 'a>(all: impl Iterator<Item = T>, name: impl Fn(&T) -> &str, wanted: &str) -> Option<T> {
    all.filter(|one| is_for(name(one), wanted))
        .max_by_key(|one| specificity(name(one)))
}

fn specificity(name: &str) -> (usize, usize) {
    match name.strip_prefix('*') {
        None => (name.len(), name.len()),
        Some("") => (0, 0),
        Some(_) => (0, name.len()),
    }
}

fn is_for(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        None => pattern == name,
        Some(suffix) => name.len() > suffix.len() && name.ends_with(suffix),
    }
}

/// What two patterns have in common.
fn narrower(a: &str, b: &str) -> Option<String> {
    let covers = |wide: &str, narrow: &str| wide == narrow || wide == "*" || (narrow != "*" && is_for(wide, narrow));
    if covers(a, b) {
        Some(b.to_owned())
    } else if covers(b, a) {
        Some(a.to_owned())
    } else {
        None
    }
}

pub(crate) fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
