//! Routes: conditions and actions.
//!
//! One entry of a virtual host's list, with everything that wider levels (virtual host, route configuration)
//! contribute merged in. The order of the list is kept by [`crate::config::table`].
//! What a route says of filters is [`crate::config::filter`]'s.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use regex::Regex;
use smallvec::SmallVec;

use crate::config::ClusterId;
use crate::config::access_log::BodyFormat;
use crate::config::filter::RouteFilters;
use crate::config::hashing::HashPolicy;
use crate::config::header::{HeaderCondition, HeaderSteps, StringCondition};
use crate::config::http_manager::Upgrade;
use crate::config::tracing::RouteTracing;

/// One route.
#[derive(Debug)]
pub struct Route {
    /// Its name, may be empty.
    pub name: Arc<str>,
    /// The path condition; also what a prefix rewrite replaces.
    pub path: PathCondition,
    /// All must hold.
    pub headers: Box<[HeaderCondition]>,
    /// All must hold.
    pub query: Box<[QueryCondition]>,
    /// All must hold.
    pub cookies: Box<[CookieCondition]>,
    /// Only that share of the requests; the others go on to the next route.
    pub fraction: Option<Fraction>,
    /// Only requests whose `content-type` is `application/grpc`.
    pub grpc_only: bool,
    /// What to do.
    pub action: Action,
    /// What it and wider levels say of filters.
    pub filters: RouteFilters,
    /// What it says of traces.
    pub tracing: Option<Arc<RouteTracing>>,
    /// Edits of the request; for weighted clusters those of the entry come first.
    pub request_headers: HeaderSteps,
    /// Edits of the response.
    pub response_headers: HeaderSteps,
    /// What is said of it for filters, as the message that they are sent in (`Metadata`); empty for most.
    pub metadata: Box<[u8]>,
}

/// A condition on the path (without query).
#[derive(Debug, Clone)]
pub enum PathCondition {
    /// Every path that starts so.
    Prefix(Box<str>),
    /// That path and everything below it; no slash at the end.
    Separated(Box<str>),
    /// That path.
    Exact(Box<str>),
    /// The whole path matches; anchored by the compiler.
    Regex(Box<Regex>),
    /// [`Self::Prefix`] without ASCII case.
    PrefixIgnoreCase(Box<str>),
    /// [`Self::Separated`] without ASCII case.
    SeparatedIgnoreCase(Box<str>),
    /// [`Self::Exact`] without ASCII case.
    ExactIgnoreCase(Box<str>),
    /// CONNECT requests.
    Connect,
}

/// A condition on a query parameter (its first value; percent escapes are not decoded, as in Envoy).
#[derive(Debug, Clone)]
pub struct QueryCondition {
    /// The parameter's name.
    pub name: Box<str>,
    /// What about it; `None` is "it is there".
    pub value: Option<StringCondition>,
    /// The condition holds when it is not there.
    pub absent: bool,
}

/// A condition on the first cookie of a name.
#[derive(Debug, Clone)]
pub struct CookieCondition {
    /// The cookie's name.
    pub name: Box<str>,
    /// What about its value; a cookie that isn't there doesn't meet it.
    pub value: StringCondition,
    /// The condition holds when that is not met.
    pub invert: bool,
}

/// A share of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    /// How many …
    pub numerator: u32,
    /// … of how many.
    pub denominator: u32,
}

impl Fraction {
    /// Whether a request with this random number is in.
    pub fn takes(self, random: u64) -> bool {
        random % u64::from(self.denominator.max(1)) < u64::from(self.numerator)
    }
}

/// What a route does.
#[derive(Debug)]
pub enum Action {
    /// Send the request to a cluster.
    Forward(Box<Forward>),
    /// Answer with a redirect.
    Redirect(Box<Redirect>),
    /// Answer from the configuration.
    Direct(Box<DirectResponse>),
}

