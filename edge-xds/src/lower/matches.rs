//! Matches of a route.

use super::common::portion;
use crate::wire::{put_generated, put_message, put_str, put_text};
use edge_ir::{PathMatch, Route, ValueMatcher};
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern};

/// `RouteMatch.prefix`, `.path`, `.headers`, `.query_parameters`, `.runtime_fraction`, `.safe_regex`,
/// `.connect_matcher`, `.path_separated_prefix`, `.cookies`.
const PREFIX: u32 = 1;
const PATH: u32 = 2;
const HEADERS: u32 = 6;
const QUERY_PARAMETERS: u32 = 7;
const RUNTIME_FRACTION: u32 = 9;
const SAFE_REGEX: u32 = 10;
const CONNECT_MATCHER: u32 = 12;
const PATH_SEPARATED_PREFIX: u32 = 14;
const COOKIES: u32 = 17;
/// `HeaderMatcher.name`, `.string_match`.
const HEADER_NAME: u32 = 1;
const HEADER_STRING_MATCH: u32 = 13;
/// `QueryParameterMatcher.name`, `.string_match`.
const QUERY_NAME: u32 = 1;
const QUERY_STRING_MATCH: u32 = 5;
/// `CookieMatcher.name`, `.string_match`.
const COOKIE_NAME: u32 = 1;
const COOKIE_STRING_MATCH: u32 = 2;
/// `StringMatcher.exact`, `.safe_regex`.
const STRING_EXACT: u32 = 1;
const STRING_SAFE_REGEX: u32 = 5;
/// `RegexMatcher.regex`.
const REGEX: u32 = 2;

/// What requests a match is for, besides what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Those with a path.
    Any,
    /// CONNECT (RFC 9110 §9.3.6).
    Connect,
}

/// Writes the fields of a match.
pub(super) fn put_match(out: &mut Vec<u8>, route: &Route, method: Method) {
    let matches = &route.matches;
    match &matches.path {
        // Calls of this method have no path.
        _ if method == Method::Connect => put_message(out, CONNECT_MATCHER, |_| {}),
        PathMatch::Any => put_str(out, PREFIX, "/"),
        PathMatch::Prefix(path) if path.is_empty() || &**path == "/" => put_str(out, PREFIX, "/"),
        PathMatch::Prefix(path) => put_str(out, PATH_SEPARATED_PREFIX, path),
        PathMatch::Exact(path) => put_str(out, PATH, path),
        PathMatch::Regex(regex) => put_regex(out, SAFE_REGEX, regex),
    }
    if let Some(method) = &matches.method {
        put_message(out, HEADERS, |out| {
            put_text(out, HEADER_NAME, ":method");
            put_message(out, HEADER_STRING_MATCH, |out| put_str(out, STRING_EXACT, method));
        });
    }
    for header in &matches.headers {
        put_message(out, HEADERS, |out| {
            put_text(out, HEADER_NAME, &header.name);
            put_message(out, HEADER_STRING_MATCH, |out| put_value(out, &header.value));
        });
    }
    for query in &matches.query {
        put_message(out, QUERY_PARAMETERS, |out| {
            put_text(out, QUERY_NAME, &query.name);
            put_message(out, QUERY_STRING_MATCH, |out| put_value(out, &query.value));
        });
    }
    if let Some(fraction) = route.portion {
        put_generated(out, RUNTIME_FRACTION, &portion(fraction));
    }
    for cookie in &matches.cookies {
        put_message(out, COOKIES, |out| {
            put_text(out, COOKIE_NAME, &cookie.name);
            put_message(out, COOKIE_STRING_MATCH, |out| put_value(out, &cookie.value));
        });
    }
}

fn put_value(out: &mut Vec<u8>, value: &ValueMatcher) {
    match value {
        ValueMatcher::Exact(text) => put_str(out, STRING_EXACT, text),
        ValueMatcher::Regex(regex) => put_regex(out, STRING_SAFE_REGEX, regex),
    }
}

/// A condition on a text, for messages that are built.
pub(super) fn string_matcher(value: &ValueMatcher) -> StringMatcher {
    let pattern = match value {
        ValueMatcher::Exact(text) => MatchPattern::Exact(text.to_string()),
        ValueMatcher::Regex(regex) => MatchPattern::SafeRegex(RegexMatcher {
            regex: regex.to_string(),
            ..Default::default()
        }),
    };
    StringMatcher {
        match_pattern: Some(pattern),
        ignore_case: false,
    }
}

fn put_regex(out: &mut Vec<u8>, number: u32, regex: &str) {
    put_message(out, number, |out| put_text(out, REGEX, regex));
}
