//! Matches of an HTTPRoute rule: which requests it is for.

use super::{Compilation, HostRule, RankedMatch, RuleParts, Wording, admissible, expression, filter, widened};
use crate::{
    api::{HttpMethod, HttpPathMatch, HttpRouteMatch, HttpRouteRule, MatchType, PathMatchType},
    phase::precedence::Rank,
};
use edge_ir::{PathMatch, RouteMatch, Seldom, ValueMatch, ValueMatcher};

impl HostRule for HttpRouteRule {
    fn parts(&self) -> RuleParts<'_> {
        RuleParts {
            name: self.name.as_deref(),
            filters: &self.filters,
            backend_refs: &self.backend_refs,
            timeouts: self.timeouts.as_deref(),
            retry: self.retry.as_deref(),
            session: self.session_persistence.as_deref(),
            prefix: filter::matched_prefix(self),
        }
    }

    fn matches(&self, c: &mut Compilation<'_, '_>) -> Vec<RankedMatch> {
        let ranked = |index, matches| RankedMatch {
            index,
            rank: Rank::of(&matches),
            matches,
            wording: Wording::Written,
        };
        if self.matches.is_empty() {
            return vec![ranked(0, everything())];
        }
        let mut all = Vec::with_capacity(self.matches.len());
        for (i, one) in self.matches.iter().enumerate() {
            match compile_one(c, one) {
                Some(matches) => all.push(ranked(i, matches)),
                None => c.rule.refused.push(widened::request(i, one)),
            }
        }
        all
    }
}

/// Every request.
pub(super) fn everything() -> RouteMatch {
    RouteMatch::on_path(PathMatch::Any)
}

fn compile_one(c: &mut Compilation<'_, '_>, one: &HttpRouteMatch) -> Option<RouteMatch> {
    let path = path(c, &one.path)?;
    let headers = headers(c, one.headers.iter().map(|h| (&h.r#type, &*h.name, &*h.value)))?;
    let mut query = Vec::with_capacity(one.query_params.len());
    for parameter in &one.query_params {
        c.admit(
            "query parameter name",
            &parameter.name,
            admissible::field_name(&parameter.name),
        )?;
        let value = value(c, &parameter.r#type, &parameter.value)?;
        if query.iter().all(|q: &ValueMatch| *q.name != *parameter.name) {
            query.push(ValueMatch {
                name: (&*parameter.name).into(),
                value,
            });
        }
    }
    let method = match &one.method {
        Some(HttpMethod::Other(method)) => {
            c.admit("method", method, Err(one_of(HttpMethod::KNOWN)))?;
            None
        }
        method => method.as_ref().map(|m| m.as_str().into()),
    };
    Some(RouteMatch {
        path,
        method,
        headers,
        query: query.into(),
        cookies: Seldom::default(),
    })
}

/// The matches of a rule that asks for cookies besides: each with each list of these.
pub(super) fn with_cookies(lists: &[Seldom<ValueMatch>], matches: Vec<RankedMatch>) -> Vec<RankedMatch> {
    let mut all = Vec::with_capacity(matches.len() * lists.len());
    for written in matches {
        all.extend(lists.iter().enumerate().map(|(i, cookies)| RankedMatch {
            index: written.index * lists.len() + i,
            matches: RouteMatch {
                cookies: cookies.clone(),
                ..written.matches.clone()
            },
            rank: written.rank.clone().with_cookies(cookies),
            wording: written.wording,
        }));
    }
    all
}

/// The values that there are, for a message.
pub(super) fn one_of(known: &[&str]) -> String {
    format!("it must be one of {}", known.join(", "))
}

/// Conditions on headers, each given as type, name and value.
pub(super) fn headers<'a>(
    c: &mut Compilation<'_, '_>,
    all: impl ExactSizeIterator<Item = (&'a MatchType, &'a str, &'a str)>,
) -> Option<Seldom<ValueMatch>> {
    let mut headers: Vec<ValueMatch> = Vec::with_capacity(all.len());
    for (kind, name, text) in all {
        c.admit("header name", name, admissible::field_name(name))?;
        let value = value(c, kind, text)?;
        let name = name.to_ascii_lowercase();
        // Of entries with equivalent names only the first counts (Gateway API: HTTPRouteMatch.headers).
        if headers.iter().all(|h| *h.name != *name) {
            headers.push(ValueMatch {
                name: name.into(),
                value,
            });
        }
    }
    Some(headers.into())
}

fn path(c: &mut Compilation<'_, '_>, path: &HttpPathMatch) -> Option<PathMatch> {
    let value = &*path.value;
    match &path.r#type {
        PathMatchType::PathPrefix => {
            c.admit("path", value, admissible::path(value))?;
            let prefix = value.trim_end_matches('/');
            Some(if prefix.is_empty() {
                PathMatch::Any
            } else {
                PathMatch::Prefix(prefix.into())
            })
        }
        PathMatchType::Exact => {
            c.admit("path", value, admissible::path(value))?;
            Some(PathMatch::Exact(value.into()))
        }
        PathMatchType::RegularExpression => {
            check_regex(c, value)?;
            Some(PathMatch::Regex(value.into()))
        }
        PathMatchType::Other(kind) => {
            c.admit("path match type", kind, Err(one_of(PathMatchType::KNOWN)))?;
            None
        }
    }
}

/// What the value of a header, query parameter or cookie must be.
pub(super) fn value(c: &mut Compilation<'_, '_>, kind: &MatchType, value: &str) -> Option<ValueMatcher> {
    match kind {
        MatchType::Exact => {
            c.admit("value", value, admissible::field_value(value))?;
            Some(ValueMatcher::Exact(value.into()))
        }
        MatchType::RegularExpression => {
            check_regex(c, value)?;
            Some(ValueMatcher::Regex(value.into()))
        }
        MatchType::Other(kind) => {
            c.admit("match type", kind, Err(one_of(MatchType::KNOWN)))?;
            None
        }
    }
}

/// Fails the rule for an expression that not every data plane takes.
pub(super) fn check_regex(c: &mut Compilation<'_, '_>, pattern: &str) -> Option<()> {
    c.admit("regex", pattern, expression::check(pattern))
}
