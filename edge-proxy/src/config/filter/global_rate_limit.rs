//! Limits of requests in a time that a service keeps for all proxies (Envoy's `ratelimit`).
//!
//! What: a request is described to the service in words ([`Description`]), and the service says whether it is within all
//! limits. What such a request counts for may be told a second time, when it is over.

use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::config::ClusterId;
use crate::config::access::MetadataPath;
use crate::config::filter::rate_limit_descriptor::Description;

/// Who is asked, and what follows from the answer.
#[derive(Debug)]
pub struct RateLimitService {
    /// Whom.
    pub cluster: ClusterId,
    /// What it is called.
    pub authority: HeaderValue,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Whose limits these are, where a route doesn't say.
    pub domain: Box<str>,
    /// How a request is refused when no answer comes; unset: it is let through.
    pub unanswered: Option<StatusCode>,
    /// The status of one that exceeds a limit.
    pub status: StatusCode,
    /// gRPC clients are told that something is exhausted, not that it is unavailable.
    pub exhausted: bool,
    /// Clients are told of their limit where a description says nothing.
    pub told: bool,
    /// A refused client is told that it was for a limit.
    pub marks: bool,
}

/// What is counted of a route's requests.
#[derive(Debug)]
pub struct GlobalRateLimits {
    /// Whose limits these are; unset: as the chain says.
    pub domain: Option<Box<str>>,
    /// Each for itself.
    pub rules: Box<[GlobalRule]>,
}

/// A description that is told.
#[derive(Debug)]
pub struct GlobalRule {
    /// How requests are described.
    pub description: Description,
    /// Where a filter before this one may have put a limit in place of the service's.
    pub limit: Option<MetadataPath>,
    /// When it is told.
    pub when: When,
}

/// When a description is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the request goes on.
    Asked,
    /// When it is over; nothing follows from the answer.
    Over,
}
