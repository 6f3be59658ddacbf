//! Where a rule's requests go: weighted backends, time limits, retries.

use super::{
    Action, Compilation, Effect, Forwarding, Limits, Retries, RuleParts, Share, Use, admissible,
    backend::{self, Problem, Resolved},
    extension,
    filter::{self, Filters, Rewrite, Side},
    standby,
};
use crate::{
    api::{DurationText, RouteBackendRef, RouteFilter, RouteFilterType},
    name::RouteKind,
    phase::backends::{endpoints::is_of_request, set},
    status::ended,
};
use edge_ir::{
    FilterEffect, FilterId, FilterKind, HeaderEdits, HostRewrite, RetryPolicy, RouteAction, RouteFilters, Timeout,
};

/// What a rule does with a request.
pub(super) fn compile(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>, filters: &mut Filters) -> Action {
    let mut shares = shares(c, rule);
    if let Some(redirect) = filters.redirect.take() {
        return Action::Answer(RouteAction::Redirect(Box::new(redirect)));
    }
    if let Some((answer, headers)) = filters.answer.take() {
        filter::merge(&mut filters.response_headers, headers);
        return Action::Answer(RouteAction::Respond(answer));
    }
    resolvable(c, &shares, filters);
    let limits = limits(c, rule);
    let retry = retry(c, rule, limits);
    let mut rewrite = filters.rewrite.take().unwrap_or_default();
    share_host(&mut rewrite, &mut shares.all);
    Action::Forward(Forwarding {
        shares: shares.all,
        invalid_weight: shares.invalid_weight,
        limits,
        retry,
        rewrite: shares.of_single.over(rewrite),
        mirrors: std::mem::take(&mut filters.mirrors),
    })
}

/// Where a backend has a host of its own, that of the rule is for the others: a proxy would put it in place of all.
fn share_host(rewrite: &mut Rewrite, shares: &mut [Share]) {
    let Some(HostRewrite::Literal(host)) = &rewrite.host else {
        return;
    };
    if shares.iter().any(|share| share.host_rewrite.is_some()) {
        let has_own = |share: &Share| share.rewrite.as_ref().is_some_and(|own| own.host.is_some());
        for share in shares.iter_mut().filter(|share| !has_own(share)) {
            share.host_rewrite.get_or_insert_with(|| host.clone());
        }
        rewrite.host = None;
    }
}

/// A dynamic resolver finds its backend by the host of the request, before that is rewritten: so what resolves must be
/// told of a rewrite, and can be told of two forms alone.
fn resolvable(c: &mut Compilation<'_, '_>, shares: &Shares, filters: &mut Filters) {
    let is_resolved = |share: &&Share| is_of_request(c.reader, share.backend.port);
    let Some(share) = shares.all.iter().find(is_resolved) else {
        return;
    };
    let of_share = share.host_rewrite.clone().map(HostRewrite::Literal);
    let of_rule = filters.rewrite.as_ref().and_then(|rewrite| rewrite.host.clone());
    let Some(host) = of_share.or(shares.of_single.host.clone()).or(of_rule) else {
        return;
    };
    let how = match host {
        HostRewrite::Literal(_) | HostRewrite::Header(_) => {
            filters.resolved = Some(edge_ir::RouteFilter {
                id: FilterId::shared(FilterKind::DynamicForwardProxy),
                effect: FilterEffect::Resolve(host),
            });
            return;
        }
        HostRewrite::Path(_) => "path (PathRegex)",
        HostRewrite::Endpoint => "backend (Backend)",
    };
    let message = format!(
        "Failed to process route rule {}: host rewrite from {how} is not supported with a dynamic resolver backend.",
        c.rule.index
    );
    c.note(Effect::FilterUnresolved, "UnsupportedValue", message);
}

/// The backends of a rule as they come out.
struct Shares {
    all: Vec<Share>,
    /// Weight of references that lead nowhere.
    invalid_weight: u32,
    /// What the one backend rewrites and a weighted share can't carry.
    of_single: Rewrite,
}

