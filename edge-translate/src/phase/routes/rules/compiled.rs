//! What becomes of a route's rules before anybody knows under which policies they serve: plain data.

use super::filter::Rewrite;
use crate::{
    name::{BackendId, BackendPort, FilterKey, Sym},
    phase::precedence::{Rank, Seniority},
};
use edge_ir::{
    CustomObjects, Fraction, HeaderEdits, Origins, RetryPolicy, RouteAction, RouteFilters, RouteMatch, Timeout,
};
use smallvec::SmallVec;
use std::sync::Arc;

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
pub(in crate::phase::routes) enum Compiled {
    /// Rules of an HTTPRoute or GRPCRoute, in its order.
    Http(Vec<Rule>),
    /// The one rule of a TLSRoute, TCPRoute or UDPRoute.
    Stream(Stream),
}

/// One rule of an HTTPRoute or GRPCRoute.
#[derive(Clone)]
pub(in crate::phase::routes) struct Rule {
    /// Its name.
    pub(in crate::phase::routes) name: Option<Sym>,
    /// Its matches.
    pub(in crate::phase::routes) matches: Vec<RankedMatch>,
    /// Matches that are refused, widened to all that they may be meant for: where the rule is guarded, these requests
    /// must not fall to another.
    pub(in crate::phase::routes) refused: Vec<RankedMatch>,
    /// What it does with a request.
    pub(in crate::phase::routes) action: Action,
    /// Edits to requests.
    pub(in crate::phase::routes) request_headers: HeaderEdits,
    /// Edits to responses.
    pub(in crate::phase::routes) response_headers: HeaderEdits,
    /// Filters that it uses.
    pub(in crate::phase::routes) filters: RouteFilters,
    /// What extension services are shown with it.
    pub(in crate::phase::routes) custom: Option<Arc<CustomObjects>>,
    /// The instances that it and its backends use.
    pub(in crate::phase::routes) instances: Vec<FilterKey>,
    /// The route and rule.
    pub(in crate::phase::routes) origins: Origins,
}

/// A match of a rule.
#[derive(Clone)]
pub(in crate::phase::routes) struct RankedMatch {
    /// Its index in the rule.
    pub(in crate::phase::routes) index: usize,
    /// What it asks for.
    pub(in crate::phase::routes) matches: RouteMatch,
    /// Its rank.
    pub(in crate::phase::routes) rank: Rank,
    /// Whose words these are.
    pub(in crate::phase::routes) wording: Wording,
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
pub(in crate::phase::routes) enum Action {
    /// Send it to a backend.
    Forward(Forwarding),
    /// Answer it.
    Answer(RouteAction),
}

/// How a request is sent on, as [`edge_ir::Forward`], with backends by identity.
#[derive(Clone)]
pub(in crate::phase::routes) struct Forwarding {
    /// Backends, in the order of the rule.
    pub(in crate::phase::routes) shares: Vec<Share>,
    /// Weight of references that lead nowhere.
    pub(in crate::phase::routes) invalid_weight: u32,
    /// Time limits.
    pub(in crate::phase::routes) limits: Limits,
    /// When to try again.
    pub(in crate::phase::routes) retry: Retries,
    /// What becomes of the host and the path.
    pub(in crate::phase::routes) rewrite: Rewrite,
    /// Who gets copies.
    pub(in crate::phase::routes) mirrors: Vec<Copies>,
}

/// The time limits that a rule writes.
#[derive(Clone, Copy)]
pub(in crate::phase::routes) struct Limits {
    /// For the whole exchange.
    pub(in crate::phase::routes) whole: Option<Timeout>,
    /// For one try.
    pub(in crate::phase::routes) one_try: Option<Timeout>,
}

impl Limits {
    /// The limit for the whole exchange. Without retries the limit for a try is one for the whole.
    pub(in crate::phase::routes) fn of_exchange(self, tries: Tries) -> Option<Timeout> {
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
pub(in crate::phase::routes) enum Tries {
    /// Once.
    One,
    /// Again, after some failures.
    Several,
}

/// What a rule says of retries.
#[derive(Clone)]
pub(in crate::phase::routes) enum Retries {
    /// Nothing.
    Unsaid,
    /// That there are none, whatever policies say.
    Never,
    /// When.
    When(RetryPolicy),
}

/// A backend of a rule.
#[derive(Clone)]
pub(in crate::phase::routes) struct Share {
    /// The backend.
    pub(in crate::phase::routes) backend: BackendId,
    /// Its weight; 0 keeps its cluster ready and sends nothing there.
    pub(in crate::phase::routes) weight: u32,
    /// How far behind others it stands; 0 is used first.
    pub(in crate::phase::routes) priority: u32,
    /// Edits to requests that go to it.
    pub(in crate::phase::routes) request_headers: HeaderEdits,
    /// Edits to its responses.
    pub(in crate::phase::routes) response_headers: HeaderEdits,
    /// Replaces the host for requests that go to it.
    pub(in crate::phase::routes) host_rewrite: Option<Arc<str>>,
    /// Rewrites that a proxy knows of routes alone, where there are other backends: it has a route of its own then.
    pub(in crate::phase::routes) rewrite: Option<Box<Rewrite>>,
    /// Filters that requests to it use.
    pub(in crate::phase::routes) filters: RouteFilters,
}

/// A backend of a stream.
#[derive(Clone, Copy)]
pub(in crate::phase::routes) struct StreamTo {
    /// Which one.
    pub(in crate::phase::routes) backend: BackendId,
    /// Its weight.
    pub(in crate::phase::routes) weight: u32,
    /// How far behind others it stands; 0 is used first.
    pub(in crate::phase::routes) priority: u32,
}

/// A backend that gets copies.
#[derive(Clone)]
pub(in crate::phase::routes) struct Copies {
    /// The backend.
    pub(in crate::phase::routes) backend: BackendId,
    /// Of how many requests.
    pub(in crate::phase::routes) fraction: Fraction,
}

/// Where connections or datagrams go.
#[derive(Clone)]
pub(in crate::phase::routes) struct Stream {
    /// The name of the rule, where there is one rule.
    pub(in crate::phase::routes) name: Option<Sym>,
    /// Backends with their weights.
    pub(in crate::phase::routes) shares: Vec<StreamTo>,
    /// Weight of references that lead nowhere.
    pub(in crate::phase::routes) invalid_weight: u32,
    /// The route.
    pub(in crate::phase::routes) origins: Origins,
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
