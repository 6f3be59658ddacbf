//! Binding: what a route's rules become under its parents.
//!
//! Rules are compiled once, free of policies; then they are bound once for each context that the route's parents give
//! it: backends become clusters of the variant that the context asks for, and what is closed answers 500. Listeners
//! with the same context share what is bound, and nearly every route has one context, that of no policy at all.
//!
//! What is compiled isn't kept: beside what is bound it would be nearly half of a route once more, and it would save a
//! fifth of the work, where a policy or a listener changes and its routes don't.

use super::{
    attach::Attachments,
    filters::{merged, needed},
    load_reports, route_names,
    rules::{
        self, Action, Compiled, Forwarding, RankedMatch, Rewrite, Rule, RuleFinding, Stream, StreamTo, Summary,
        Wording, internal_error,
    },
    stat_name,
    uses::{Uses, uses},
};
use crate::{
    engine::reader::Reader,
    name::{
        BackendId, BackendPort, Context, ContextId, Decision, Encryption, Extending, Extension, FilterKey, ListenerId,
        PolicyFilters, Protection, RouteId, RouteKind, Security, Streams, Sym, TableRef, Traffic, Treatment, VariantId,
    },
    own_host,
    phase::{
        backends::{asked, endpoints::is_of_request, settings},
        policies::traffic,
        precedence::{Position, Rank},
    },
};
use edge_ir::{
    BackendShare, Destination, FilterKind, Forward, Fraction, HashInput, Mirror, NamedAt, Origins, Route, RouteAction,
    RouteEffect, RouteFilters, RouteName, Seldom, StreamProxy, StreamShare, Timeout,
};
use smallvec::SmallVec;
use std::sync::Arc;

mod counted;
mod in_vain;
mod joined;
mod tries;
mod unresolved;
mod ways;

pub(super) use in_vain::at as in_vain_at;
pub(crate) use in_vain::{Futile, InVain, Reach, says};
use tries::{limit, retry};
use ways::{Parts, ways, whole};

/// A route, bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    /// What holds wherever it serves.
    pub(crate) summary: Summary,
    /// Its rules under each context that it has, in order of the context.
    bindings: Bindings,
    /// What it uses.
    pub(crate) uses: Uses,
}

/// Rules by context.
pub(super) type Bindings = SmallVec<[(ContextId, Binding); 1]>;

/// The rules of a route under a context.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binding {
    /// What they do.
    pub(crate) serves: Serves,
    /// Backends that they send traffic to, mirrors included, sorted.
    pub(crate) backends: SmallVec<[BackendId; 1]>,
    /// Filters that they need on the chains of whoever serves them, sorted.
    pub(crate) filters: Seldom<FilterKey>,
    /// What is asked of these backends in vain, by rule, sorted; mostly nothing.
    in_vain: Seldom<(Option<Sym>, Futile)>,
}

/// What bound rules do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Serves {
    /// With requests: one route a match, in order.
    Http(Vec<RankedRoute>),
    /// With connections or datagrams.
    Stream(Box<StreamProxy>),
}

/// A route with what decides about its place among routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedRoute {
    /// Rank of its match.
    pub(crate) rank: Rank,
    /// Where it stands.
    pub(crate) position: Position,
    /// Whose words its match is in.
    pub(crate) wording: Wording,
    /// The route.
    pub(crate) route: Arc<Route>,
}

impl Bound {
    /// The rules under a context that the route has.
    pub(crate) fn under(&self, context: ContextId) -> Option<&Binding> {
        under(&self.bindings, context)
    }

    /// What is known of its matches, whatever the context: of all bindings the one with the most.
    pub(crate) fn any_http(&self) -> &[RankedRoute] {
        let lists = self.bindings.iter().map(|(_, binding)| match &binding.serves {
            Serves::Http(list) => list.as_slice(),
            Serves::Stream(_) => &[],
        });
        lists.max_by_key(|list| list.len()).unwrap_or_default()
    }
}

pub(super) fn under(bindings: &Bindings, context: ContextId) -> Option<&Binding> {
    bindings
        .iter()
        .find(|(known, _)| *known == context)
        .map(|(_, binding)| binding)
}

