//! Matches of a rule: which requests it is for.

use super::Compilation;
use crate::api::{HttpPathMatch, HttpRouteMatch, MatchType, PathMatchType};
use edge_ir::{PathMatch, RouteMatch, ValueMatch, ValueMatcher};

/// Compiles the matches, each with its index. A match that can't be compiled is left out, and the rule fails.
pub(super) fn compile(c: &mut Compilation<'_, '_>, matches: &[HttpRouteMatch]) -> Vec<(usize, RouteMatch)> {
    if matches.is_empty() {
        return vec![(
            0,
            RouteMatch {
                path: PathMatch::Any,
                method: None,
                headers: vec![],
                query: vec![],
            },
        )];
    }
    matches
        .iter()
        .enumerate()
        .filter_map(|(i, m)| Some((i, compile_one(c, m)?)))
        .collect()
}

fn compile_one(c: &mut Compilation<'_, '_>, one: &HttpRouteMatch) -> Option<RouteMatch> {
    let path = path(c, &one.path)?;
    let mut headers = Vec::with_capacity(one.headers.len());
    for header in &one.headers {
        let value = value(c, &header.r#type, &header.value)?;
        let name = header.name.to_ascii_lowercase();
        // Of entries with equivalent names only the first counts (Gateway API: HTTPRouteMatch.headers).
        if headers.iter().all(|h: &ValueMatch| *h.name != *name) {
            headers.push(ValueMatch {
                name: name.into(),
                value,
            });
        }
    }
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
fn check_regex(c: &mut Compilation<'_, '_>, pattern: &str) -> Option<()> {
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