/// Forwarding to a cluster.
#[derive(Debug)]
pub struct Forward {
    /// Which cluster.
    pub clusters: ClusterChoice,
    /// The answer when the cluster is not defined.
    pub cluster_not_found: StatusCode,
    /// From the end of the request to the end of the response; `None` is no deadline.
    pub timeout: Option<Duration>,
    /// Overrides the connection manager's stream idle timeout; `Some(None)` switches it off.
    pub idle_timeout: Option<Option<Duration>>,
    /// Overrides the connection manager's longest life of a stream.
    pub max_stream_duration: Option<Option<Duration>>,
    /// By what clusters that balance by hash choose its host.
    pub hashing: Box<[HashPolicy]>,
    /// Retries.
    pub retry: Option<Box<RetryPolicy>>,
    /// New path.
    pub path_rewrite: Option<PathRewrite>,
    /// New authority.
    pub host_rewrite: Option<HostRewrite>,
    /// Keep the old authority in `x-forwarded-host`.
    pub append_x_forwarded_host: bool,
    /// How much of a request's content is kept for another attempt and for copies, in bytes; what the listener buffers
    /// for a connection where this is absent.
    pub body_limit: Option<usize>,
    /// Copies of the request, sent and forgotten.
    pub mirrors: Box<[Mirror]>,
    /// Upgrades of this route; a protocol that is not here falls back to the connection manager's list.
    pub upgrades: Box<[Upgrade]>,
    /// Send `x-envoy-attempt-count` to the backend.
    pub attempt_count_in_request: bool,
    /// Send `x-envoy-attempt-count` to the client.
    pub attempt_count_in_response: bool,
}

/// Which cluster gets a request.
#[derive(Debug)]
pub enum ClusterChoice {
    /// Always this one.
    Single(ClusterId),
    /// By weight.
    Weighted(WeightedClusters),
    /// The one that a request header names.
    Header(HeaderName),
}

/// Clusters with weights.
#[derive(Debug)]
pub struct WeightedClusters {
    /// Sum of the weights, at least 1.
    pub total: u32,
    /// In the order of the configuration.
    pub entries: Box<[WeightedCluster]>,
    /// One of them says something of filters, or the route does.
    pub says_of_filters: bool,
}

impl Route {
    /// What is said of filters for a request with this random number.
    pub fn filters(&self, random: u64) -> &RouteFilters {
        match &self.action {
            Action::Forward(forward) => match &forward.clusters {
                ClusterChoice::Weighted(weighted) if weighted.says_of_filters => {
                    weighted.entry(random).map_or(&self.filters, |entry| &entry.filters)
                }
                _ => &self.filters,
            },
            Action::Redirect(_) | Action::Direct(_) => &self.filters,
        }
    }
}

impl Forward {
    /// The edits of responses to a request with this random number, by a route that does this.
    pub fn response_edits<'a>(&'a self, route: &'a Route, random: u64) -> &'a HeaderSteps {
        let choice = match &self.clusters {
            ClusterChoice::Weighted(weighted) => weighted.entry(random),
            ClusterChoice::Single(_) | ClusterChoice::Header(_) => None,
        };
        choice.map_or(&route.response_headers, |choice| &choice.response_headers)
    }
}

impl WeightedClusters {
    /// The entry for a request. It is chosen by other bits of its random number than a fraction on the same route looks
    /// at.
    pub fn entry(&self, random: u64) -> Option<&WeightedCluster> {
        self.pick(random.rotate_left(32))
    }

    /// The entry for a random number.
    pub fn pick(&self, random: u64) -> Option<&WeightedCluster> {
        let mut rest = (random % u64::from(self.total.max(1))) as u32;
        for entry in &self.entries {
            if rest < entry.weight {
                return Some(entry);
            }
            rest -= entry.weight;
        }
        None
    }
}

/// One weighted cluster.
#[derive(Debug)]
pub struct WeightedCluster {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Its share of [`WeightedClusters::total`].
    pub weight: u32,
    /// Replaces [`Route::request_headers`] (they are part of it).
    pub request_headers: HeaderSteps,
    /// Replaces [`Route::response_headers`] (they are part of it).
    pub response_headers: HeaderSteps,
    /// Wins over the route's.
    pub host_rewrite: Option<HostRewrite>,
    /// Replaces [`Route::filters`] (it is part of it).
    pub filters: RouteFilters,
}

/// How a path is rewritten. The query stays.
#[derive(Debug, Clone)]
pub enum PathRewrite {
    /// What the path condition matched is replaced by this.
    Prefix(Box<str>),
    /// Every match of the pattern is replaced; `$1` refers to groups.
    Regex(Box<RegexRewrite>),
    /// The whole path is replaced.
    Full(Box<str>),
}

/// A regular expression and what takes the place of its matches (`regex` crate syntax, `${1}`).
#[derive(Debug, Clone)]
pub struct RegexRewrite {
    /// Not anchored.
    pub pattern: Regex,
    /// Substitution in the syntax of [`regex::Regex::replace_all`].
    pub replacement: Box<str>,
}

