//! The rules of a route, compiled free of policies: they name backends by identity, and what policies decide under each
//! parent comes later (`routes/bound`).

use crate::{
    api::{
        HttpRouteRetry, HttpRouteTimeouts, Kind, LocalObjectRef, Metadata, RouteBackendRef, RouteFilter,
        RouteFilterType, SessionPersistence, StringMap,
    },
    engine::reader::Reader,
    name::{BackendId, BackendPort, FilterKey, RouteId, RouteKind, Sym},
    phase::{
        origin,
        policies::custom,
        precedence::{Rank, Seniority},
    },
};
use edge_ir::{
    Cors, CustomObjects, DirectResponse, FilterEffect, FilterId, FilterKind, Fraction, HeaderEdits, Origin, Origins,
    RetryPolicy, RouteAction, RouteFilters, RouteMatch, Session, Timeout,
};
use smallvec::SmallVec;
use std::{collections::BTreeSet, sync::Arc};

mod admissible;
mod backend;
mod cors;
mod destination;
pub(crate) mod expression;
mod extension;
mod filter;
mod grpc_matches;
mod matches;
mod session;
mod standby;
mod stream;
mod widened;

// What policies say of requests is judged as what rules say.
pub(in crate::phase) use admissible::{field_name, is_field_value, is_token, path as check_path};
pub(in crate::phase) use cors::origin;
pub(in crate::phase) use expression::check as check_expression;
pub(super) use filter::Rewrite;
pub(super) use standby::hindrance;

/// A route's rules.
pub(super) struct Rules {
    /// What holds of them wherever they serve.
    pub(super) summary: Summary,
    /// What they do.
    pub(super) compiled: Compiled,
}

/// What holds of a route's rules wherever they serve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Age and name, which decide between routes.
    pub(crate) seniority: Seniority,
    /// How many rules there are.
    pub(crate) n_rules: usize,
    /// Backends that the rules lead to, those included that can't be trusted, sorted.
    pub(crate) targets: SmallVec<[BackendPort; 1]>,
    /// What is wrong.
    pub(crate) findings: Vec<RuleFinding>,
    /// Backends whose lack of endpoints is worth a word, and what they are used for.
    pub(crate) wanting: Box<[(BackendPort, Use)]>,
    /// Generation of the object, for its status.
    pub(crate) generation: i64,
}

/// What the rules of a route do.
#[derive(Clone)]
pub(super) enum Compiled {
    /// Rules of an HTTPRoute or GRPCRoute, in its order.
    Http(Vec<Rule>),
    /// The one rule of a TLSRoute, TCPRoute or UDPRoute.
    Stream(Stream),
}

/// One rule of an HTTPRoute or GRPCRoute.
#[derive(Clone)]
pub(super) struct Rule {
    /// Its name.
    pub(super) name: Option<Sym>,
    /// Its matches.
    pub(super) matches: Vec<RankedMatch>,
    /// Matches that are refused, widened to all that they may be meant for: where the rule is guarded, these requests
    /// must not fall to another.
    pub(super) refused: Vec<RankedMatch>,
    /// What it does with a request.
    pub(super) action: Action,
    /// Edits to requests.
    pub(super) request_headers: HeaderEdits,
    /// Edits to responses.
    pub(super) response_headers: HeaderEdits,
    /// Filters that it uses.
    pub(super) filters: RouteFilters,
    /// What extension services are shown with it.
    pub(super) custom: Option<Arc<CustomObjects>>,
    /// The instances that it and its backends use.
    pub(super) instances: Vec<FilterKey>,
    /// The route and rule.
    pub(super) origins: Origins,
}

/// A match of a rule.
#[derive(Clone)]
pub(super) struct RankedMatch {
    /// Its index in the rule.
    pub(super) index: usize,
    /// What it asks for.
    pub(super) matches: RouteMatch,
    /// Its rank.
    pub(super) rank: Rank,
    /// Whose words these are.
    pub(super) wording: Wording,
}

/// Whose words a match is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// Those of the route.
    Written,
    /// Ours: it is one that was refused, widened to all that it may be meant for.
    Widened,
    /// Ours: a preflight of what one of the route is for.
    Implied,
}