/// Compiles a route and binds it; none when it doesn't exist.
pub(crate) fn bound(reader: &Reader<'_>, route: RouteId) -> Option<Bound> {
    let attachments = reader.attachments(route)?;
    let mut rules = rules::rules(reader, route)?;
    rules.show(reader, &attachments.custom);
    let contexts = contexts(attachments);
    let names = route_names::beginning(route.kind, &rules.summary.seniority);
    // The last context takes what the others get copies of.
    let copies = std::iter::repeat_n(rules.compiled, contexts.len());
    let findings = &mut rules.summary.findings;
    let bindings = contexts.into_iter().zip(copies);
    let bindings: Bindings = bindings
        .map(|(context, compiled)| {
            let binding = bind(reader, route.kind, context, compiled, &names, findings);
            (context, binding)
        })
        .collect();
    let uses = uses(reader, route.kind, attachments, &rules.summary, &bindings);
    Some(Bound {
        summary: rules.summary,
        bindings,
        uses,
    })
}

/// Where a TLSRoute, TCPRoute or UDPRoute sends what a listener takes.
pub(crate) fn stream<'a>(reader: &Reader<'a>, route: RouteId, listener: ListenerId) -> Option<&'a StreamProxy> {
    let context = reader.attachments(route)?.context_at(listener)?;
    match &reader.bound(route)?.under(context)?.serves {
        Serves::Stream(stream) => Some(stream),
        Serves::Http(_) => None,
    }
}

/// The contexts of a route, each once.
fn contexts(attachments: &Attachments) -> SmallVec<[ContextId; 2]> {
    let mut contexts: SmallVec<[ContextId; 2]> = attachments.attached().map(|a| a.context).collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts
}

fn bind(
    reader: &Reader<'_>,
    kind: RouteKind,
    context: ContextId,
    compiled: Compiled,
    names: &Arc<str>,
    findings: &mut Vec<RuleFinding>,
) -> Binding {
    let mut binder = Binder {
        reader,
        kind,
        context: reader.context(context),
        rule: 0,
        backends: SmallVec::new(),
        filters: Vec::new(),
        in_vain: Vec::new(),
        findings: Vec::new(),
    };
    let serves = match compiled {
        Compiled::Http(rules) => Serves::Http(binder.http(rules, names)),
        Compiled::Stream(stream) => Serves::Stream(Box::new(binder.stream(stream))),
    };
    let Binder {
        mut backends,
        mut filters,
        mut in_vain,
        findings: short,
        ..
    } = binder;
    for finding in short {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    backends.sort_unstable();
    backends.dedup();
    filters.sort_unstable();
    filters.dedup();
    in_vain.sort_unstable();
    in_vain.dedup();
    Binding {
        serves,
        backends: backends.into_iter().collect(),
        filters: filters.into(),
        in_vain: in_vain.into(),
    }
}

/// A server name has no port: servers of TLS are found at that of HTTPS (RFC 9110 §4.2.2).
const NAMED_AT: u16 = 443;

/// Filters of every listener with a GRPCRoute.
const FOR_CALLS: [FilterKind; 2] = [FilterKind::GrpcWeb, FilterKind::GrpcStats];

/// What binding knows and collects.
struct Binder<'a, 'r> {
    reader: &'r Reader<'a>,
    kind: RouteKind,
    context: TableRef<'a, Context>,
    /// The rule that is being bound.
    rule: usize,
    backends: SmallVec<[BackendId; 2]>,
    filters: Vec<FilterKey>,
    /// What policies ask of backends in vain.
    in_vain: Vec<(Option<Sym>, Futile)>,
    /// What falls short of what the context asks for.
    findings: Vec<RuleFinding>,
}

/// What is decided for a rule that is open.
struct Due<'a> {
    /// Its name.
    rule: Option<Sym>,
    /// The clusters that it leads to.
    variant: VariantId,
    /// Others that it uses, which aren't counted under its name.
    aside: VariantId,
    traffic: TableRef<'a, Traffic>,
    security: TableRef<'a, Security>,
    extension: TableRef<'a, Extension>,
    /// What filters of these do together.
    together: RouteFilters,
}

