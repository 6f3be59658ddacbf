//! The rules of a route, compiled once for all listeners that it attaches to.

use crate::{
    api::{HttpRouteRetry, HttpRouteTimeouts, Kind, Metadata, RouteBackendRef, RouteFilter, StringMap},
    engine::reader::Reader,
    name::{BackendId, BackendPort, Encryption, FilterKey, RouteId, RouteKind},
    phase::{
        origin,
        policies::guard,
        precedence::{Rank, Seniority},
    },
};
use edge_ir::{
    Cors, DirectResponse, FilterEffect, FilterId, FilterKind, HeaderEdits, Origin, Origins, Route, RouteAction,
    RouteFilters, RouteMatch, StreamProxy,
};
use smallvec::SmallVec;
use std::{collections::BTreeSet, fmt::Write, sync::Arc};

mod admissible;
mod backend;
mod cors;
mod destination;
mod expression;
mod filter;
mod grpc_matches;
mod matches;
mod stream;

/// A route's rules.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rules {
    /// Age and name, which decide between routes.
    pub(crate) seniority: Seniority,
    /// What the rules do.
    pub(crate) compiled: Compiled,
    /// Backends that the rules send traffic to, mirrors included, sorted.
    backends: SmallVec<[BackendId; 2]>,
    /// Backends that the rules lead to, those included that can't be trusted, sorted.
    pub(crate) targets: SmallVec<[BackendPort; 2]>,
    /// Filters that the rules need on the chains of whoever serves them, sorted.
    pub(crate) filters: Vec<FilterKey>,
    /// What is wrong.
    findings: Vec<RuleFinding>,
    /// Backends whose lack of endpoints is worth a word, and what they are used for.
    pub(crate) wanting: SmallVec<[(BackendPort, Use); 2]>,
    /// Generation of the object, for its status.
    pub(crate) generation: i64,
}

impl Rules {
    fn sealed(&self, encryption: Encryption) -> Option<&Sealed> {
        match &self.compiled {
            Compiled::Stream(streams) if encryption == Encryption::Client => streams.sealed.as_deref(),
            _ => None,
        }
    }

    /// Backends that traffic of listeners goes to, mirrors included, sorted.
    pub(crate) fn backends(&self, encryption: Encryption) -> &[BackendId] {
        self.sealed(encryption)
            .map_or(&self.backends, |sealed| &sealed.backends)
    }

    /// What is wrong on listeners.
    pub(crate) fn findings(&self, encryption: Encryption) -> &[RuleFinding] {
        self.sealed(encryption)
            .map_or(&self.findings, |sealed| &sealed.findings)
    }

    /// How many rules there are.
    pub(crate) fn n_rules(&self) -> usize {
        match &self.compiled {
            Compiled::Http(rules) => rules.len(),
            Compiled::Stream(_) => 1,
        }
    }
}

/// What the rules of a route do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Compiled {
    /// Rules of an HTTPRoute or GRPCRoute, in its order.
    Http(Vec<Rule>),
    /// The one rule of a TLSRoute, TCPRoute or UDPRoute.
    Stream(Streams),
}

/// What a stream route does, on listeners of either kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Streams {
    /// With bytes that the listener has before it in clear.
    open: StreamProxy,
    /// With TLS that passes through, where that makes a difference.
    sealed: Option<Box<Sealed>>,
}

/// What a route does with TLS that passes through.
#[derive(Clone, Debug, PartialEq)]
struct Sealed {
    stream: StreamProxy,
    /// Backends that it sends traffic to, sorted.
    backends: SmallVec<[BackendId; 2]>,
    findings: Vec<RuleFinding>,
}

