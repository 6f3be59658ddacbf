//! Limits of requests that each proxy counts for itself.
//!
//! A rule without selectors is for what no other rule is for; with a cost of its own or in shadow it is for every
//! request instead, which the proxy has no other way to say. Rules that are shared stand on an instance of their own.

use super::{
    Problems,
    descriptors::{AREA, descriptors, everything, limit, told},
};
use crate::api::{BackendTrafficPolicySpec, Metadata, rate_limit::RateLimitRule as Rule};
use edge_ir::{Hits, LocalRateLimit, RateLimit, RateLimitUnit};

/// The limits of a policy.
#[derive(Default)]
pub(super) struct Limits {
    /// Those that each route counts for itself.
    pub(super) of_routes: Option<LocalRateLimit>,
    /// Those that all routes of the policy count together.
    pub(super) shared: Option<LocalRateLimit>,
}

/// The limits of a policy; the source is the policy that they were written in.
pub(super) fn limits(spec: &BackendTrafficPolicySpec, source: &Metadata, problems: &mut Problems) -> Limits {
    let local = spec.rate_limit.as_deref().and_then(|limit| limit.local.as_ref());
    let Some(local) = local.filter(|local| !local.rules.is_empty()) else {
        return Limits::default();
    };
    let mut of_routes = LocalRateLimit::default();
    let mut shared = LocalRateLimit {
        owner: format!("{}/{}", source.namespace, source.name).into(),
        ..LocalRateLimit::default()
    };
    let unselected = local.rules.iter().filter(|rule| rule.client_selectors.is_empty());
    if unselected.count() > 1 {
        problems.add(
            AREA,
            "local rateLimit can not have more than one rule without clientSelectors",
        );
    }
    for (i, rule) in local.rules.iter().enumerate() {
        let into = match rule.shared {
            Some(true) => &mut shared,
            Some(false) | None => &mut of_routes,
        };
        add(into, i, rule, problems);
    }
    for limits in [&of_routes, &shared] {
        check_units(limits, problems);
    }
    let filled = |limits: LocalRateLimit| (limits.others.is_some() || !limits.rules.is_empty()).then_some(limits);
    Limits {
        of_routes: filled(of_routes),
        shared: filled(shared),
    }
}

fn add(into: &mut LocalRateLimit, i: usize, rule: &Rule, problems: &mut Problems) {
    if rule.limit.from_metadata.is_some() {
        problems.add(AREA, "limit fromMetadata is not supported for Local Rate Limits");
    }
    if rule.cost.as_deref().is_some_and(|cost| cost.response.is_some()) {
        problems.add(AREA, "response cost is not supported for Local Rate Limits");
    }
    if rule.limit.requests == 0 {
        problems.add(
            AREA,
            "a local limit of 0 requests can't be kept: leave out the routes, or answer by a filter",
        );
    }
    let Some(limit) = limit(rule, problems) else {
        return;
    };
    let hits = super::descriptors::hits(rule.cost.as_deref().and_then(|cost| cost.request.as_ref()), problems);
    if hits == Hits::Number(0) {
        // A request that counts for nothing finds the bucket of its rule as full as ever.
        return;
    }
    let is_for_others = rule.client_selectors.is_empty() && hits == Hits::One && rule.shadow_mode != Some(true);
    if is_for_others {
        into.others = Some(limit);
        into.told = told(rule, problems);
        return;
    }
    let lists = match rule.client_selectors.is_empty() {
        true => vec![everything(i)],
        false => descriptors(i, rule, problems),
    };
    let told = told(rule, problems);
    into.rules
        .extend(lists.into_iter().map(|entries| edge_ir::RateLimitRule {
            entries,
            limit,
            hits: hits.clone(),
            shadow: rule.shadow_mode == Some(true),
            told,
        }));
}

/// The proxy fills all of its buckets by the clock of the one for other requests.
fn check_units(limits: &LocalRateLimit, problems: &mut Problems) {
    let clock = limits
        .others
        .map_or(RateLimitUnit::Second, |RateLimit { unit, .. }| unit);
    let fits = |limit: &RateLimit| limit.unit.seconds().is_multiple_of(clock.seconds());
    if limits.rules.iter().any(|rule| !fits(&rule.limit)) {
        problems.add(
            AREA,
            "local rateLimit rule limit unit must be a multiple of the default limit unit",
        );
    }
}
