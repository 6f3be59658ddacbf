//! Matches that are refused, of rules that are guarded.
//!
//! A rule behind a policy or an authorization that can't be honoured answers 500. With a match that is refused as well,
//! nothing would answer for what it was meant for, and requests would fall to a wider rule with fewer guards. So a
//! condition that is refused becomes one that surely holds wherever it was meant to, as narrow as can be told, and the
//! match keeps the rank that it was written with.

use super::{admissible, expression, grpc_matches, matches::everything};
use crate::{
    api::{GrpcMethodMatch, GrpcRouteMatch, HttpMethod, HttpPathMatch, HttpRouteMatch, MatchType, PathMatchType},
    phase::precedence::Rank,
};
use edge_ir::{PathMatch, RouteMatch, ValueMatch, ValueMatcher};

/// Type, name and value of a condition on a header or query parameter.
type Named<'a> = (&'a MatchType, &'a str, &'a str);

/// The requests that a refused match of an HTTPRoute may be meant for.
pub(super) fn request(one: &HttpRouteMatch) -> (RouteMatch, Rank) {
    let headers = || one.headers.iter().map(|h| (&h.r#type, &*h.name, &*h.value));
    let query = || one.query_params.iter().map(|q| (&q.r#type, &*q.name, &*q.value));
    let written = RouteMatch {
        path: written_path(&one.path),
        method: one.method.as_ref().map(|m| m.as_str().into()),
        headers: headers().map(written_value).collect(),
        query: query().map(written_value).collect(),
    };
    let known = |method: &&HttpMethod| !matches!(method, HttpMethod::Other(_));
    let matches = RouteMatch {
        path: path(&one.path),
        method: one.method.as_ref().filter(known).map(|m| m.as_str().into()),
        headers: sound(headers().map(|(kind, name, value)| (kind, name.to_ascii_lowercase(), value))),
        query: sound(query().map(|(kind, name, value)| (kind, name.to_owned(), value))),
    };
    (matches, Rank::of(&written))
}

/// The calls that a refused match of a GRPCRoute may be meant for.
pub(super) fn call(one: &GrpcRouteMatch) -> (RouteMatch, Rank) {
    let headers = || one.headers.iter().map(|h| (&h.r#type, &*h.name, &*h.value));
    let call = one.method.as_deref();
    let written = RouteMatch {
        path: call.map_or(PathMatch::Any, grpc_matches::written),
        headers: headers().map(written_value).collect(),
        ..everything()
    };
    let matches = RouteMatch {
        path: call.map_or(PathMatch::Any, call_path),
        headers: sound(headers().map(|(kind, name, value)| (kind, name.to_ascii_lowercase(), value))),
        ..everything()
    };
    let rank = grpc_matches::rank(&written, call);
    (matches, rank)
}

fn written_path(path: &HttpPathMatch) -> PathMatch {
    let value = || (&*path.value).into();
    match &path.r#type {
        PathMatchType::PathPrefix => PathMatch::Prefix(path.value.trim_end_matches('/').into()),
        PathMatchType::RegularExpression => PathMatch::Regex(value()),
        PathMatchType::Exact | PathMatchType::Other(_) => PathMatch::Exact(value()),
    }
}

fn written_value((kind, name, value): Named<'_>) -> ValueMatch {
    ValueMatch {
        name: name.into(),
        value: match kind {
            MatchType::RegularExpression => ValueMatcher::Regex(value.into()),
            MatchType::Exact | MatchType::Other(_) => ValueMatcher::Exact(value.into()),
        },
    }
}

/// Those conditions that can be kept. Of entries with the same name only the first counts, kept or not.
fn sound<'a>(all: impl Iterator<Item = (&'a MatchType, String, &'a str)>) -> Vec<ValueMatch> {
    let mut seen: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for (kind, name, value) in all {
        if seen.contains(&name) {
            continue;
        }
        let is_sound = admissible::field_name(&name).is_ok()
            && match kind {
                MatchType::Exact => admissible::field_value(value).is_ok(),
                MatchType::RegularExpression => expression::check(value).is_ok(),
                MatchType::Other(_) => false,
            };
        if is_sound {
            kept.push(written_value((kind, &name, value)));
        }
        seen.push(name);
    }
    kept
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
    if path.contains("/.") {
        return "";
    }
    let ends = path.char_indices().map(|(at, c)| at + c.len_utf8());
    let sound = ends.take_while(|end| admissible::path(&path[..*end]).is_ok());
    &path[..sound.last().unwrap_or(0)]
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
}
