//! Which of several matching routes wins: the Gateway API's precedence as one totally ordered value.
//!
//! Within a virtual host, greater is tried first. The order of the fields is the order of the rule:
//! the route's own hostname, then path, method, headers, cookies, query, then age and name (Gateway API v1.7.0,
//! HTTPRoute `rules[].matches`, and the feature GatewayRouteHostnameIntersectionPrecedence for the hostname; cookies,
//! which an HTTPRouteFilter adds, are headers of a kind).

use crate::{
    api::{Metadata, Timestamp},
    name::RouteKind,
    phase::hostname::Specificity,
};
use edge_ir::{PathMatch, RouteMatch, ValueMatch, ValueMatcher};
use std::{
    cmp::{Ordering, Reverse},
    sync::Arc,
};

/// What decides between two matches, except the hostname that a request came in for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    path: PathKind,
    path_length: u32,
    /// Of HTTP: 2 if there is one, 1 if it is that of a preflight nobody wrote. Of gRPC: its characters.
    method: u32,
    n_headers: u16,
    n_exact_headers: u16,
    n_cookies: u16,
    n_exact_cookies: u16,
    n_query: u16,
    n_exact_query: u16,
}

/// Kinds of path match, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathKind {
    Prefix,
    Regex,
    Exact,
}

impl Rank {
    /// The rank of a gRPC match: characters of the service, then of the method, then headers (Gateway API, GRPCRoute
    /// `rules[].matches`). An expression stands between an exact call and a mere service, as it does for paths.
    pub(crate) fn of_call(matches: &RouteMatch, service: Option<&str>, method: Option<&str>) -> Self {
        let rank = Self::of(matches);
        match (&matches.path, service, method) {
            // The method alone is an expression for want of a plainer form; it names no service.
            (PathMatch::Regex(_), None, Some(method)) => Self {
                path: PathKind::Prefix,
                path_length: 0,
                method: size(method.len()),
                ..rank
            },
            // Virtual hosts are shared with HTTPRoutes, whose prefixes have the slash too.
            _ => rank,
        }
    }

    /// The same rank for a match that asks for cookies besides.
    #[must_use]
    pub(crate) fn with_cookies(self, cookies: &[ValueMatch]) -> Self {
        let (n_cookies, n_exact_cookies) = count(cookies);
        Self {
            n_cookies,
            n_exact_cookies,
            ..self
        }
    }

    /// The rank of the preflight of what a match with a method is for: behind all that is written for its method.
    #[must_use]
    pub(crate) fn of_preflight(self) -> Self {
        Self { method: 1, ..self }
    }

    /// The rank of a match, its cookies left aside.
    pub(crate) fn of(matches: &RouteMatch) -> Self {
        let (path, path_length) = match &matches.path {
            PathMatch::Any => (PathKind::Prefix, 0),
            PathMatch::Prefix(p) => (PathKind::Prefix, p.len()),
            PathMatch::Regex(r) => (PathKind::Regex, r.len()),
            PathMatch::Exact(p) => (PathKind::Exact, p.len()),
        };
        let (n_headers, n_exact_headers) = count(&matches.headers);
        let (n_query, n_exact_query) = count(&matches.query);
        Self {
            path,
            path_length: size(path_length),
            method: 2 * u32::from(matches.method.is_some()),
            n_headers,
            n_exact_headers,
            n_cookies: 0,
            n_exact_cookies: 0,
            n_query,
            n_exact_query,
        }
    }
}

/// A length or index as it is kept: every virtual host has many.
fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// How many conditions there are, and how many of these ask for one value.
fn count(all: &[ValueMatch]) -> (u16, u16) {
    let exact = all.iter().filter(|one| matches!(one.value, ValueMatcher::Exact(_)));
    let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    (number(all.len()), number(exact.count()))
}

/// Who comes first when everything else is equal: the older object, then by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seniority {
    /// Creation time; an object without one counts as the oldest.
    pub(crate) created: Option<Timestamp>,
    /// Namespace.
    pub(crate) namespace: Arc<str>,
    /// Name.
    pub(crate) name: Arc<str>,
}

impl Seniority {
    /// Of an object.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            created: metadata.creation_timestamp,
            namespace: Arc::clone(&metadata.namespace),
            name: Arc::clone(&metadata.name),
        }
    }
}

