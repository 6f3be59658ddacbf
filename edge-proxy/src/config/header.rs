//! Header conditions and header edits, rendered ahead of time.
//!
//! Matchers on headers (and on the pseudo headers `:method`, `:path`, `:authority`, `:scheme`) and the flat list
//! of edits of a route. Why flat: Envoy evaluates the edits of the weighted cluster, the route, the virtual host and
//! the route configuration one after the other; the compiler concatenates them in that order once.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use regex::Regex;

/// A condition on a string.
#[derive(Debug, Clone)]
pub enum StringCondition {
    /// Equal.
    Exact(Box<str>),
    /// Equal without ASCII case.
    ExactIgnoreCase(Box<str>),
    /// Starts with.
    Prefix(Box<str>),
    /// Starts with, without ASCII case.
    PrefixIgnoreCase(Box<str>),
    /// Ends with.
    Suffix(Box<str>),
    /// Ends with, without ASCII case.
    SuffixIgnoreCase(Box<str>),
    /// Contains.
    Contains(Box<str>),
    /// Contains, without ASCII case.
    ContainsIgnoreCase(Box<str>),
    /// The whole string matches; the pattern is anchored at both ends by the compiler.
    Regex(Box<Regex>),
}

impl StringCondition {
    /// Whether the value meets the condition.
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(want) => &**want == value,
            Self::ExactIgnoreCase(want) => want.eq_ignore_ascii_case(value),
            Self::Prefix(want) => value.starts_with(&**want),
            Self::PrefixIgnoreCase(want) => value
                .as_bytes()
                .get(..want.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(want.as_bytes())),
            Self::Suffix(want) => value.ends_with(&**want),
            Self::SuffixIgnoreCase(want) => {
                let bytes = value.as_bytes();
                bytes.len() >= want.len() && bytes[bytes.len() - want.len()..].eq_ignore_ascii_case(want.as_bytes())
            }
            Self::Contains(want) => value.contains(&**want),
            Self::ContainsIgnoreCase(want) => {
                want.is_empty()
                    || value
                        .as_bytes()
                        .windows(want.len())
                        .any(|part| part.eq_ignore_ascii_case(want.as_bytes()))
            }
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}

/// What a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderField {
    /// `:method`
    Method,
    /// `:path`, with the query.
    Path,
    /// `:authority`
    Authority,
    /// `:scheme`
    Scheme,
    /// An ordinary header. A condition asks each of its lines; where one text is wanted they are joined by `,`.
    Named(HeaderName),
}

/// A condition on a header.
#[derive(Debug, Clone)]
pub struct HeaderCondition {
    /// Which header.
    pub field: HeaderField,
    /// What about it.
    pub test: HeaderTest,
    /// The condition holds when the test does not.
    pub invert: bool,
    /// A missing header is looked at as an empty one.
    pub missing_as_empty: bool,
}

/// The test of a header condition.
#[derive(Debug, Clone)]
pub enum HeaderTest {
    /// It is there.
    Present,
    /// It is not there.
    Absent,
    /// Its value.
    Value(StringCondition),
    /// Its value is a decimal integer in `start..end`.
    Range(i64, i64),
}

/// One step of editing headers.
#[derive(Debug, Clone)]
pub enum HeaderStep {
    /// Take every value of this header out.
    Remove(HeaderName),
    /// Take out every header with such a name.
    RemoveAll(Box<StringCondition>),
    /// Put a value in.
    Put {
        /// Which header; `host` means the authority.
        name: HeaderName,
        /// The value.
        value: HeaderTemplate,
        /// How it meets a value that is there.
        action: PutAction,
        /// Send it even when it renders to nothing.
        keep_empty: bool,
    },
}

/// The edits of a route in the order in which they are made.
pub type HeaderSteps = Arc<[HeaderStep]>;

/// How a value meets the values that are there (Envoy's `append_action`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutAction {
    /// Add another value.
    Append,
    /// Only when there is none.
    AddIfAbsent,
    /// Replace, or add.
    Overwrite,
    /// Replace; nothing when there is none.
    OverwriteIfExists,
}

/// The value of a header edit.
#[derive(Debug, Clone)]
pub enum HeaderTemplate {
    /// A constant, the usual case.
    Literal(HeaderValue),
    /// Made from the request.
    Parts(Box<[TemplatePart]>),
}

/// One piece of a value made from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// As it is.
    Text(Box<str>),
    /// `%REQ(name)%`, cut to a length, with an alternative header. `:path`, `:method`, `:authority`, `:scheme` too.
    Request(HeaderFieldRef),
    /// `%RESP(name)%`
    Response(HeaderName),
    /// `%DOWNSTREAM_REMOTE_ADDRESS%`
    RemoteAddress,
    /// `%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%`
    RemoteAddressWithoutPort,
    /// `%DOWNSTREAM_LOCAL_ADDRESS%`
    LocalAddress,
    /// `%DOWNSTREAM_LOCAL_PORT%`
    LocalPort,
    /// `%PROTOCOL%`
    Protocol,
    /// `%REQUESTED_SERVER_NAME%`
    ServerName,
    /// `%UPSTREAM_CLUSTER%`
    UpstreamCluster,
    /// `%ROUTE_NAME%`
    RouteName,
    /// `%START_TIME%`
    StartTime,
    /// `%HOSTNAME%`
    Hostname,
}

impl TemplatePart {
    /// Whether it is made of the head of the request, by which also goes who its client is.
    pub fn reads_request(&self) -> bool {
        matches!(
            self,
            Self::Request(_) | Self::RemoteAddress | Self::RemoteAddressWithoutPort
        )
    }
}

/// The operand of `%REQ()%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFieldRef {
    /// First choice.
    pub field: HeaderField,
    /// When the first is missing.
    pub alternative: Option<HeaderField>,
    /// Cut to that many bytes.
    pub max_len: Option<usize>,
}
