//! Limits of requests that a service counts for all proxies.
//!
//! Each route counts for itself, in the domain of its listener; rules that are shared count in a domain of the policy,
//! for all of its routes together, and stand on an instance of their own.

use super::{
    Problems,
    descriptors::{AREA, descriptors, everything, hits, limit, operand, told},
};
use crate::{
    api::{BackendTrafficPolicySpec, Metadata, rate_limit::RateLimitRule as Rule},
    engine::reader::Reader,
};
use edge_ir::{GlobalRateLimit, GlobalRateLimitRule, RateLimitRule};

/// The part that stands apart: what all routes of a policy count together.
pub(super) const SHARED: &str = "shared";

/// The limits of a policy.
#[derive(Default)]
pub(super) struct Limits {
    /// Those that each route counts for itself.
    pub(super) of_routes: Option<GlobalRateLimit>,
    /// Those that all routes of the policy count together.
    pub(super) shared: Option<GlobalRateLimit>,
}

/// The limits of a policy; the source is the policy that they were written in.
pub(super) fn limits(
    reader: &Reader<'_>,
    spec: &BackendTrafficPolicySpec,
    source: &Metadata,
    problems: &mut Problems,
) -> Limits {
    let global = spec.rate_limit.as_deref().and_then(|limit| limit.global.as_ref());
    let Some(global) = global.filter(|global| !global.rules.is_empty()) else {
        return Limits::default();
    };
    if reader.settings().rate_limit.is_none() {
        problems.add(
            AREA,
            "global rateLimit needs the rate limit service: set rateLimit in the EdgeGateway configuration",
        );
        return Limits::default();
    }
    let mut of_routes = GlobalRateLimit::default();
    let mut shared = GlobalRateLimit {
        owner: format!("{}/{}", source.namespace, source.name).into(),
        ..GlobalRateLimit::default()
    };
    for (i, rule) in global.rules.iter().enumerate() {
        let into = match rule.shared {
            Some(true) => &mut shared,
            Some(false) | None => &mut of_routes,
        };
        add(into, i, rule, problems);
    }
    let filled = |limits: GlobalRateLimit| (!limits.rules.is_empty()).then_some(limits);
    Limits {
        of_routes: filled(of_routes),
        shared: filled(shared),
    }
}

fn add(into: &mut GlobalRateLimit, i: usize, rule: &Rule, problems: &mut Problems) {
    let Some(limit) = limit(rule, problems) else {
        return;
    };
    let cost = rule.cost.as_deref();
    let asked = hits(cost.and_then(|cost| cost.request.as_ref()), problems);
    let answered = cost.and_then(|cost| cost.response.as_ref());
    let answered = answered.map(|cost| hits(Some(cost), problems));
    let told_by = rule.limit.from_metadata.as_ref();
    let told_by = told_by.map(|place| (operand(&place.namespace, problems), operand(&place.key, problems)));
    let lists = match rule.client_selectors.is_empty() {
        true => vec![everything(i)],
        false => descriptors(i, rule, problems),
    };
    let told = told(rule, problems);
    into.rules.extend(lists.into_iter().map(|entries| GlobalRateLimitRule {
        number: i,
        rule: RateLimitRule {
            entries,
            limit,
            hits: asked.clone(),
            shadow: rule.shadow_mode == Some(true),
            told,
        },
        answered: answered.clone(),
        told_by: told_by.clone(),
    }));
}