/// What a rule does with a request.
#[derive(Clone)]
pub(super) enum Action {
    /// Send it to a backend.
    Forward(Forwarding),
    /// Answer it.
    Answer(RouteAction),
}

/// How a request is sent on, as [`edge_ir::Forward`], with backends by identity.
#[derive(Clone)]
pub(super) struct Forwarding {
    /// Backends, in the order of the rule.
    pub(super) shares: Vec<Share>,
    /// Weight of references that lead nowhere.
    pub(super) invalid_weight: u32,
    /// Time limits.
    pub(super) limits: Limits,
    /// When to try again.
    pub(super) retry: Retries,
    /// What becomes of the host and the path.
    pub(super) rewrite: Rewrite,
    /// Who gets copies.
    pub(super) mirrors: Vec<Copies>,
}

/// The time limits that a rule writes.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// For the whole exchange.
    pub(super) whole: Option<Timeout>,
    /// For one try.
    pub(super) one_try: Option<Timeout>,
}

impl Limits {
    /// The limit for the whole exchange. Without retries the limit for a try is one for the whole.
    pub(super) fn of_exchange(self, tries: Tries) -> Option<Timeout> {
        match (self.whole, self.one_try, tries) {
            (whole, _, Tries::Several) => whole,
            (Some(Timeout(0)) | None, Some(one_try), Tries::One) => Some(one_try),
            (Some(whole), None | Some(Timeout(0)), Tries::One) => Some(whole),
            (Some(whole), Some(one_try), Tries::One) => Some(whole.min(one_try)),
            (None, None, Tries::One) => None,
        }
    }
}

/// How often a request is tried.
#[derive(Clone, Copy)]
pub(super) enum Tries {
    /// Once.
    One,
    /// Again, after some failures.
    Several,
}

/// What a rule says of retries.
#[derive(Clone)]
pub(super) enum Retries {
    /// Nothing.
    Unsaid,
    /// That there are none, whatever policies say.
    Never,
    /// When.
    When(RetryPolicy),
}

/// A backend of a rule.
#[derive(Clone)]
pub(super) struct Share {
    /// The backend.
    pub(super) backend: BackendId,
    /// Its weight; 0 keeps its cluster ready and sends nothing there.
    pub(super) weight: u32,
    /// How far behind others it stands; 0 is used first.
    pub(super) priority: u32,
    /// Edits to requests that go to it.
    pub(super) request_headers: HeaderEdits,
    /// Edits to its responses.
    pub(super) response_headers: HeaderEdits,
    /// Replaces the host for requests that go to it.
    pub(super) host_rewrite: Option<Arc<str>>,
    /// Rewrites that a proxy knows of routes alone, where there are other backends: it has a route of its own then.
    pub(super) rewrite: Option<Box<Rewrite>>,
    /// Filters that requests to it use.
    pub(super) filters: RouteFilters,
}

/// A backend of a stream.
#[derive(Clone, Copy)]
pub(super) struct StreamTo {
    /// Which one.
    pub(super) backend: BackendId,
    /// Its weight.
    pub(super) weight: u32,
    /// How far behind others it stands; 0 is used first.
    pub(super) priority: u32,
}

/// A backend that gets copies.
#[derive(Clone)]
pub(super) struct Copies {
    /// The backend.
    pub(super) backend: BackendId,
    /// Of how many requests.
    pub(super) fraction: Fraction,
}

/// Where connections or datagrams go.
#[derive(Clone)]
pub(super) struct Stream {
    /// The name of the rule, where there is one rule.
    pub(super) name: Option<Sym>,
    /// Backends with their weights.
    pub(super) shares: Vec<StreamTo>,
    /// Weight of references that lead nowhere.
    pub(super) invalid_weight: u32,
    /// The route.
    pub(super) origins: Origins,
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
    /// A filter that the rule refers to isn't there; the whole rule answers 500.
    FilterUnresolved,
    /// A reference can't be resolved; its share answers 500.
    RefUnresolved,
    /// The backend's own settings can't be honoured; its share answers 500 wherever no context changes them.
    BackendRefused,
    /// Nothing but what it says: the rest of the rule holds.
    FallsShort,
}