impl Due<'_> {
    /// Filters of the policies that cover it, one entry a kind of policy.
    fn filters(&self) -> [&PolicyFilters; 3] {
        [&self.security.filters, &self.extension.filters, &self.traffic.filters]
    }

    /// Backends that these ask.
    fn asked(&self) -> impl Iterator<Item = BackendId> {
        let lists = [&self.security.backends, &self.extension.backends];
        lists.into_iter().flat_map(|list| list.iter().copied())
    }

    /// Whether not everybody may send requests to it: an extension may ask who does, too.
    fn is_guarded(&self) -> bool {
        *self.security != Security::default() || *self.extension != Extension::default()
    }
}

impl<'a> Binder<'a, '_> {
    /// What is due to a rule; none where a policy that covers it is invalid. Such a rule must not be open.
    fn due(&self, rule: Option<Sym>) -> Option<Due<'a>> {
        let Decision {
            variant,
            treatment,
            protection,
            extending,
        } = self.context.of_rule(rule);
        let (Treatment::Traffic(traffic), Protection::Policy(security), Extending::Policy(extension)) =
            (treatment, protection, extending)
        else {
            return None;
        };
        let aside = stat_name::without(self.reader, variant);
        let due = Due {
            rule,
            variant: aside,
            aside,
            traffic: self.reader.traffic(traffic),
            security: self.reader.security(security),
            extension: self.reader.extension(extension),
            together: self.reader.filters_of(security, extension, traffic),
        };
        let is_sealed = self.reader.variant(variant).encryption == Encryption::Nobody;
        let is_asked = |backend: BackendId| {
            let in_reach = !is_sealed || !settings::wants_tls(self.reader, backend.port);
            let is_fit = asked::refusal(self.reader, backend.port).is_none();
            in_reach && is_fit && settings::in_context(self.reader, backend, backend.variant).is_some()
        };
        let is_whole = due.asked().all(is_asked);
        is_whole.then_some(due)
    }

    fn http(&mut self, rules: Vec<Rule>, names: &Arc<str>) -> Vec<RankedRoute> {
        let mut routes = Vec::with_capacity(rules.iter().map(|rule| rule.matches.len()).sum());
        for (i, rule) in rules.into_iter().enumerate() {
            self.rule(i, rule, names, &mut routes);
        }
        routes
    }

    fn rule(&mut self, i: usize, mut rule: Rule, names: &Arc<str>, routes: &mut Vec<RankedRoute>) {
        self.rule = i;
        let mut due = self.due(rule.name);
        if let Some(due) = &mut due {
            let variant = self.context.of_rule(rule.name).variant;
            due.variant = stat_name::of_rule(self.reader, variant, i, &rule);
        }
        // What a refused match may have been meant for falls to no wider rule where not everybody may send to this one.
        let closed = match due.as_ref().is_none_or(Due::is_guarded) {
            true => std::mem::take(&mut rule.refused),
            false => Vec::new(),
        };
        let matches = std::mem::take(&mut rule.matches);
        let refuses = |origins: &Origins| RouteEffect::new(internal_error(), Arc::clone(origins));
        let nobody = (!closed.is_empty()).then(|| whole(refuses(&rule.origins)));
        let effects = match due {
            None => whole(refuses(&rule.origins)),
            Some(due) => {
                let needed = self.needs(&mut rule, &due);
                let effects = self.effects(rule, &due);
                if !matches.is_empty() {
                    self.filters.extend(needed);
                    self.backends.extend(due.asked());
                    self.resolve_hosts();
                }
                effects
            }
        };
        let n_parts = effects.len();
        for (matches, effects) in [(matches, effects), (closed, nobody.unwrap_or_default())] {
            let effects = effects.into_iter().map(|(portion, effect)| (portion, Arc::new(effect)));
            let effects: Parts<Arc<RouteEffect>> = effects.collect();
            let Some((last, others)) = effects.split_last() else {
                continue;
            };
            for one in matches {
                let index = one.index;
                let mut add =
                    |part: usize, (portion, effect): &(Option<Fraction>, Arc<RouteEffect>), one: RankedMatch| {
                        let name = match others.is_empty() {
                            true => RouteName::of_match(names, i, index),
                            false => RouteName::of_part(names, i, index, part),
                        };
                        routes.push(RankedRoute {
                            rank: one.rank,
                            position: Position::new(i, index * n_parts + part),
                            wording: one.wording,
                            route: Arc::new(Route {
                                name,
                                matches: one.matches,
                                portion: *portion,
                                effect: Arc::clone(effect),
                            }),
                        });
                    };
                for (part, effect) in others.iter().enumerate() {
                    add(part, effect, one.clone());
                }
                add(others.len(), last, one);
            }
        }
    }

    /// Filters that an open rule needs on chains.
    fn needs(&self, rule: &mut Rule, due: &Due<'_>) -> Vec<FilterKey> {
        let mut filters = std::mem::take(&mut rule.instances);
        filters.extend(needed(&rule.filters, due.filters()));
        if self.kind == RouteKind::Grpc {
            filters.extend(FOR_CALLS.map(FilterKey::shared));
        }
        filters
    }

    /// A backend that is what a request asks for needs a filter that resolves it.
    fn resolve_hosts(&mut self) {
        if self.backends.iter().any(|used| is_of_request(self.reader, used.port)) {
            self.filters.push(FilterKey::shared(FilterKind::DynamicForwardProxy));
        }
    }

    fn effects(&mut self, rule: Rule, due: &Due<'_>) -> Parts<RouteEffect> {
        let mut actions = self.actions(rule.action, &rule.filters, due);
        let common = RouteEffect {
            action: internal_error(),
            telemetry: None,
            request_headers: rule.request_headers.boxed(),
            response_headers: load_reports::beyond(rule.response_headers, &due.traffic).boxed(),
            filters: match rule.filters.is_empty() {
                true => RouteFilters::clone(&due.together),
                false => merged(rule.filters, &due.together),
            },
            custom: rule.custom,
            origins: rule.origins,
        };
        let last = actions.pop();
        let others = actions
            .into_iter()
            .map(|(portion, action)| (portion, acting(common.clone(), action, due)));
        let mut effects: Parts<RouteEffect> = others.collect();
        effects.extend(last.map(|(portion, action)| (portion, acting(common, action, due))));
        effects
    }

    fn actions(&mut self, action: Action, own: &RouteFilters, due: &Due<'_>) -> Parts<RouteAction> {
        match action {
            Action::Forward(forwarding) => self.forward(forwarding, own, due),
            Action::Answer(answer) => whole(answer),
        }
    }

    /// Whatever can't be resolved answers so for its share.
    fn forward(&mut self, rule: Forwarding, own: &RouteFilters, due: &Due<'_>) -> Parts<RouteAction> {
        let mut used: SmallVec<[BackendId; 2]> = SmallVec::new();
        let mut shares: SmallVec<[(BackendShare, Option<Box<Rewrite>>); 1]> = SmallVec::new();
        let mut invalid_weight = rule.invalid_weight;
        for share in self.joined(rule.shares, own, due) {
            let Some(backend) = self.backend(share.backend, due) else {
                invalid_weight = invalid_weight.saturating_add(share.weight);
                continue;
            };
            used.push(backend);
            if share.weight > 0 {
                let to = BackendShare {
                    cluster: self.reader.cluster_name(backend),
                    weight: share.weight,
                    request_headers: share.request_headers,
                    response_headers: share.response_headers,
                    host_rewrite: share.host_rewrite,
                    filters: share.filters,
                };
                shares.push((to, share.rewrite));
            }
        }
        let unresolved = unresolved::of(self.kind);
        let ways = ways(shares, invalid_weight, unresolved, rule.rewrite);
        // Nothing goes to the backends of a rule that answers by itself, so the fleet needn't know them.
        if ways.iter().all(|(_, (destination, _))| destination.is_none()) {
            return whole(unresolved::answered(unresolved));
        }
        if ways.len() > 1 {
            self.counts_apart(due);
        }
        let mut mirrors = Vec::new();
        for copies in rule.mirrors {
            // A mirror that can't be resolved is left out: the request itself goes on.
            let Some(backend) = settings::in_context(self.reader, copies.backend, due.aside) else {
                continue;
            };
            used.push(backend);
            if copies.fraction.0 > 0 {
                mirrors.push(Mirror {
                    cluster: self.reader.cluster_name(backend),
                    fraction: copies.fraction,
                });
            }
        }
        let mirrors = Seldom::from(mirrors);
        self.sends(used, due);
        let retry = retry(rule.retry, rule.limits, &due.traffic);
        let timeout = limit(rule.limits, retry.as_deref(), &due.traffic);
        // A GRPCRoute has no field for it, and the proxy's own limit would end every stream.
        let unlimited = || (self.kind == RouteKind::Grpc).then_some(Timeout(0));
        let traffic = traffic::patient(&due.traffic, timeout);
        let to = |(destination, rewrite): (Option<Destination>, Rewrite)| match destination {
            None => unresolved::nowhere(due, unresolved),
            Some(destination) => RouteAction::Forward(Forward {
                destination,
                timeout: timeout.or_else(unlimited),
                retry: retry.clone(),
                path_rewrite: rewrite.path.map(Box::new),
                host_rewrite: rewrite.host.map(Box::new),
                forwarded_host: rewrite.forwarded_host,
                mirrors: mirrors.clone(),
                traffic: traffic.clone(),
            }),
        };
        ways.into_iter().map(|(portion, way)| (portion, to(way))).collect()
    }

    /// What can't be resolved is closed for its share.
    fn stream(&mut self, stream: Stream) -> StreamProxy {
        let mut proxy = StreamProxy {
            stat_prefix: Arc::default(),
            access: None,
            shares: Vec::new(),
            invalid_weight: 0,
            hashes_source: false,
            named_at: None,
            origins: Arc::clone(&stream.origins),
        };
        let Some(mut due) = self.due(stream.name) else {
            return proxy;
        };
        let variant = self.context.of_rule(stream.name).variant;
        due.variant = stat_name::of_stream(self.reader, variant, &stream);
        for streams in [&due.security.streams, &due.extension.streams] {
            match streams {
                Streams::Open => {}
                // Datagrams have no connection that could be refused.
                Streams::Rules(rules) if self.kind != RouteKind::Udp => proxy.access = Some(Arc::clone(rules)),
                Streams::Rules(_) | Streams::Closed(_) => return proxy,
            }
        }
        let hashed = due.traffic.route.as_deref().map(|route| route.hash.as_slice());
        // Of all that may be hashed, the rest is of requests.
        proxy.hashes_source = hashed.is_some_and(|hashed| hashed.contains(&HashInput::SourceIp));
        proxy.invalid_weight = stream.invalid_weight;
        let mut used: SmallVec<[BackendId; 2]> = SmallVec::new();
        for StreamTo { backend, weight, .. } in self.joined_streams(stream.shares, &due) {
            let Some(backend) = self.backend(backend, &due).filter(|to| self.is_named(to.port, &due)) else {
                proxy.invalid_weight = proxy.invalid_weight.saturating_add(weight);
                continue;
            };
            used.push(backend);
            if weight > 0 {
                self.name_host(&mut proxy, backend.port);
                proxy.shares.push(StreamShare {
                    cluster: self.reader.cluster_name(backend),
                    weight,
                });
            }
        }
        // Nothing goes to the backends of a rule that only closes, so the fleet needn't know them.
        if !proxy.shares.is_empty() {
            self.sends(used, &due);
        }
        proxy
    }

    /// Has the backend of a stream told by the server name, where it is whoever a client asks for.
    fn name_host(&self, proxy: &mut StreamProxy, port: BackendPort) {
        if is_of_request(self.reader, port) {
            proxy.named_at = Some(NamedAt {
                port: NAMED_AT,
                hosts: own_host::named_hosts(self.reader.settings().platform),
            });
        }
    }

    /// Whether a stream can tell who its backend is. One that is whom clients ask for is told by the server name, as
    /// long as nobody opens their TLS.
    fn is_named(&self, port: BackendPort, due: &Due<'_>) -> bool {
        !is_of_request(self.reader, port) || self.reader.variant(due.variant).encryption == Encryption::Client
    }

    fn backend(&self, backend: BackendId, due: &Due<'_>) -> Option<BackendId> {
        settings::in_context(self.reader, backend, due.variant)
    }
}

/// What is common to the parts of a rule, with what is done.
fn acting(common: RouteEffect, action: RouteAction, due: &Due<'_>) -> RouteEffect {
    RouteEffect {
        telemetry: match &action {
            RouteAction::Forward(_) => None,
            RouteAction::Redirect(_) | RouteAction::Respond(_) => due.traffic.telemetry.clone(),
        },
        action,
        ..common
    }
}
