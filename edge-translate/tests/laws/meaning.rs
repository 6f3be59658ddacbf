//! What answers a request or takes a stream, asked of the tables that were made. The answer that the Gateway API wants
//! is found from the objects, in [`super::router`].
//!
//! Which listeners serve is taken from the sockets, as conflicts and certificates have tests of their own. Worlds are
//! tamed before: only exact values, no order of the source, so that the other answer stays short.

use super::{
    router::{best, is_below},
    words::{maybe, one_of},
};
use edge_ir::{FilterChain, Fleet, Listener, Network, RouteAction, RouteMatch, ServerNames, StreamProxy, ValueMatcher};
use edge_translate::api::{Kind, Object};
use proptest::prelude::Strategy;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A request as a client sends it, or a stream, of which only the server name counts.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) server_name: Option<&'static str>,
    pub(crate) host: &'static str,
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) headers: Values,
    pub(crate) parameters: Values,
}

/// Values of the headers, or parameters, `x` and `y`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    x: Option<&'static str>,
    y: Option<&'static str>,
}

impl Values {
    pub(crate) fn of(self, name: &str) -> Option<&'static str> {
        match name {
            "x" => self.x,
            "y" => self.y,
            _ => None,
        }
    }
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
    let values = || (maybe(&["1", "2"]), maybe(&["1", "2"])).prop_map(|(x, y)| Values { x, y });
    (
        maybe(HOSTS),
        one_of(HOSTS),
        one_of(&["/", "/a", "/a/", "/a/b", "/ab", "/a.B/C", "/a.B/D", "/a.LongerB/C"]),
        one_of(&["GET", "POST"]),
        values(),
        values(),
    )
        .prop_map(|(server_name, host, path, method, headers, parameters)| Request {
            server_name,
            host,
            path,
            method,
            headers,
            parameters,
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
    /// The whole stream goes where a route says, by its kind and name.
    Stream(String),
    /// No connection.
    Closed,
}

/// Takes out of an object what the other answer doesn't speak of.
pub(crate) fn tame(object: &Object) -> Option<Value> {
    let mut value = object.to_value().ok()?;
    match object.kind() {
        Kind::EdgeProxy => value["spec"]["preserveRouteOrder"] = json!(false),
        Kind::HttpRoute => {
            let rules = value["spec"]["rules"].as_array().cloned().unwrap_or_default();
            let rules: Vec<Value> = rules.into_iter().map(tame_rule).collect();
            value["spec"]["rules"] = if rules.is_empty() { json!([{}]) } else { json!(rules) };
        }
        Kind::GrpcRoute => {
            let rules = value["spec"]["rules"].as_array_mut().into_iter().flatten();
            let calls = rules.flat_map(|rule| rule["matches"].as_array_mut().into_iter().flatten());
            calls.for_each(tame_call);
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
        tame_values(one, "headers");
        tame_values(one, "queryParams");
    }
    rule
}

fn tame_call(one: &mut Value) {
    if !one["method"].is_null() {
        let service = known(&one["method"]["service"], &["a.B", "a.LongerB"]);
        let method = known(&one["method"]["method"], &["C", "D"]);
        one["method"] = json!({"type": "Exact", "service": service, "method": method});
    }
    tame_values(one, "headers");
}

/// A part of a call as it is, if it is one of the names, else the first of them.
fn known(part: &Value, names: &[&'static str]) -> Option<&'static str> {
    let part = part.as_str()?;
    names.iter().find(|name| **name == part).or(names.first()).copied()
}

/// Leaves the first of each name in a list of values, and makes it exact.
fn tame_values(one: &mut Value, field: &str) {
    let mut tamed: BTreeMap<String, Value> = BTreeMap::new();
    for item in one[field].as_array().into_iter().flatten() {
        let name = item["name"].as_str().unwrap_or_default().to_lowercase();
        if item["value"] != "[" {
            let exact = json!({"name": name, "value": item["value"]});
            tamed.entry(name).or_insert(exact);
        }
    }
    one[field] = json!(tamed.into_values().collect::<Vec<_>>());
}

/// The answer of the tables.
pub(crate) fn by_tables(fleet: &Fleet, socket: &Listener, request: &Request) -> Answer {
    if let Some(stream) = &socket.udp {
        return taken_by(stream);
    }
    let manager = match chain(socket, request.server_name).map(|chain| &chain.network) {
        None => return Answer::Closed,
        Some(Network::Tcp(stream)) => return taken_by(stream),
        Some(Network::Http(manager)) => manager,
    };
    let hosts = fleet.route_tables.iter().filter(|t| t.name == manager.route_table);
    let hosts = hosts.flat_map(|t| t.hosts.iter());
    let named = hosts.flat_map(|host| host.domains.iter().map(move |domain| (domain, host)));
    let Some((_, host)) = best(named, |(domain, _)| domain, request.host) else {
        return Answer::Nobody;
    };
    let Some(route) = host.routes.iter().find(|route| accepts(&route.matches, request)) else {
        return Answer::Nobody;
    };
    match &route.effect.action {
        RouteAction::Respond(answer) if answer.status == 421 => Answer::Misdirected,
        _ => Answer::Rule(route.name.to_string()),
    }
}

/// The route that a stream is of, whether or not it leads anywhere.
fn taken_by(stream: &StreamProxy) -> Answer {
    let name = |route: &edge_ir::Origin| format!("{}/{}/{}", route.kind, route.namespace, route.name);
    stream
        .origins
        .first()
        .map_or(Answer::Closed, |route| Answer::Stream(name(route)))
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
        edge_ir::PathMatch::Regex(path) => Regex::new(&format!("^(?:{path})$")).unwrap().is_match(request.path),
    };
    let is = |list: &[edge_ir::ValueMatch], values: Values| {
        list.iter().all(|wanted| match &wanted.value {
            ValueMatcher::Exact(text) => values.of(&wanted.name) == Some(text),
            ValueMatcher::Regex(_) => false,
        })
    };
    path && wanted.method.as_deref().is_none_or(|m| m == request.method)
        && is(&wanted.headers, request.headers)
        && is(&wanted.query, request.parameters)
}