/// What compiling collects on its way.
pub(super) struct Compilation<'a, 'r> {
    reader: &'r Reader<'a>,
    kind: RouteKind,
    namespace: &'a str,
    name: &'a str,
    rule: usize,
    /// Index of the backendRef whose filters are compiled: what is wrong with these costs its share alone.
    reference: Option<usize>,
    /// How many backends the rule names.
    n_references: usize,
    targets: SmallVec<[BackendPort; 2]>,
    /// Refused matches of the rule, widened.
    refused: Vec<RankedMatch>,
    /// Instances of filters that the rule uses.
    instances: Vec<FilterKey>,
    findings: Vec<RuleFinding>,
    wanting: SmallVec<[(BackendPort, Use); 2]>,
}

impl Compilation<'_, '_> {
    fn fail(&mut self, reason: &'static str, message: impl Into<String>) {
        match self.reference {
            Some(index) => destination::refuse(self, index, "InvalidBackendFilters", &message.into()),
            None => self.note(Effect::RuleFails, reason, message),
        }
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
        self.findings
            .iter()
            .any(|f| f.rule == self.rule && matches!(f.effect, Effect::RuleFails | Effect::FilterUnresolved))
    }
}

/// Compiles a route; none when it doesn't exist.
pub(super) fn rules(reader: &Reader<'_>, route: RouteId) -> Option<Rules> {
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
        Self {
            reader,
            kind: route.kind,
            namespace: &metadata.namespace,
            name: &metadata.name,
            rule: 0,
            reference: None,
            n_references: 0,
            targets: SmallVec::new(),
            refused: Vec::new(),
            instances: Vec::new(),
            findings: Vec::new(),
            wanting: SmallVec::new(),
        }
    }

    fn finish(self, metadata: &Metadata, compiled: Compiled) -> Rules {
        let mut targets = self.targets;
        targets.sort_unstable();
        targets.dedup();
        let n_rules = match &compiled {
            Compiled::Http(rules) => rules.len(),
            Compiled::Stream(_) => 1,
        };
        Rules {
            summary: Summary {
                seniority: Seniority::of(metadata),
                n_rules,
                targets: targets.into_iter().collect(),
                findings: self.findings,
                wanting: self.wanting.into_boxed_slice(),
                generation: metadata.generation,
            },
            compiled,
        }
    }
}

