//! The rules of a route, compiled once for all listeners that it attaches to.

use super::{
    origin,
    precedence::{Rank, Seniority},
};
use crate::{
    api::{HttpRoute, HttpRouteRule, Kind, StringMap},
    engine::{
        key::{BackendId, BackendPort, RouteId, RouteKind},
        reader::Reader,
    },
};
use edge_ir::{DirectResponse, HeaderEdits, Origin, Origins, Route, RouteAction, RouteMatch};
use std::{collections::BTreeSet, sync::Arc};

mod backend;
mod destination;
mod filter;
mod matches;

/// A route's rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Age and name, which decide between routes.
    pub(crate) seniority: Seniority,
    /// In the order of the route.
    pub(crate) rules: Vec<Rule>,
    /// Backends that the rules send traffic to, mirrors included, sorted.
    pub(crate) backends: Vec<BackendId>,
    /// What is wrong.
    pub(crate) findings: Vec<RuleFinding>,
    /// Backends whose lack of endpoints is worth a word, and what they are used for.
    pub(crate) wanting: Vec<(BackendPort, Use)>,
    /// Generation of the object, for its status.
    pub(crate) generation: i64,
}

/// One compiled rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// One route a match.
    pub(crate) routes: Vec<RankedRoute>,
}

/// A route with its rank among routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedRoute {
    /// Rank of its match.
    pub(crate) rank: Rank,
    /// Index of its match in the rule.
    pub(crate) match_index: usize,
    /// The route.
    pub(crate) route: Arc<Route>,
}

/// What a rule uses a backend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It answers requests.
    Destination,
    /// It gets copies.
    Mirror,
}

/// Something wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFinding {
    /// Index of the rule.
    pub(crate) rule: usize,
    /// What it costs.
    pub(crate) effect: Effect,
    /// Reason of the condition.
    pub(crate) reason: &'static str,
    /// Message of the condition.
    pub(crate) message: String,
}

/// What a finding costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The whole rule answers 500.
    RuleFails,
    /// A reference can't be resolved; its share answers 500.
    RefUnresolved,
}

/// Whether a policy protects the route that this version can't honour. Such a route must not be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    None,
    Unsupported,
}

/// What compiling collects on its way.
pub(super) struct Compilation<'a, 'r> {
    reader: &'r Reader<'a>,
    namespace: &'a str,
    protection: Protection,
    rule: usize,
    backends: Vec<BackendId>,
    findings: Vec<RuleFinding>,
    wanting: Vec<(BackendPort, Use)>,
}

impl Compilation<'_, '_> {
    fn fail(&mut self, reason: &'static str, message: impl Into<String>) {
        self.note(Effect::RuleFails, reason, message);
    }

    fn note(&mut self, effect: Effect, reason: &'static str, message: impl Into<String>) {
        self.findings.push(RuleFinding {
            rule: self.rule,
            effect,
            reason,
            message: message.into(),
        });
    }

    /// Whether the rule must answer 500 instead of what it says.
    fn is_closed(&self) -> bool {
        self.protection == Protection::Unsupported
            || self
                .findings
                .iter()
                .any(|f| f.rule == self.rule && f.effect == Effect::RuleFails)
    }
}

/// Compiles a route; none when it doesn't exist.
pub(crate) fn rules(reader: &Reader<'_>, route: RouteId) -> Option<Rules> {
    match route.kind {
        RouteKind::Http => reader
            .http_route(route.id)
            .map(|object| http_rules(reader, route, object)),
    }
}

fn http_rules<'a>(reader: &Reader<'a>, route: RouteId, object: &'a HttpRoute) -> Rules {
    let metadata = &object.metadata;
    let protection = match reader.is_guarded(Kind::HttpRoute, route.id) {
        true => Protection::Unsupported,
        false => Protection::None,
    };
    let mut compilation = Compilation {
        reader,
        namespace: &metadata.namespace,
        protection,
        rule: 0,
        backends: Vec::new(),
        findings: Vec::new(),
        wanting: Vec::new(),
    };
    let annotations = own_annotations(&metadata.annotations);
    let mut rules = Vec::with_capacity(object.spec.rules.len());
    for (i, rule) in object.spec.rules.iter().enumerate() {
        compilation.rule = i;
        let section = rule.name.as_deref().map(Into::into);
        let origin = Origin {
            annotations: annotations.clone(),
            ..origin::part(
                Kind::HttpRoute,
                Arc::clone(&metadata.namespace),
                Arc::clone(&metadata.name),
                section,
            )
        };
        let prefix = format!("httproute/{}/{}/rule/{i}/match/", metadata.namespace, metadata.name);
        rules.push(http_rule(&mut compilation, rule, &prefix, Arc::new([origin])));
    }
    let Compilation {
        mut backends,
        findings,
        wanting,
        ..
    } = compilation;
    backends.sort_unstable();
    backends.dedup();
    let seniority = Seniority::of(metadata);
    Rules {
        seniority,
        rules,
        backends,
        findings,
        wanting,
        generation: metadata.generation,
    }
}

/// Annotations with the product's prefix travel to the data plane.
fn own_annotations(all: &StringMap) -> Arc<[(Arc<str>, Arc<str>)]> {
    let own = all.iter().filter(|(key, _)| key.starts_with("gateway.edge/"));
    own.map(|(key, value)| (Arc::from(&**key), Arc::from(&**value)))
        .collect()
}

fn http_rule<'a>(c: &mut Compilation<'a, '_>, rule: &'a HttpRouteRule, prefix: &str, origins: Origins) -> Rule {
    let matches = matches::compile(c, &rule.matches);
    let filters = filter::compile(c, rule);
    let action = destination::compile(c, rule, &filters);
    let (action, request_headers, response_headers) = if c.is_closed() {
        (internal_error(), HeaderEdits::default(), HeaderEdits::default())
    } else {
        (action, filters.request_headers, filters.response_headers)
    };
    let route = |(match_index, matches): (usize, RouteMatch)| RankedRoute {
        rank: Rank::of(&matches),
        match_index,
        route: Arc::new(Route {
            name: format!("{prefix}{match_index}").into(),
            matches,
            action: action.clone(),
            request_headers: request_headers.clone(),
            response_headers: response_headers.clone(),
            origins: Arc::clone(&origins),
        }),
    };
    Rule {
        routes: matches.into_iter().map(route).collect(),
    }
}

/// The rules that failed as a whole.
pub(crate) fn failed_rules(rules: &Rules) -> BTreeSet<usize> {
    rules
        .findings
        .iter()
        .filter(|f| f.effect == Effect::RuleFails)
        .map(|f| f.rule)
        .collect()
}

/// Whether nothing of the route could be used.
pub(crate) fn every_rule_failed(rules: &Rules) -> bool {
    let n_failed = failed_rules(rules).len();
    n_failed > 0 && n_failed == rules.rules.len()
}

/// The answer where configuration is broken: closed, and visibly so.
pub(super) fn internal_error() -> RouteAction {
    RouteAction::Respond(DirectResponse {
        status: 500,
        body: None,
    })
}