impl Streams {
    /// Where connections of a listener go.
    pub(crate) fn on(&self, encryption: Encryption) -> &StreamProxy {
        match (&self.sealed, encryption) {
            (Some(sealed), Encryption::Client) => &sealed.stream,
            _ => &self.open,
        }
    }
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
    kind: RouteKind,
    namespace: &'a str,
    protection: Protection,
    /// Who encrypts what goes to backends.
    encryption: Encryption,
    rule: usize,
    /// How many backends the rule names.
    n_references: usize,
    backends: SmallVec<[BackendId; 2]>,
    targets: SmallVec<[BackendPort; 2]>,
    filters: Vec<FilterKey>,
    findings: Vec<RuleFinding>,
    wanting: SmallVec<[(BackendPort, Use); 2]>,
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
        RouteKind::Http => {
            let object = reader.http_route(route.id)?;
            Some(host_rules(reader, route, &object.metadata, &object.spec.rules))
        }
        RouteKind::Grpc => {
            let object = reader.grpc_route(route.id)?;
            Some(host_rules(reader, route, &object.metadata, &object.spec.rules))
        }
        RouteKind::Tls => {
            let object = reader.tls_route(route.id)?;
            Some(stream::rules(reader, route, &object.metadata, &object.spec.rules))
        }
        RouteKind::Tcp => {
            let object = reader.tcp_route(route.id)?;
            Some(stream::rules(reader, route, &object.metadata, &object.spec.rules))
        }
        RouteKind::Udp => {
            let object = reader.udp_route(route.id)?;
            Some(stream::rules(reader, route, &object.metadata, &object.spec.rules))
        }
    }
}

impl<'a, 'r> Compilation<'a, 'r> {
    fn new(reader: &'r Reader<'a>, route: RouteId, metadata: &'a Metadata) -> Self {
        let protection = match guard::covers_route(reader, route) {
            true => Protection::Unsupported,
            false => Protection::None,
        };
        Self {
            reader,
            kind: route.kind,
            namespace: &metadata.namespace,
            protection,
            encryption: Encryption::Policy,
            rule: 0,
            n_references: 0,
            backends: SmallVec::new(),
            targets: SmallVec::new(),
            filters: Vec::new(),
            findings: Vec::new(),
            wanting: SmallVec::new(),
        }
    }

    fn finish(self, metadata: &Metadata, compiled: Compiled) -> Rules {
        let Self {
            mut backends,
            mut targets,
            mut filters,
            findings,
            wanting,
            ..
        } = self;
        backends.sort_unstable();
        backends.dedup();
        targets.sort_unstable();
        targets.dedup();
        filters.sort_unstable();
        filters.dedup();
        let seniority = Seniority::of(metadata);
        Rules {
            seniority,
            compiled,
            backends,
            targets,
            filters,
            findings,
            wanting,
            generation: metadata.generation,
        }
    }
}

/// What rules of HTTPRoute and GRPCRoute have in common.
#[derive(Clone, Copy)]
struct RuleParts<'a> {
    name: Option<&'a str>,
    filters: &'a [RouteFilter],
    backend_refs: &'a [RouteBackendRef],
    timeouts: Option<&'a HttpRouteTimeouts>,
    retry: Option<&'a HttpRouteRetry>,
    /// What a ReplacePrefixMatch replaces.
    prefix: Option<&'a str>,
}

/// A rule of a kind that stands in virtual hosts.
trait HostRule {
    /// What doesn't depend on the kind.
    fn parts(&self) -> RuleParts<'_>;

    /// Its matches with their rank, each with its index. A match that can't be compiled is left out, and the rule fails.
    fn matches(&self, c: &mut Compilation<'_, '_>) -> Vec<(usize, RouteMatch, Rank)>;
}

fn host_rules<'a, R: HostRule>(reader: &Reader<'a>, route: RouteId, metadata: &'a Metadata, rules: &'a [R]) -> Rules {
    let kind = route.kind.kind();
    let mut compilation = Compilation::new(reader, route, metadata);
    let annotations = own_annotations(&metadata.annotations);
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let mut names = RouteNames::new(kind, metadata);
    let compiled = rules.iter().enumerate().map(|(i, rule)| {
        compilation.rule = i;
        let section = rule.parts().name.map(Into::into);
        let origin = Origin {
            annotations: annotations.clone(),
            ..origin::part(kind, Arc::clone(namespace), Arc::clone(name), section)
        };
        host_rule(&mut compilation, rule, &mut names, Arc::new([origin]))
    });
    let compiled = Compiled::Http(compiled.collect());
    compilation.finish(metadata, compiled)
}