fn shares(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>) -> Shares {
    let mut shares = Shares {
        all: Vec::with_capacity(rule.backend_refs.len()),
        invalid_weight: 0,
        of_single: Rewrite::default(),
    };
    c.rule.n_references = rule.backend_refs.len();
    check_weights(c, rule.backend_refs.iter());
    for (i, reference) in rule.backend_refs.iter().enumerate() {
        let share = match backend::resolve(c, reference.target()) {
            Ok(resolved) => share(c, rule, i, reference, &resolved, &mut shares),
            Err(problem) => {
                refuse(c, i, problem.reason, &problem.message);
                None
            }
        };
        match share {
            Some(share) => shares.all.push(share),
            None => shares.invalid_weight = shares.invalid_weight.saturating_add(reference.weight),
        }
    }
    standby::check(c, &shares.all);
    shares
}

/// The share of one backendRef that leads somewhere; none where its filters can't be honoured.
fn share(
    c: &mut Compilation<'_, '_>,
    rule: &RuleParts<'_>,
    index: usize,
    reference: &RouteBackendRef,
    to: &Resolved,
    shares: &mut Shares,
) -> Option<Share> {
    if reference.weight > 0 {
        c.wanting.push((to.backend.port, Use::Destination));
    }
    if let Some(problem) = &to.refused {
        let message = failed(c.rule.index, index, &problem.message);
        c.note(Effect::BackendRefused, problem.reason, message);
    }
    let mut share = Share {
        backend: to.backend,
        weight: reference.weight,
        priority: set::priority(c.reader, to.backend.port),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        host_rewrite: None,
        rewrite: None,
        filters: RouteFilters::default(),
    };
    let rewrite = backend_filters(c, rule, reference, index, &mut share)?;
    match c.rule.n_references {
        1 => shares.of_single = rewrite,
        _ => share.rewrite = rewrite.is_any().then(|| Box::new(rewrite)),
    }
    if reference.weight > 0 {
        backend::note_port(c, "backendRefs", reference.target(), to);
    }
    Some(share)
}

fn failed(rule: usize, reference: usize, why: &str) -> String {
    format!(
        "Failed to process route rule {rule} backendRef {reference}: {}",
        ended(why)
    )
}

/// Fails the rule for weights that no proxy adds up.
pub(super) fn check_weights<'a>(
    c: &mut Compilation<'_, '_>,
    backends: impl Iterator<Item = &'a RouteBackendRef> + Clone,
) {
    let check = admissible::weights(backends.map(|b| b.weight));
    if let Err(why) = check {
        let message = format!(
            "Failed to process route rule {}: weights of backendRefs are invalid: {why}.",
            c.rule.index
        );
        c.fail("UnsupportedValue", message);
    }
}

/// What the filters of one backendRef make of its share, and what they rewrite; none when they can't be honoured.
fn backend_filters(
    c: &mut Compilation<'_, '_>,
    rule: &RuleParts<'_>,
    reference: &RouteBackendRef,
    index: usize,
    share: &mut Share,
) -> Option<Rewrite> {
    let n_findings = c.findings.len();
    let mut own = Rewrite::default();
    c.rule.reference = Some(index);
    for filter in &reference.filters {
        if let Err(problem) = backend_filter(c, rule, filter, &mut own, share) {
            refuse(c, index, problem.reason, &problem.message);
        }
    }
    c.rule.reference = None;
    (c.findings.len() == n_findings).then_some(own)
}