/// How the authority is rewritten.
#[derive(Debug, Clone)]
pub enum HostRewrite {
    /// To this.
    Literal(HeaderValue),
    /// To the host name of the chosen endpoint.
    Endpoint,
    /// To the value of a request header.
    Header(HeaderName),
    /// By a regular expression on the path (without query).
    PathRegex(Box<RegexRewrite>),
}

/// A copy of the request for another cluster.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Where it goes.
    pub cluster: ClusterId,
    /// Which share of the requests.
    pub fraction: Fraction,
    /// Do not append `-shadow` to the authority.
    pub keep_host: bool,
    /// Whether its span is kept, where it isn't as that of the request.
    pub is_sampled: Option<bool>,
}

/// When and how to try again.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// What is worth another attempt.
    pub on: RetryOn,
    /// Status codes for `retriable-status-codes`.
    pub status_codes: SmallVec<[StatusCode; 4]>,
    /// Headers of responses for `retriable-headers`; one of them is enough.
    pub headers: Box<[HeaderCondition]>,
    /// Only requests that meet one of these are tried again; none means all.
    pub requests: Box<[HeaderCondition]>,
    /// The header by which an Envoy behind this proxy says that it has limited a request.
    pub rate_limited: HeaderName,
    /// Attempts after the first.
    pub max_retries: u32,
    /// Deadline of one attempt.
    pub per_try_timeout: Option<Duration>,
    /// First pause; grows exponentially, with jitter.
    pub backoff_base: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
    /// Do not pick a host that was tried before.
    pub avoid_previous_hosts: bool,
    /// How often to draw another host for that.
    pub host_selection_attempts: u32,
    /// After so many attempts each, priorities that were tried are left out.
    pub attempts_per_priority: Option<NonZeroU32>,
}

/// Envoy's `retry_on` words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct RetryOn {
    /// `5xx` (includes connect failure, reset and refused stream).
    pub server_error: bool,
    /// `gateway-error`: 502, 503, 504.
    pub gateway_error: bool,
    /// `reset`
    pub reset: bool,
    /// `reset-before-request`
    pub reset_before_request: bool,
    /// `connect-failure`
    pub connect_failure: bool,
    /// `refused-stream`
    pub refused_stream: bool,
    /// `retriable-4xx`: 409.
    pub retriable_4xx: bool,
    /// `retriable-status-codes`
    pub status_codes: bool,
    /// `retriable-headers`
    pub headers: bool,
    /// `envoy-ratelimited`: without it, what was limited further back is never tried again.
    pub rate_limited: bool,
    /// gRPC `cancelled`
    pub grpc_cancelled: bool,
    /// gRPC `deadline-exceeded`
    pub grpc_deadline_exceeded: bool,
    /// gRPC `internal`
    pub grpc_internal: bool,
    /// gRPC `resource-exhausted`
    pub grpc_resource_exhausted: bool,
    /// gRPC `unavailable`
    pub grpc_unavailable: bool,
}

/// A redirect. Parts that are `None` stay as in the request.
#[derive(Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// New scheme.
    pub scheme: Option<RedirectScheme>,
    /// New host.
    pub host: Option<Box<str>>,
    /// New port; `None` drops the default port of the old scheme when the scheme changes (as Envoy does).
    pub port: Option<u16>,
    /// New path.
    pub path: Option<RedirectPath>,
    /// Drop the query.
    pub strip_query: bool,
}

/// The scheme of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectScheme {
    /// `https`, as `https_redirect` or as `scheme_redirect`.
    Https,
    /// `http`
    Http,
}

/// The path of a redirect.
#[derive(Debug, Clone)]
pub enum RedirectPath {
    /// The whole path; may carry a query of its own, which then replaces the request's.
    Full(Box<str>),
    /// What the path condition matched is replaced by this.
    Prefix(Box<str>),
    /// Every match of the pattern is replaced.
    Regex(Box<RegexRewrite>),
}

/// An answer from the configuration.
#[derive(Debug)]
pub struct DirectResponse {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: DirectBody,
    /// Its `content-type`, when there is a body.
    pub content_type: Option<HeaderValue>,
}

/// The body of an answer from the configuration.
#[derive(Debug)]
pub enum DirectBody {
    /// Always the same, may be empty.
    Constant(Bytes),
    /// Made from the request.
    Format(Box<BodyFormat>),
}
