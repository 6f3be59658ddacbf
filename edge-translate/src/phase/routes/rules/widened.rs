//! Matches that are refused, of rules that are guarded.
//!
//! A rule behind a policy or an authorization that can't be honoured answers 500. With a match that is refused as well,
//! nothing would answer for what it was meant for, and requests would fall to a wider rule with fewer guards. So a
//! condition that is refused becomes one that surely holds wherever it was meant to, as narrow as can be told, and the
//! match keeps the rank that it was written with.

use super::{RankedMatch, Wording, admissible, expression, grpc_matches, matches::everything};
use crate::{
    api::{GrpcMethodMatch, GrpcRouteMatch, HttpMethod, HttpPathMatch, HttpRouteMatch, MatchType, PathMatchType},
    phase::precedence::Rank,
};
use edge_ir::{PathMatch, RouteMatch, Seldom, ValueMatch, ValueMatcher};

/// A condition on a header or query parameter.
struct Condition<'a> {
    kind: &'a MatchType,
    name: String,
    value: &'a str,
}

/// Conditions of a match. Of those with the same name only the first counts, kept or not.
fn first_of_each<'a>(all: impl Iterator<Item = Condition<'a>>) -> Vec<Condition<'a>> {
    let mut first: Vec<Condition<'a>> = Vec::new();
    for condition in all {
        if first.iter().all(|known| known.name != condition.name) {
            first.push(condition);
        }
    }
    first
}

fn on_header<'a>(kind: &'a MatchType, name: &str, value: &'a str) -> Condition<'a> {
    Condition {
        kind,
        name: name.to_ascii_lowercase(),
        value,
    }
}

