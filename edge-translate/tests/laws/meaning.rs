//! What answers a request, asked twice: of the tables that were made, and of the objects, by brute force and by the text
//! of the Gateway API (attachment, isolation, precedence; misdirected requests, GEP-3567).
//!
//! Which listeners serve is taken from the sockets, as conflicts and certificates have tests of their own. Worlds are
//! tamed before: only exact values, no calls, no order of the source, so that the second answer stays short.

use super::words::{maybe, one_of};
use edge_ir::{FilterChain, Fleet, Listener, Network, Origin, RouteAction, RouteMatch, ServerNames, ValueMatcher};
use edge_translate::api::{self, Kind, Object, ObjectKey, StringMap};
use proptest::prelude::Strategy;
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::BTreeMap};

type Objects = BTreeMap<ObjectKey, Object>;

/// A request as a client sends it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) server_name: Option<&'static str>,
    pub(crate) host: &'static str,
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    /// Value of the header `x`.
    pub(crate) header: Option<&'static str>,
    /// Value of the parameter `x`.
    pub(crate) parameter: Option<&'static str>,
}

/// Requests that some of the routes are for.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    const HOSTS: &[&str] = &[
        "example.com",
        "a.example.com",
        "b.a.example.com",
        "c.example.com",
        "other.org",
    ];
    (
        maybe(HOSTS),
        one_of(HOSTS),
        one_of(&["/", "/a", "/a/", "/a/b", "/ab"]),
        one_of(&["GET", "POST"]),
        maybe(&["1", "2"]),
        maybe(&["1", "2"]),
    )
        .prop_map(|(server_name, host, path, method, header, parameter)| Request {
            server_name,
            host,
            path,
            method,
            header,
            parameter,
        })
}

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A match of a rule, by the name of its route.
    Rule(String),
    /// 404.
    Nobody,
    /// 421.
    Misdirected,
    /// No connection, or one that carries no requests.
    NoHttp,
}

/// Takes out of an object what the second answer doesn't speak of; none for objects that must go.
pub(crate) fn tame(object: &Object) -> Option<Value> {
    let mut value = object.to_value().ok()?;
    match object.kind() {
        Kind::GrpcRoute => return None,
        Kind::EdgeProxy => value["spec"]["preserveRouteOrder"] = json!(false),
        Kind::HttpRoute => {
            let rules = value["spec"]["rules"].as_array().cloned().unwrap_or_default();
            let rules: Vec<Value> = rules.into_iter().map(tame_rule).collect();
            value["spec"]["rules"] = if rules.is_empty() { json!([{}]) } else { json!(rules) };
        }
        _ => {}
    }
    Some(value)
}

fn tame_rule(mut rule: Value) -> Value {
    for one in rule["matches"].as_array_mut().into_iter().flatten() {
        let is_plain = |path: &Value| {
            matches!(path["type"].as_str(), None | Some("PathPrefix" | "Exact"))
                && path["value"].as_str().is_none_or(|v| v.starts_with('/'))
        };
        if !is_plain(&one["path"]) {
            one["path"] = json!({"type": "PathPrefix", "value": "/"});
        }
        if one["method"] == "ODD" {
            one["method"] = json!("GET");
        }
        for field in ["headers", "queryParams"] {
            let first = one[field][0]["value"].as_str().filter(|v| *v != "[").map(str::to_owned);
            one[field] = json!(
                first
                    .map(|value| json!({"name": "x", "value": value}))
                    .into_iter()
                    .collect::<Vec<_>>()
            );
        }
    }
    rule
}

/// The answer of the tables.
pub(crate) fn by_tables(fleet: &Fleet, socket: &Listener, request: &Request) -> Answer {
    let Some(chain) = chain(socket, request.server_name) else {
        return Answer::NoHttp;
    };
    let Network::Http(manager) = &chain.network else {
        return Answer::NoHttp;
    };
    let hosts = fleet.route_tables.iter().filter(|t| t.name == manager.route_table);
    let hosts = hosts.flat_map(|t| t.hosts.iter());
    let Some(host) = best(hosts, |h| &h.domain, request.host) else {
        return Answer::Nobody;
    };
    let Some(route) = host.routes.iter().find(|route| accepts(&route.matches, request)) else {
        return Answer::Nobody;
    };
    match &route.action {
        RouteAction::Respond(answer) if answer.status == 421 => Answer::Misdirected,
        _ => Answer::Rule(route.name.to_string()),
    }
}

fn chain<'a>(socket: &'a Listener, server_name: Option<&str>) -> Option<&'a FilterChain> {
    let named = socket.chains.iter().flat_map(|chain| match &chain.server_names {
        ServerNames::Only(names) => names.iter().map(|name| (&**name, chain)).collect(),
        ServerNames::Any => Vec::new(),
    });
    let named = server_name.and_then(|server| best(named, |(name, _)| name, server));
    named.map(|(_, chain)| chain).or(socket.default_chain.as_ref())
}

fn accepts(wanted: &RouteMatch, request: &Request) -> bool {
    let path = match &wanted.path {
        edge_ir::PathMatch::Any => true,
        edge_ir::PathMatch::Exact(path) => &**path == request.path,
        edge_ir::PathMatch::Prefix(prefix) => is_below(request.path, prefix),
        edge_ir::PathMatch::Regex(_) => false,
    };
    let is = |list: &[edge_ir::ValueMatch], value: Option<&str>| {
        list.iter().all(|wanted| match &wanted.value {
            ValueMatcher::Exact(text) => value == Some(text),
            ValueMatcher::Regex(_) => false,
        })
    };
    path && wanted.method.as_deref().is_none_or(|m| m == request.method)
        && is(&wanted.headers, request.header)
        && is(&wanted.query, request.parameter)
}

