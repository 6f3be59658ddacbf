//! The rules of a route, compiled free of policies: they name backends by identity, and what policies decide under each
//! parent comes later (`routes/bound`).

use crate::{
    api::{
        HttpRouteRetry, HttpRouteTimeouts, Kind, LocalObjectRef, Metadata, RouteBackendRef, RouteFilter,
        RouteFilterType, SessionPersistence, StringMap,
    },
    engine::reader::Reader,
    name::{BackendPort, FilterKey, RouteId, RouteKind, Sym},
    phase::{origin, policies::custom, precedence::Seniority},
};
use edge_ir::{
    Cors, DirectResponse, FilterEffect, FilterId, FilterKind, HeaderEdits, Origin, Origins, RouteAction, RouteFilters,
    Session,
};
use smallvec::SmallVec;
use std::{collections::BTreeSet, sync::Arc};

mod admissible;
mod backend;
mod compiled;
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
pub(super) use compiled::{
    Action, Compiled, Copies, Forwarding, Limits, RankedMatch, Retries, Rule, Share, Stream, StreamTo, Tries,
};
pub(crate) use compiled::{Effect, RuleFinding, Summary, Use, Wording};
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

/// What compiling collects on its way.
pub(super) struct Compilation<'a, 'r> {
    reader: &'r Reader<'a>,
    kind: RouteKind,
    namespace: &'a str,
    name: &'a str,
    rule: RuleState,
    targets: SmallVec<[BackendPort; 2]>,
    findings: Vec<RuleFinding>,
    wanting: SmallVec<[(BackendPort, Use); 2]>,
}

/// What is collected for the rule that is compiled now.
#[derive(Default)]
struct RuleState {
    index: usize,
    /// Index of the backendRef whose filters are compiled: what is wrong with these costs its share alone.
    reference: Option<usize>,
    /// How many backends the rule names.
    n_references: usize,
    /// Its refused matches, widened.
    refused: Vec<RankedMatch>,
    /// Instances of filters that it uses.
    instances: Vec<FilterKey>,
}

impl Compilation<'_, '_> {
    fn fail(&mut self, reason: &'static str, message: impl Into<String>) {
        match self.rule.reference {
            Some(index) => destination::refuse(self, index, "InvalidBackendFilters", &message.into()),
            None => self.note(Effect::RuleFails, reason, message),
        }
    }

    fn note(&mut self, effect: Effect, reason: &'static str, message: impl Into<String>) {
        self.findings.push(RuleFinding {
            rule: self.rule.index,
            effect,
            reason,
            message: message.into(),
        });
    }

    /// Whether the rule must answer 500 instead of what it says.
    fn is_closed(&self) -> bool {
        self.findings
            .iter()
            .any(|f| f.rule == self.rule.index && matches!(f.effect, Effect::RuleFails | Effect::FilterUnresolved))
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
            rule: RuleState::default(),
            targets: SmallVec::new(),
            findings: Vec::new(),
            wanting: SmallVec::new(),
        }
    }

    fn finish(self, metadata: &Metadata, compiled: Compiled) -> Rules {
        let mut targets = self.targets;
        targets.sort_unstable();
        targets.dedup();
        let mut wanting = self.wanting;
        wanting.dedup();
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
                wanting: wanting.into_boxed_slice(),
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
        compilation.rule = RuleState {
            index: i,
            ..RuleState::default()
        };
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
    let of_backends = parts.backend_refs.iter().flat_map(|backend| &backend.filters);
    if parts.filters.iter().chain(of_backends).any(may_guard) {
        matches.append(&mut c.rule.refused);
    }
    let name = parts.name.map(|name| c.reader.sym(name));
    let mut filters = filter::compile(c, &parts);
    let preflights = filters.cors.is_some().then(|| cors::preflights(&matches));
    match filters.cookies.take() {
        None => {}
        Some(Ok(lists)) => {
            matches = matches::with_cookies(&lists, matches);
            // As many for each match, in names too.
            c.rule.refused.iter_mut().for_each(|one| one.index *= lists.len());
        }
        // What the rule is meant for is narrower than its matches say, and nobody knows by how much.
        Some(Err(_)) => c.rule.refused.extend(matches.drain(..).map(|written| RankedMatch {
            wording: Wording::Widened,
            ..written
        })),
    }
    let action = destination::compile(c, &parts, &mut filters);
    let session = session::compile(c, &parts);
    let is_closed = c.is_closed();
    let RuleState {
        refused, mut instances, ..
    } = std::mem::take(&mut c.rule);
    if is_closed {
        return closed_rule(name, matches, refused, origins);
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

/// A rule that answers 500 to whatever it is for.
fn closed_rule(name: Option<Sym>, matches: Vec<RankedMatch>, refused: Vec<RankedMatch>, origins: Origins) -> Rule {
    Rule {
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