fn backend_filter(
    c: &mut Compilation<'_, '_>,
    rule: &RuleParts<'_>,
    filter: &RouteFilter,
    own: &mut Rewrite,
    share: &mut Share,
) -> Result<(), Problem> {
    let unsupported = |message: &str| Err(Problem::new("UnsupportedRefValue", message));
    match (&filter.r#type, filter) {
        (
            RouteFilterType::RequestHeaderModifier,
            RouteFilter {
                request_header_modifier: Some(modifier),
                ..
            },
        ) => share.request_headers = filter::header_edits(c, modifier, Side::Request),
        (
            RouteFilterType::ResponseHeaderModifier,
            RouteFilter {
                response_header_modifier: Some(modifier),
                ..
            },
        ) => share.response_headers = filter::header_edits(c, modifier, Side::Response),
        (
            RouteFilterType::UrlRewrite,
            RouteFilter {
                url_rewrite: Some(rewrite),
                ..
            },
        ) if c.kind == RouteKind::Http => {
            let rewrite = filter::rewrite_of(c, rewrite, rule.prefix);
            check_once(own, share, &rewrite)?;
            match rewrite.host {
                // A proxy tells only whoever is told by a route which host was asked for.
                Some(host) if c.rule.n_references == 1 => own.host = Some(host),
                Some(HostRewrite::Literal(host)) => share.host_rewrite = Some(host),
                _ => {}
            }
            own.path = rewrite.path.or(own.path.take());
        }
        (
            RouteFilterType::ExtensionRef,
            RouteFilter {
                extension_ref: Some(reference),
                ..
            },
        ) => extension::apply_to_backend(c, reference, own, share)?,
        _ if c.kind == RouteKind::Grpc => {
            return unsupported(
                "Specific filter is not supported within BackendRef, only RequestHeaderModifier, \
                 ResponseHeaderModifier and gateway.edge/HTTPRouteFilter are supported",
            );
        }
        _ => {
            return unsupported(
                "Specific filter is not supported within BackendRef, only RequestHeaderModifier, \
                 ResponseHeaderModifier, URLRewrite and gateway.edge/HTTPRouteFilter are supported",
            );
        }
    }
    Ok(())
}

/// Refuses what a filter of a backendRef rewrites where another has rewritten it already.
pub(super) fn check_once(own: &Rewrite, share: &Share, more: &Rewrite) -> Result<(), Problem> {
    let has_host = own.host.is_some() || share.host_rewrite.is_some();
    let is_twice = (more.host.is_some() && has_host) || (more.path.is_some() && own.path.is_some());
    let message = "Cannot configure multiple URL rewrites of one kind within BackendRef";
    match is_twice {
        true => Err(Problem::new("UnsupportedRefValue", message)),
        false => Ok(()),
    }
}

/// Refuses a backend by its index in the rule.
pub(super) fn refuse(c: &mut Compilation<'_, '_>, index: usize, reason: &'static str, message: &str) {
    let message = failed(c.rule.index, index, message);
    c.note(Effect::RefUnresolved, reason, message);
}

/// Milliseconds of a duration; a bad one fails the rule.
pub(super) fn millis(c: &mut Compilation<'_, '_>, field: &str, text: &DurationText) -> Option<Timeout> {
    match text.parse() {
        Ok(duration) => Some(Timeout(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))),
        Err(error) => {
            c.fail("UnsupportedValue", format!("Invalid {field}: {error}."));
            None
        }
    }
}

/// The time limits that a rule writes.
fn limits(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>) -> Limits {
    let request = rule.timeouts.and_then(|t| t.request.as_ref());
    let per_try = rule.timeouts.and_then(|t| t.backend_request.as_ref());
    Limits {
        whole: request.and_then(|t| millis(c, "timeouts.request", t)),
        one_try: per_try.and_then(|t| millis(c, "timeouts.backendRequest", t)),
    }
}

fn retry(c: &mut Compilation<'_, '_>, rule: &RuleParts<'_>, limits: Limits) -> Retries {
    let Some(retry) = rule.retry else {
        return Retries::Unsaid;
    };
    for code in &retry.codes {
        c.admit("retry code", &code.to_string(), admissible::retry_code(*code));
    }
    if retry.attempts == 0 {
        return Retries::Never;
    }
    let backoff = retry
        .backoff
        .as_ref()
        .and_then(|b| millis(c, "retry.backoff", b))
        .filter(|b| b.0 > 0);
    Retries::When(RetryPolicy {
        retries: retry.attempts,
        triggers: Vec::new(),
        codes: retry.codes.to_vec(),
        backoff,
        max_backoff: None,
        per_try_timeout: limits.one_try.filter(|limit| limit.0 > 0),
        attempts_per_priority: None,
    })
}