/// The requests that a refused match of an HTTPRoute may be meant for.
pub(super) fn request(index: usize, one: &HttpRouteMatch) -> RankedMatch {
    let headers = one.headers.iter().map(|h| on_header(&h.r#type, &h.name, &h.value));
    let query = one.query_params.iter().map(|q| Condition {
        kind: &q.r#type,
        name: q.name.to_string(),
        value: &q.value,
    });
    let (headers, query) = (first_of_each(headers), first_of_each(query));
    let written = RouteMatch {
        path: written_path(&one.path),
        method: one.method.as_ref().map(|m| m.as_str().into()),
        headers: headers.iter().map(value_match).collect(),
        query: query.iter().map(value_match).collect(),
        cookies: Seldom::default(),
    };
    let known = |method: &&HttpMethod| !matches!(method, HttpMethod::Other(_));
    let matches = RouteMatch {
        path: path(&one.path),
        method: one.method.as_ref().filter(known).map(|m| m.as_str().into()),
        headers: sound(&headers),
        query: sound(&query),
        cookies: Seldom::default(),
    };
    RankedMatch {
        index,
        matches,
        rank: Rank::of(&written),
        wording: Wording::Widened,
    }
}

/// The calls that a refused match of a GRPCRoute may be meant for.
pub(super) fn call(index: usize, one: &GrpcRouteMatch) -> RankedMatch {
    let headers = one.headers.iter().map(|h| on_header(&h.r#type, &h.name, &h.value));
    let headers = first_of_each(headers);
    let call = one.method.as_deref();
    let written = RouteMatch {
        path: call.map_or(PathMatch::Any, grpc_matches::written),
        headers: headers.iter().map(value_match).collect(),
        ..everything()
    };
    let matches = RouteMatch {
        path: call.map_or(PathMatch::Any, call_path),
        headers: sound(&headers),
        ..everything()
    };
    RankedMatch {
        index,
        matches,
        rank: grpc_matches::rank(&written, call),
        wording: Wording::Widened,
    }
}

fn written_path(path: &HttpPathMatch) -> PathMatch {
    let value = || (&*path.value).into();
    match &path.r#type {
        PathMatchType::PathPrefix => PathMatch::Prefix(path.value.trim_end_matches('/').into()),
        PathMatchType::RegularExpression => PathMatch::Regex(value()),
        PathMatchType::Exact | PathMatchType::Other(_) => PathMatch::Exact(value()),
    }
}

fn value_match(condition: &Condition<'_>) -> ValueMatch {
    ValueMatch {
        name: condition.name.as_str().into(),
        value: match condition.kind {
            MatchType::RegularExpression => ValueMatcher::Regex(condition.value.into()),
            MatchType::Exact | MatchType::Other(_) => ValueMatcher::Exact(condition.value.into()),
        },
    }
}

/// Those conditions that can be kept.
fn sound(all: &[Condition<'_>]) -> Seldom<ValueMatch> {
    let is_sound = |condition: &&Condition<'_>| {
        admissible::field_name(&condition.name).is_ok()
            && match condition.kind {
                MatchType::Exact => admissible::field_value(condition.value).is_ok(),
                MatchType::RegularExpression => expression::check(condition.value).is_ok(),
                MatchType::Other(_) => false,
            }
    };
    all.iter().filter(is_sound).map(value_match).collect()
}

fn path(path: &HttpPathMatch) -> PathMatch {
    let value = &*path.value;
    match &path.r#type {
        PathMatchType::PathPrefix if admissible::path(value).is_ok() => match value.trim_end_matches('/') {
            "" => PathMatch::Any,
            prefix => PathMatch::Prefix(prefix.into()),
        },
        PathMatchType::Exact if admissible::path(value).is_ok() => PathMatch::Exact(value.into()),
        PathMatchType::RegularExpression if expression::check(value).is_ok() => PathMatch::Regex(value.into()),
        PathMatchType::PathPrefix | PathMatchType::Exact => beginning_like(sound_beginning(value)),
        PathMatchType::RegularExpression => beginning_like(literal_beginning(value)),
        PathMatchType::Other(_) => PathMatch::Any,
    }
}

/// Every path that begins with a text.
fn beginning_like(text: &str) -> PathMatch {
    match text {
        "" | "/" => PathMatch::Any,
        text => PathMatch::Regex(format!("{}.*", regex::escape(text)).into()),
    }
}

/// As much of a path as can be one. Dot segments may lead back to anywhere.
fn sound_beginning(path: &str) -> &str {
    if has_dot_segment(path) {
        return "";
    }
    let mut ends = path.char_indices().map(|(at, c)| at + c.len_utf8());
    // Half of an encoded character is no path, nor is "/." of "/.well-known"; what they are the beginning of may be.
    let sound = ends.rfind(|end| admissible::path(&path[..*end]).is_ok());
    &path[..sound.unwrap_or(0)]
}

/// Whether a path has a segment `.` or `..`, in whatever form a proxy may take for one (RFC 3986 §6.2.2): encoded, or
/// between what may be taken for slashes.
fn has_dot_segment(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."))
}

/// Characters of an expression that don't stand for themselves.
const META: [char; 13] = ['\\', '.', '+', '*', '?', '(', ')', '[', ']', '{', '}', '^', '$'];

/// What every text begins with that an expression can be meant for.
fn literal_beginning(pattern: &str) -> &str {
    if pattern.contains('|') {
        return "";
    }
    let end = pattern.find(META).unwrap_or(pattern.len());
    let literal = &pattern[..end];
    // What is repeated may be absent.
    match pattern[end..].starts_with(['?', '*', '{']) {
        true => &literal[..literal.char_indices().last().map_or(0, |(at, _)| at)],
        false => literal,
    }
}

fn call_path(call: &GrpcMethodMatch) -> PathMatch {
    let (service, method) = grpc_matches::parts(Some(call));
    let part = |part: Option<&str>, exact: fn(&str) -> Result<(), String>| match (part, &call.r#type) {
        (Some(text), MatchType::Exact) if exact(text).is_ok() => Some(regex::escape(text)),
        (Some(text), MatchType::RegularExpression) if expression::check(text).is_ok() => Some(format!("(?:{text})")),
        _ => None,
    };
    match (
        part(service, admissible::grpc_service),
        part(method, admissible::grpc_method),
    ) {
        (None, None) => PathMatch::Any,
        (service, method) => {
            let text = |part: Option<String>| part.unwrap_or_else(|| ".*".to_owned());
            PathMatch::Regex(format!("/{}/{}", text(service), text(method)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HttpHeaderMatch;

    #[test]
    fn a_refused_path_is_closed_as_far_as_it_can_be_told() {
        for (kind, text, expected) in [
            (
                PathMatchType::PathPrefix,
                "/admin?x=1",
                PathMatch::Regex("/admin.*".into()),
            ),
            (PathMatchType::Exact, "/a b", PathMatch::Regex("/a.*".into())),
            (PathMatchType::Exact, "/a//b", PathMatch::Regex("/a/.*".into())),
            (PathMatchType::Exact, "/shop/../admin", PathMatch::Any),
            (PathMatchType::PathPrefix, "/shop/%2E./admin?x", PathMatch::Any),
            (PathMatchType::PathPrefix, "/shop%2f..%5cadmin", PathMatch::Any),
            (PathMatchType::Exact, "/shop/..", PathMatch::Any),
            (
                PathMatchType::PathPrefix,
                "/.well-known/x?y=/..",
                PathMatch::Regex(r"/\.well\-known/x.*".into()),
            ),
            (PathMatchType::Exact, "/a%20b c", PathMatch::Regex("/a%20b.*".into())),
            (PathMatchType::PathPrefix, "admin", PathMatch::Any),
            (
                PathMatchType::RegularExpression,
                "/admin(",
                PathMatch::Regex("/admin.*".into()),
            ),
            (
                PathMatchType::RegularExpression,
                "/admins?(",
                PathMatch::Regex("/admin.*".into()),
            ),
            (PathMatchType::RegularExpression, "/a|/b(", PathMatch::Any),
            (PathMatchType::RegularExpression, "(?i)/admin(", PathMatch::Any),
            (PathMatchType::Other("Glob".into()), "/a*", PathMatch::Any),
        ] {
            let value = text.into();
            assert_eq!(path(&HttpPathMatch { r#type: kind, value }), expected, "{text}");
        }
    }

    #[test]
    fn a_condition_that_is_said_twice_counts_once() {
        let on = |name: &str, value: &str| HttpHeaderMatch {
            r#type: MatchType::Exact,
            name: name.into(),
            value: value.into(),
        };
        let of = |headers: Vec<HttpHeaderMatch>| {
            let refused = HttpRouteMatch {
                path: HttpPathMatch {
                    r#type: PathMatchType::PathPrefix,
                    value: "/a?x".into(),
                },
                headers: headers.into(),
                query_params: [].into(),
                method: None,
            };
            request(0, &refused)
        };
        let (once, twice) = (of(vec![on("x-a", "1")]), of(vec![on("X-A", "1"), on("x-a", "2")]));
        assert_eq!(twice.rank, once.rank);
        assert_eq!(twice.matches, once.matches);
    }
}