impl Rules {
    /// Lets extension services be shown policies with the rules that they are over.
    pub(super) fn show(&mut self, reader: &Reader<'_>, over: &custom::OverRoute) {
        let over = custom::of_route(reader, over);
        if let Compiled::Http(rules) = &mut self.compiled
            && !over.is_empty()
        {
            for rule in rules {
                rule.custom = custom::with_policies(rule.custom.take(), rule.name, &over);
            }
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
    session: Option<&'a SessionPersistence>,
    /// What a ReplacePrefixMatch replaces.
    prefix: Option<&'a str>,
}

/// A rule of a kind that stands in virtual hosts.
trait HostRule {
    /// What doesn't depend on the kind.
    fn parts(&self) -> RuleParts<'_>;

    /// Its matches. A match that can't be compiled is left out, and the rule fails.
    fn matches(&self, c: &mut Compilation<'_, '_>) -> Vec<RankedMatch>;
}

fn host_rules<'a, R: HostRule>(reader: &Reader<'a>, route: RouteId, metadata: &'a Metadata, rules: &'a [R]) -> Rules {
    let kind = route.kind.kind();
    let mut compilation = Compilation::new(reader, route, metadata);
    let annotations = own_annotations(&metadata.annotations);
    let (namespace, name) = (&metadata.namespace, &metadata.name);
    let origins = |section: Option<&str>| -> Origins {
        let whole = origin::part(kind, Arc::clone(namespace), Arc::clone(name), section.map(Into::into));
        Arc::new([Origin {
            annotations: Arc::clone(&annotations),
            ..whole
        }])
    };
    // Rules without a name come from the route, and share that.
    let of_route = origins(None);
    let compiled = rules.iter().enumerate().map(|(i, rule)| {
        compilation.rule = i;
        let own = rule.parts().name.map(|name| origins(Some(name)));
        host_rule(&mut compilation, rule, own.unwrap_or_else(|| Arc::clone(&of_route)))
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
    own.map(|(key, value)| (Arc::from(key), Arc::from(value))).collect()
}

fn host_rule<'a, R: HostRule>(c: &mut Compilation<'a, '_>, rule: &'a R, origins: Origins) -> Rule {
    let parts = rule.parts();
    let mut matches = rule.matches(c);
    let mut refused = std::mem::take(&mut c.refused);
    let of_backends = parts.backend_refs.iter().flat_map(|backend| &backend.filters);
    if parts.filters.iter().chain(of_backends).any(may_guard) {
        matches.append(&mut refused);
    }
    let name = parts.name.map(|name| c.reader.sym(name));
    let mut filters = filter::compile(c, &parts);
    let preflights = filters.cors.is_some().then(|| cors::preflights(&matches));
    match filters.cookies.take() {
        None => {}
        Some(Ok(lists)) => {
            matches = matches::with_cookies(&lists, matches);
            // As many for each match, in names too.
            refused.iter_mut().for_each(|one| one.index *= lists.len());
        }
        // What the rule is meant for is narrower than its matches say, and nobody knows by how much.
        Some(Err(_)) => refused.extend(matches.drain(..).map(|written| RankedMatch {
            wording: Wording::Widened,
            ..written
        })),
    }
    let action = destination::compile(c, &parts, &mut filters);
    let session = session::compile(c, &parts);
    let mut instances = std::mem::take(&mut c.instances);
    if c.is_closed() {
        return Rule {
            name,
            matches,
            refused,
            action: Action::Answer(internal_error()),
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            filters: RouteFilters::default(),
            custom: None,
            instances: Vec::new(),
            origins,
        };
    }
    // Names of others stay as they are.
    let next = matches.last().map_or(0, |last| last.index + 1);
    matches.extend(preflights.into_iter().flatten().map(|one| RankedMatch {
        index: next + one.index,
        ..one
    }));
    let filters_used = used(filters.cors, session, [filters.credential, filters.resolved]);
    instances.extend(
        filters_used
            .iter()
            .filter(|f| f.id.owner.is_empty())
            .map(|f| FilterKey::shared(f.id.kind)),
    );
    Rule {
        name,
        matches,
        refused,
        action,
        request_headers: filters.request_headers,
        response_headers: filters.response_headers,
        filters: filters_used,
        custom: filters.custom.shared(),
        instances,
        origins,
    }
}

/// Whether a filter that this version can't honour may be what keeps requests out: one that asks for authorization, or
/// one of which nobody knows what it does.
fn may_guard(filter: &RouteFilter) -> bool {
    use RouteFilterType as F;
    let is_ours = |r: &LocalObjectRef| Kind::of(&r.group, &r.kind) == Some(Kind::HttpRouteFilter);
    match filter.r#type {
        F::ExternalAuth | F::Other(_) => true,
        F::ExtensionRef => !filter.extension_ref.as_deref().is_some_and(is_ours),
        _ => false,
    }
}

/// The filters that a rule uses, in the order of their kinds. Nearly all rules use none, and that allocates nothing.
fn used(cors: Option<Arc<Cors>>, session: Option<Session>, others: [Option<edge_ir::RouteFilter>; 2]) -> RouteFilters {
    let shared = |kind, effect| edge_ir::RouteFilter {
        id: FilterId::shared(kind),
        effect,
    };
    let cors = cors.map(|rules| shared(FilterKind::Cors, FilterEffect::Cors(rules)));
    let session = session.map(|session| shared(FilterKind::StatefulSession, FilterEffect::Session(Arc::new(session))));
    match (cors, session, others) {
        (None, None, [None, None]) => RouteFilters::default(),
        (cors, session, others) => cors
            .into_iter()
            .chain(session)
            .chain(others.into_iter().flatten())
            .collect(),
    }
}

/// The rules that failed as a whole.
pub(crate) fn failed_rules(rules: &Summary) -> BTreeSet<usize> {
    rules
        .findings
        .iter()
        .filter(|f| f.effect == Effect::RuleFails)
        .map(|f| f.rule)
        .collect()
}

/// Whether nothing of the route could be used.
pub(crate) fn every_rule_failed(rules: &Summary) -> bool {
    let n_failed = failed_rules(rules).len();
    n_failed > 0 && n_failed == rules.n_rules
}

/// The answer where configuration is broken: closed, and visibly so.
pub(super) fn internal_error() -> RouteAction {
    RouteAction::Respond(DirectResponse {
        status: 500,
        body: None,
    })
}
