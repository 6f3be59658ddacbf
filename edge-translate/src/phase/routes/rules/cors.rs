//! The CORS filter of HTTPRoute: which other origins browsers may let their scripts call a rule from.

use super::{Compilation, RankedMatch, Wording, admissible};
use crate::api::{CorsFilter, Text};
use edge_ir::{Cors, RouteMatch, Seldom, ValueMatch, ValueMatcher};

/// The method of a preflight.
const OPTIONS: &str = "OPTIONS";

/// Compiles the filter; none when it can't be honoured, and the rule fails.
pub(super) fn compile(c: &mut Compilation<'_, '_>, filter: &CorsFilter) -> Option<Cors> {
    let origins = filter.allow_origins.iter().map(|text| {
        let origin = origin(text);
        if origin.is_none() {
            c.fail("UnsupportedValue", format!("CORS origin \"{text}\" is not an origin."));
        }
        origin
    });
    let origins: Option<Vec<ValueMatcher>> = origins.collect();
    Some(Cors {
        origins: origins?,
        methods: names(c, &filter.allow_methods)?,
        headers: names(c, &filter.allow_headers)?,
        exposed_headers: names(c, &filter.expose_headers)?,
        max_age: Some(filter.max_age),
        credentials: filter.allow_credentials.unwrap_or(false),
    })
}

/// The matches by which browsers ask whether they may send what a match with another method takes: the filter answers
/// these before anybody else does. Of headers and cookies that the match asks for a preflight has none (Fetch §4.8).
pub(super) fn preflights(matches: &[RankedMatch]) -> Vec<RankedMatch> {
    let on = |name: &str, value| ValueMatch {
        name: name.into(),
        value,
    };
    let preflight = |one: &RankedMatch| {
        let method = one.matches.method.as_ref().filter(|method| ***method != *OPTIONS)?;
        let asked = ValueMatcher::Exact((&**method).into());
        let matches = RouteMatch {
            path: one.matches.path.clone(),
            method: Some(OPTIONS.into()),
            headers: [
                on("access-control-request-method", asked),
                on("origin", ValueMatcher::Regex(".+".into())),
            ]
            .into(),
            query: one.matches.query.clone(),
            cookies: Seldom::default(),
        };
        Some(RankedMatch {
            index: one.index,
            matches,
            rank: one.rank.clone().of_preflight(),
            wording: Wording::Implied,
        })
    };
    matches.iter().filter_map(preflight).collect()
}

/// An origin is a scheme, a host and a port, never a path; `*.` in front of a host stands for any number of labels.
pub(in crate::phase) fn origin(text: &str) -> Option<ValueMatcher> {
    if text == "*" {
        return Some(ValueMatcher::Regex(".*".into()));
    }
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic());
    let (scheme, host) = text
        .split_once("://")
        .filter(|(_, host)| is_plain && !host.is_empty())?;
    if host == "*" && !scheme.contains('*') {
        return Some(ValueMatcher::Regex(format!("{}://.*", regex::escape(scheme)).into()));
    }
    // One stands for labels in front, and no other is: an origin that no browser sends would look like permission.
    if scheme.contains('*') || host.strip_prefix("*.").unwrap_or(host).contains('*') {
        return None;
    }
    Some(match host.strip_prefix("*.") {
        Some(suffix) => {
            let expression = format!("{}://[^/]+\\.{}", regex::escape(scheme), regex::escape(suffix));
            ValueMatcher::Regex(expression.into())
        }
        None => ValueMatcher::Exact(text.into()),
    })
}

/// Names of methods or headers. `*` among others makes the others idle.
fn names<'a, T: From<&'a str>>(c: &mut Compilation<'_, '_>, all: &'a [Text]) -> Option<Vec<T>> {
    if let Some(bad) = all.iter().find(|name| !admissible::is_token(name)) {
        c.fail("UnsupportedValue", format!("\"{bad}\" is no name for CORS."));
        return None;
    }
    if all.iter().any(|name| &**name == "*") {
        return Some(vec!["*".into()]);
    }
    Some(all.iter().map(|name| (&**name).into()).collect())
}
