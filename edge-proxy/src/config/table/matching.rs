//! Evaluation of conditions against a request.

use std::borrow::Cow;
use std::iter;

use http::{HeaderMap, Method};

use crate::config::header::{HeaderCondition, HeaderField, HeaderTest};
use crate::config::route::{CookieCondition, PathCondition, QueryCondition, Route};
use crate::config::table::RequestView;
use crate::cookies;
use crate::lines::{joined, lines};

impl PathCondition {
    /// Whether a path (without query) fits.
    pub fn matches(&self, path: &str, method: &Method) -> bool {
        match self {
            Self::Connect => method == Method::CONNECT,
            // It has no path, which no condition on paths meets.
            _ if method == Method::CONNECT => false,
            Self::Prefix(prefix) => path.starts_with(&**prefix),
            Self::Separated(prefix) => path
                .strip_prefix(&**prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::Exact(want) => path == &**want,
            Self::Regex(regex) => regex.is_match(path),
            Self::PrefixIgnoreCase(prefix) => head_ignoring_case(path, prefix),
            Self::SeparatedIgnoreCase(prefix) => {
                head_ignoring_case(path, prefix) && matches!(path.as_bytes().get(prefix.len()), None | Some(b'/'))
            }
            Self::ExactIgnoreCase(want) => path.eq_ignore_ascii_case(want),
        }
    }

    /// How many bytes of the path this condition covers, for prefix rewrites; a regular expression covers all of it.
    pub fn matched_len(&self, path: &str) -> usize {
        match self {
            Self::Prefix(text)
            | Self::Separated(text)
            | Self::Exact(text)
            | Self::PrefixIgnoreCase(text)
            | Self::SeparatedIgnoreCase(text)
            | Self::ExactIgnoreCase(text) => text.len().min(path.len()),
            Self::Regex(_) => path.len(),
            Self::Connect => 0,
        }
    }
}

impl Route {
    /// Whether the conditions other than the path hold.
    pub fn takes(&self, request: &RequestView<'_>) -> bool {
        self.fraction.is_none_or(|fraction| fraction.takes(request.random))
            && self.headers.iter().all(|condition| condition.holds(request))
            && (self.query.is_empty()
                || self
                    .query
                    .iter()
                    .all(|condition| query_holds(condition, request.query())))
            && self.cookies.iter().all(|condition| cookie_holds(condition, request))
            && (!self.grpc_only || is_grpc(request))
    }

    /// The same for a candidate of the index, which has checked the path only for the kinds that it hashes.
    pub(super) fn takes_indexed(&self, request: &RequestView<'_>, path: &str) -> bool {
        let path_holds = match &self.path {
            // See above.
            _ if *request.method == Method::CONNECT => matches!(self.path, PathCondition::Connect),
            PathCondition::Exact(_) | PathCondition::Separated(_) | PathCondition::Prefix(_) => true,
            PathCondition::Regex(_) => true,
            other => other.matches(path, request.method),
        };
        path_holds && self.takes(request)
    }
}

impl HeaderCondition {
    /// Whether the condition holds for a request.
    pub fn holds(&self, request: &RequestView<'_>) -> bool {
        match &self.field {
            HeaderField::Named(name) => self.holds_for(lines(request.headers, name)),
            field => self.holds_for(value_of(field, request)),
        }
    }

    /// Whether the condition holds for the fields of a response.
    pub fn holds_in(&self, fields: &HeaderMap) -> bool {
        match &self.field {
            HeaderField::Named(name) => self.holds_for(lines(fields, name)),
            // Only requests have those.
            _ => self.holds_for(None),
        }
    }

    /// As in Envoy each line of a field is asked by itself, and one that passes the test is enough: joined lines would
    /// hide a forbidden value beside another.
    fn holds_for<'v>(&self, lines: impl IntoIterator<Item = Cow<'v, str>>) -> bool {
        let mut lines = lines.into_iter();
        let Some(first) = lines.next().or(self.missing_as_empty.then_some(Cow::Borrowed(""))) else {
            // A missing header meets no condition on its value, inverted or not (Envoy's HeaderUtility).
            return match self.test {
                HeaderTest::Present => self.invert,
                HeaderTest::Absent => !self.invert,
                _ => false,
            };
        };
        let passes = match &self.test {
            HeaderTest::Present => true,
            HeaderTest::Absent => false,
            HeaderTest::Value(condition) => iter::once(first).chain(lines).any(|line| condition.matches(&line)),
            HeaderTest::Range(start, end) => iter::once(first).chain(lines).any(|line| {
                let number = line.parse::<i64>();
                number.is_ok_and(|number| (*start..*end).contains(&number))
            }),
        };
        passes != self.invert
    }
}

/// The value of a header or pseudo header; several values are joined by `,`.
pub fn value_of<'a>(field: &HeaderField, request: &RequestView<'a>) -> Option<Cow<'a, str>> {
    match field {
        HeaderField::Method => Some(Cow::Borrowed(request.method.as_str())),
        // A CONNECT has no path.
        HeaderField::Path if *request.method == Method::CONNECT => None,
        HeaderField::Path => Some(Cow::Borrowed(request.path_and_query)),
        HeaderField::Authority => Some(Cow::Borrowed(request.authority)),
        HeaderField::Scheme => Some(Cow::Borrowed(request.scheme)),
        HeaderField::Named(name) => joined(request.headers, name),
    }
}

impl QueryCondition {
    /// Whether it holds for a parameter with this value, if it is there.
    pub fn holds(&self, value: Option<&str>) -> bool {
        match (value, &self.value) {
            (None, _) => self.absent,
            (Some(_), None) => !self.absent,
            (Some(value), Some(want)) => want.matches(value),
        }
    }
}

/// As in Envoy, routes look at a query as it was sent.
fn query_holds(condition: &QueryCondition, query: Option<&str>) -> bool {
    condition.holds(query.and_then(|query| first_parameter(query, &condition.name)))
}

fn cookie_holds(condition: &CookieCondition, request: &RequestView<'_>) -> bool {
    let value = cookies::value(request.headers, &condition.name).map(String::from_utf8_lossy);
    value.is_some_and(|value| condition.value.matches(&value)) != condition.invert
}

/// The first value of a parameter, as it was sent.
pub fn first_parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    })
}

fn is_grpc(request: &RequestView<'_>) -> bool {
    request.headers.get(http::header::CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .strip_prefix(b"application/grpc")
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'+')))
    })
}

fn head_ignoring_case(path: &str, prefix: &str) -> bool {
    path.as_bytes()
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}