/// The answers of the objects; more than one where the API leaves a choice.
pub(crate) fn by_objects(objects: &Objects, socket: &Listener, request: &Request) -> Vec<Answer> {
    let doors: Vec<Door<'_>> = socket
        .origins
        .iter()
        .filter_map(|origin| door(objects, origin))
        .collect();
    let is_plain = |door: &&Door<'_>| door.spec.protocol == api::Protocol::Http;
    if doors.iter().any(|door| is_plain(&door)) {
        return match best(doors.iter(), |d| &d.hostname, request.host) {
            Some(door) => vec![routed(objects, door, request)],
            None => vec![Answer::Nobody],
        };
    }
    let Some(server_name) = request.server_name else {
        // What has no hostname takes connections without a name.
        let any = doors.iter().find(|door| door.hostname == "*");
        return on_connection(objects, &doors, any, request);
    };
    let chosen = best(doors.iter(), |d| &d.hostname, server_name);
    on_connection(objects, &doors, chosen, request)
}

fn on_connection(objects: &Objects, all: &[Door<'_>], chosen: Option<&Door<'_>>, request: &Request) -> Vec<Answer> {
    let Some(chosen) = chosen.filter(|door| door.spec.protocol == api::Protocol::Https) else {
        return vec![Answer::NoHttp];
    };
    match best(all.iter(), |d| &d.hostname, request.host) {
        Some(owner) if owner.hostname == chosen.hostname => vec![routed(objects, chosen, request)],
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

/// The rule that answers on a listener, all routes of which compete.
fn routed(objects: &Objects, door: &Door<'_>, request: &Request) -> Answer {
    let mut names: Vec<(String, String, &api::HttpRoute)> = Vec::new();
    for object in objects.values() {
        let Object::HttpRoute(route) = object else { continue };
        if !route
            .spec
            .parent_refs
            .iter()
            .any(|parent| attaches(objects, door, route, parent))
        {
            continue;
        }
        let own: Vec<String> = route.spec.hostnames.iter().map(|h| h.to_lowercase()).collect();
        let own = if own.is_empty() { vec!["*".to_owned()] } else { own };
        let common = own
            .into_iter()
            .filter_map(|own| Some((narrower(&door.hostname, &own)?, own)));
        names.extend(common.map(|(effective, own)| (effective, own, &**route)));
    }
    let effective = best(names.iter(), |(effective, ..)| effective, request.host).map(|(e, ..)| e.clone());
    let competing = names.iter().filter(|(e, ..)| Some(e) == effective.as_ref());
    let found = competing.flat_map(|(_, own, route)| {
        let rules = route.spec.rules.iter().enumerate();
        let all = rules.flat_map(|(r, rule)| rule_keys(rule, request).map(move |(m, rank)| (rank, r, m)));
        all.map(move |(rank, r, m)| {
            let metadata = &route.metadata;
            let name = format!("{}/{}", metadata.namespace, metadata.name);
            let age = (metadata.creation_timestamp, name.clone(), (r, m));
            (
                (specificity(own), rank, Reverse(age)),
                format!("httproute/{name}/rule/{r}/match/{m}"),
            )
        })
    });
    let first = found.max_by(|(a, _), (b, _)| a.cmp(b));
    first.map_or(Answer::Nobody, |(_, name)| Answer::Rule(name))
}

/// How specific a match is: exact path, length, method, header, parameter.
type MatchRank = (bool, usize, bool, usize, usize);

/// The matches of a rule that a request meets.
fn rule_keys<'a>(rule: &'a api::HttpRouteRule, request: &'a Request) -> impl Iterator<Item = (usize, MatchRank)> + 'a {
    let nothing = rule.matches.is_empty().then_some((0, (false, 0, false, 0, 0)));
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
            && m.headers.iter().all(|h| request.header == Some(&h.value))
            && m.query_params.iter().all(|q| request.parameter == Some(&q.value));
        let rank = (
            is_exact,
            length,
            m.method.is_some(),
            m.headers.len(),
            m.query_params.len(),
        );
        meets.then_some((i, rank))
    });
    nothing.into_iter().chain(met)
}

fn attaches(objects: &Objects, door: &Door<'_>, route: &api::HttpRoute, parent: &api::ParentReference) -> bool {
    let (own, allowed) = (&route.metadata.namespace, &door.spec.allowed_routes);
    let named = |kind| ObjectKey::new(kind, parent.namespace.as_deref().unwrap_or(own), &*parent.name);
    let is_parent = match &door.set {
        None => parent.kind == "Gateway" && named(Kind::Gateway) == door.gateway,
        Some(set) => parent.kind == "ListenerSet" && named(Kind::ListenerSet) == *set,
    };
    let home = &door.set.as_ref().unwrap_or(&door.gateway).namespace;
    let is_kind = |k: &api::RouteGroupKind| k.kind == "HTTPRoute" && k.group == "gateway.networking.k8s.io";
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
        && parent.group == "gateway.networking.k8s.io"
        && parent.section_name.as_deref().is_none_or(|s| *s == *door.spec.name)
        && parent.port.is_none_or(|port| port == door.spec.port)
        && (allowed.kinds.is_empty() || allowed.kinds.iter().any(is_kind))
        && is_let_in
}

/// Of what is for a name: exact before the longest wildcard before what is for all.
fn best<'a, T: 'a>(all: impl Iterator<Item = T>, name: impl Fn(&T) -> &str, wanted: &str) -> Option<T> {
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

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