/// Annotations with the product's prefix travel to the data plane.
fn own_annotations(all: &StringMap) -> Arc<[(Arc<str>, Arc<str>)]> {
    let mut own = all
        .iter()
        .filter(|(key, _)| key.starts_with("gateway.edge/"))
        .peekable();
    if own.peek().is_none() {
        // Nearly all objects, and this allocates nothing.
        return Arc::default();
    }
    own.map(|(key, value)| (Arc::from(&**key), Arc::from(&**value)))
        .collect()
}

/// Names of the routes of an object. What they have in common is written once.
struct RouteNames {
    text: String,
    /// Length of the part that stays.
    object: usize,
}

impl RouteNames {
    fn new(kind: Kind, metadata: &Metadata) -> Self {
        let mut text = String::with_capacity(kind.as_str().len() + metadata.namespace.len() + metadata.name.len() + 32);
        text.push_str(kind.as_str());
        text.make_ascii_lowercase();
        for part in ["/", &*metadata.namespace, "/", &*metadata.name] {
            text.push_str(part);
        }
        let object = text.len();
        Self { text, object }
    }

    fn of(&mut self, rule: usize, match_index: usize) -> Arc<str> {
        self.text.truncate(self.object);
        // Writing to a string can't fail.
        let _ = write!(self.text, "/rule/{rule}/match/{match_index}");
        Arc::from(&*self.text)
    }
}

fn host_rule<'a, R: HostRule>(
    c: &mut Compilation<'a, '_>,
    rule: &'a R,
    names: &mut RouteNames,
    origins: Origins,
) -> Rule {
    let parts = rule.parts();
    let n_backends = c.backends.len();
    let matches = rule.matches(c);
    let filters = filter::compile(c, &parts);
    let action = destination::compile(c, &parts, &filters);
    let (action, request_headers, response_headers, used) = if c.is_closed() {
        let none = (HeaderEdits::default(), HeaderEdits::default(), RouteFilters::default());
        (internal_error(), none.0, none.1, none.2)
    } else {
        let used = used(filters.cors);
        (action, filters.request_headers, filters.response_headers, used)
    };
    if !matches.is_empty() {
        c.filters
            .extend(used.iter().map(|filter| filter_key(c.reader, &filter.id)));
    }
    if !matches!(action, RouteAction::Forward(_)) {
        // Nothing goes to the backends of a rule that answers by itself, so the fleet needn't know them.
        c.backends.truncate(n_backends);
    }
    // The last match takes what the others get copies of.
    let effects = std::iter::repeat_n((action, request_headers, response_headers), matches.len());
    let mut routes = Vec::with_capacity(matches.len());
    for ((match_index, matches, rank), (action, request_headers, response_headers)) in matches.into_iter().zip(effects)
    {
        let route = Arc::new(Route {
            name: names.of(c.rule, match_index),
            matches,
            action,
            request_headers,
            response_headers,
            filters: Arc::clone(&used),
            origins: Arc::clone(&origins),
        });
        routes.push(RankedRoute {
            rank,
            match_index,
            route,
        });
    }
    Rule { routes }
}

/// The filters that a rule uses.
fn used(cors: Option<Arc<Cors>>) -> RouteFilters {
    let cors = cors.map(|rules| edge_ir::RouteFilter {
        id: FilterId::shared(FilterKind::Cors),
        effect: FilterEffect::Cors(rules),
    });
    match cors {
        // Nearly all rules, and this allocates nothing.
        None => RouteFilters::default(),
        Some(cors) => Arc::new([cors]),
    }
}

/// An instance in interned words.
fn filter_key(reader: &Reader<'_>, id: &FilterId) -> FilterKey {
    FilterKey {
        kind: id.kind,
        owner: reader.sym(&id.owner),
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
    n_failed > 0 && n_failed == rules.n_rules()
}

/// The answer where configuration is broken: closed, and visibly so.
pub(super) fn internal_error() -> RouteAction {
    RouteAction::Respond(DirectResponse {
        status: 500,
        body: None,
    })
}