impl Ord for Seniority {
    /// Less is older. Of the same age is "first in alphabetical order by `{namespace}/{name}`" (Gateway API): that text
    /// puts `a-b/x` before `a/x`, because `-` comes before `/`.
    fn cmp(&self, other: &Self) -> Ordering {
        fn text(of: &Seniority) -> impl Iterator<Item = u8> {
            of.namespace.bytes().chain([b'/']).chain(of.name.bytes())
        }
        self.created
            .cmp(&other.created)
            .then_with(|| match self.namespace == other.namespace {
                true => self.name.cmp(&other.name),
                false => text(self).cmp(text(other)),
            })
    }
}

impl PartialOrd for Seniority {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Index of a rule, and of a match in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u32, u32);

impl Position {
    /// Of indexes.
    pub(crate) fn new(rule: usize, index: usize) -> Self {
        Self(size(rule), size(index))
    }
}

/// The place of one match in a virtual host. Greater is tried first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Precedence<'a> {
    /// The hostname that the route itself wrote.
    pub(crate) hostname: Specificity,
    /// Of the match.
    pub(crate) rank: &'a Rank,
    /// Of the route.
    pub(crate) seniority: Reverse<&'a Seniority>,
    /// Of the route: two kinds may share age and name.
    pub(crate) kind: Reverse<RouteKind>,
    /// Index of rule and match in the route.
    pub(crate) position: Reverse<Position>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: PathMatch) -> RouteMatch {
        RouteMatch::on_path(path)
    }

    fn value(name: &str, value: ValueMatcher) -> ValueMatch {
        ValueMatch {
            name: name.into(),
            value,
        }
    }

    #[test]
    fn each_criterion_beats_all_later_ones() {
        let any = || path(PathMatch::Any);
        let with = |edit: fn(&mut RouteMatch)| {
            let mut m = any();
            edit(&mut m);
            m
        };
        let falling = [
            path(PathMatch::Exact("/a".into())),
            path(PathMatch::Regex("/a.*".into())),
            path(PathMatch::Prefix("/abc".into())),
            path(PathMatch::Prefix("/a".into())),
            with(|m| m.method = Some("GET".into())),
            with(|m| {
                m.headers = [
                    value("a", ValueMatcher::Regex("x".into())),
                    value("b", ValueMatcher::Regex("x".into())),
                ]
                .into()
            }),
            with(|m| m.headers = [value("a", ValueMatcher::Exact("x".into()))].into()),
            with(|m| m.headers = [value("a", ValueMatcher::Regex("x".into()))].into()),
            with(|m| m.cookies = [value("a", ValueMatcher::Exact("x".into()))].into()),
            with(|m| m.cookies = [value("a", ValueMatcher::Regex("x".into()))].into()),
            with(|m| m.query = [value("a", ValueMatcher::Exact("x".into()))].into()),
            with(|m| m.query = [value("a", ValueMatcher::Regex("x".into()))].into()),
            any(),
        ];
        let rank = |matches: &RouteMatch| Rank::of(matches).with_cookies(&matches.cookies);
        for pair in falling.windows(2) {
            assert!(rank(&pair[0]) > rank(&pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn the_older_route_comes_first_then_the_name() {
        let s = |created: Option<i64>, name: &str| Seniority {
            created: created.map(Timestamp),
            namespace: "n".into(),
            name: name.into(),
        };
        let mut list = [s(Some(2), "a"), s(Some(1), "z"), s(None, "a"), s(Some(1), "b")];
        list.sort();
        assert_eq!(list, [s(None, "a"), s(Some(1), "b"), s(Some(1), "z"), s(Some(2), "a")]);
    }

    #[test]
    fn names_are_compared_as_they_are_written_with_their_namespace() {
        let s = |namespace: &str, name: &str| Seniority {
            created: None,
            namespace: namespace.into(),
            name: name.into(),
        };
        let mut list = [s("a", "x"), s("a-b", "x"), s("a", "a"), s("b", "a")];
        list.sort();
        assert_eq!(list, [s("a-b", "x"), s("a", "a"), s("a", "x"), s("b", "a")]);
    }
}
