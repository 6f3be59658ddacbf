//! Matches of an HTTPRoute rule: which requests it is for.

use super::{Compilation, HostRule, RuleParts, filter};
use crate::{
    api::{HttpPathMatch, HttpRouteMatch, HttpRouteRule, MatchType, PathMatchType},
    phase::precedence::Rank,
};
use edge_ir::{PathMatch, RouteMatch, ValueMatch, ValueMatcher};

impl HostRule for HttpRouteRule {
    fn parts(&self) -> RuleParts<'_> {
        RuleParts {
            name: self.name.as_deref(),
            filters: &self.filters,
            backend_refs: &self.backend_refs,
            timeouts: self.timeouts.as_deref(),
            retry: self.retry.as_deref(),
            prefix: filter::matched_prefix(self),
        }
    }

    fn matches(&self, c: &mut Compilation<'_, '_>) -> Vec<(usize, RouteMatch, Rank)> {
        let ranked = |(i, matches): (usize, RouteMatch)| {
            let rank = Rank::of(&matches);
            (i, matches, rank)
        };
        if self.matches.is_empty() {
            return vec![ranked((0, everything()))];
        }
        let mut all = Vec::with_capacity(self.matches.len());
        for (i, one) in self.matches.iter().enumerate() {
            all.extend(compile_one(c, one).map(|matches| ranked((i, matches))));
        }
        all
    }
}

/// Every request.
pub(super) fn everything() -> RouteMatch {
    RouteMatch {
        path: PathMatch::Any,
        method: None,
        headers: vec![],
        query: vec![],
    }
}

fn compile_one(c: &mut Compilation<'_, '_>, one: &HttpRouteMatch) -> Option<RouteMatch> {
    let path = path(c, &one.path)?;
    let headers = headers(c, one.headers.iter().map(|h| (&h.r#type, &*h.name, &*h.value)))?;
    let mut query = Vec::with_capacity(one.query_params.len());
    for parameter in &one.query_params {
        let value = value(c, &parameter.r#type, &parameter.value)?;
        if query.iter().all(|q: &ValueMatch| *q.name != *parameter.name) {
            query.push(ValueMatch {
                name: (&*parameter.name).into(),
                value,
            });
        }
    }
    let method = one.method.as_ref().map(|m| m.as_str().into());
    Some(RouteMatch {
        path,
        method,
        headers,
        query,
    })
}

/// Conditions on headers, each given as type, name and value.
pub(super) fn headers<'a>(
    c: &mut Compilation<'_, '_>,
    all: impl ExactSizeIterator<Item = (&'a MatchType, &'a str, &'a str)>,
) -> Option<Vec<ValueMatch>> {
    let mut headers: Vec<ValueMatch> = Vec::with_capacity(all.len());
    for (kind, name, text) in all {
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
    Some(headers)
}

fn path(c: &mut Compilation<'_, '_>, path: &HttpPathMatch) -> Option<PathMatch> {
    let value = &*path.value;
    match &path.r#type {
        PathMatchType::PathPrefix => {
            let prefix = value.trim_end_matches('/');
            Some(if prefix.is_empty() {
                PathMatch::Any
            } else {
                PathMatch::Prefix(prefix.into())
            })
        }
        PathMatchType::Exact => Some(PathMatch::Exact(value.into())),
        PathMatchType::RegularExpression => {
            check_regex(c, value)?;
            Some(PathMatch::Regex(value.into()))
        }
        PathMatchType::Other(kind) => {
            c.fail("UnsupportedValue", format!("Unknown path match type {kind}."));
            None
        }
    }
}

fn value(c: &mut Compilation<'_, '_>, kind: &MatchType, value: &str) -> Option<ValueMatcher> {
    match kind {
        MatchType::Exact => Some(ValueMatcher::Exact(value.into())),
        MatchType::RegularExpression => {
            check_regex(c, value)?;
            Some(ValueMatcher::Regex(value.into()))
        }
        MatchType::Other(kind) => {
            c.fail("UnsupportedValue", format!("Unknown match type {kind}."));
            None
        }
    }
}

/// RE2 and the regex crate share their syntax but for corners that neither takes from the other.
pub(super) fn check_regex(c: &mut Compilation<'_, '_>, pattern: &str) -> Option<()> {
    match regex::Regex::new(pattern) {
        Ok(_) => Some(()),
        Err(error) => {
            let text = match error {
                regex::Error::Syntax(text) => text
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned(),
                other => other.to_string(),
            };
            let rule = c.rule;
            c.fail(
                "UnsupportedValue",
                format!("Failed to process route rule {rule}: regex \"{pattern}\" is invalid: {text}."),
            );
            None
        }
    }
}
