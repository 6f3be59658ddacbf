//! Limits of requests in a time that a service keeps for all proxies (Envoy's `ratelimit`).
//!
//! A request is described to the service in entries ([`Descriptor`]), and the service says whether it is within
//! all limits. What such a request counts for may be told a second time, when it is over.

use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::config::ClusterId;
use crate::config::access::MetadataPath;
use crate::config::filter::rate_limit_descriptor::Descriptor;

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
    /// Clients get `x-ratelimit-*` headers where a descriptor says nothing of them.
    pub sends_limit_headers: bool,
    /// A refused client is told that it was for a limit (`x-envoy-ratelimited`).
    pub adds_ratelimited_header: bool,
}

/// What is counted of a route's requests.
#[derive(Debug)]
pub struct GlobalRateLimits {
    /// Whose limits these are; unset: as the chain says.
    pub domain: Option<Box<str>>,
    /// Each for itself.
    pub rules: Box<[GlobalRule]>,
}

/// A descriptor that is told.
#[derive(Debug)]
pub struct GlobalRule {
    /// How requests are described.
    pub descriptor: Descriptor,
    /// Where a filter before this one may have put a limit in place of the service's.
    pub limit: Option<MetadataPath>,
    /// When it is told.
    pub when: When,
}

/// When a descriptor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the request goes on.
    Asked,
    /// When it is over; nothing follows from the answer.
    Over,
}
