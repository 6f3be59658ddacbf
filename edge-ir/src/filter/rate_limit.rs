//! How many requests are let through in a time.

use crate::{AddressRange, ClusterName, TextMatcher, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Limits that a proxy keeps by itself, for a route or for those that share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalRateLimit {
    /// Whose it is, where several routes count together: limits of others that say the same count for themselves.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner: Arc<str>,
    /// For requests that no rule is for. Unset: as many as there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<RateLimit>,
    /// For requests that conditions hold for. One that several rules are for counts for each, and all must let it
    /// through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RateLimitRule>,
    /// Whether clients are told of the limit for other requests. A rule that says nothing is as its listener is.
    pub told: LimitHeaders,
}

/// How many requests in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// How many.
    pub requests: u32,
    /// In which time.
    pub unit: RateLimitUnit,
}

/// A time in which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RateLimitUnit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days.
    Week,
    /// Thirty days.
    Month,
    /// 365 days.
    Year,
}

impl RateLimitUnit {
    /// Its length.
    pub const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
            Self::Week => 604_800,
            Self::Month => 2_592_000,
            Self::Year => 31_536_000,
        }
    }
}

/// Whether clients are told of a limit in headers (`x-ratelimit-limit` and others).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitHeaders {
    /// Nothing is said here: a rule follows its listener, and clients of a listener that says nothing are told.
    #[default]
    Usual,
    /// Clients are told.
    Yes,
    /// Clients aren't told.
    No,
}

/// A limit for the requests that conditions hold for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitRule {
    /// What a request is described by: it counts where all of it can be told.
    pub entries: Vec<RateLimitEntry>,
    /// The limit.
    pub limit: RateLimit,
    /// What a request counts for.
    #[serde(default, skip_serializing_if = "Hits::is_one")]
    pub hits: Hits,
    /// Counted, and never refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// Whether clients are told.
    #[serde(default, skip_serializing_if = "LimitHeaders::is_usual")]
    pub told: LimitHeaders,
}

impl LimitHeaders {
    /// As it says, or else as another.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Usual => other,
            Self::Yes | Self::No => self,
        }
    }

    /// Whether nothing is said.
    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::Usual
    }
}

/// What a request counts for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hits {
    /// One.
    #[default]
    One,
    /// This many; 0 only looks whether there is any left.
    Number(u64),
    /// What filters say of it: a namespace and a key of dynamic metadata.
    Metadata {
        /// The namespace.
        namespace: Arc<str>,
        /// The key.
        key: Arc<str>,
    },
}

impl Hits {
    fn is_one(&self) -> bool {
        *self == Self::One
    }
}

/// A part of what a request is described by: a key with a value. A request that it can't be told of isn't described at
/// all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RateLimitEntry {
    /// Of every request.
    Always {
        /// Key and value.
        key: Arc<str>,
    },
    /// Of requests with a header.
    Header {
        /// Key and value.
        key: Arc<str>,
        /// Name of the header.
        name: Arc<str>,
        /// What it is.
        text: TextMatcher,
        /// What must be the case.
        expect: bool,
    },
    /// A header as it is: each value counts for itself.
    HeaderValue {
        /// Key.
        key: Arc<str>,
        /// Name of the header.
        name: Arc<str>,
    },
    /// Of requests with a query parameter.
    Query {
        /// Key and value.
        key: Arc<str>,
        /// Name of the parameter.
        name: Arc<str>,
        /// What it is.
        text: TextMatcher,
        /// What must be the case.
        expect: bool,
    },
    /// A query parameter as it is.
    QueryValue {
        /// Key.
        key: Arc<str>,
        /// Name of the parameter.
        name: Arc<str>,
    },
    /// Of requests from a network.
    Cidr {
        /// Key and value.
        key: Arc<str>,
        /// The network.
        cidr: AddressRange,
        /// What must be the case.
        expect: bool,
    },
    /// The address of the client: each counts for itself.
    Address,
}

/// Limits that a service keeps for all proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalRateLimit {
    /// `<namespace>/<name>` of whoever said so, where all that it is said for counts together; else each route counts
    /// for itself.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner: Arc<str>,
    /// Requests that several rules are for count for each, and all must let them through.
    pub rules: Vec<GlobalRateLimitRule>,
}

/// A limit that a service keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalRateLimitRule {
    /// Its number among those that it is written with.
    pub number: usize,
    /// What it is for, and how much.
    #[serde(flatten)]
    pub rule: RateLimitRule,
    /// What a request counts for besides, once it has been answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Hits>,
    /// Where filters of the request may have put another limit: a namespace and a key of dynamic metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_by: Option<(Arc<str>, Arc<str>)>,
}

/// The service that keeps limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateLimitService {
    /// The service's cluster.
    pub cluster: ClusterName,
    /// Time for its answer.
    pub timeout: Timeout,
    /// What becomes of requests that it doesn't answer for.
    pub unanswered: Unanswered,
    /// Whether clients are told, where a rule says nothing of it.
    pub told: LimitHeaders,
}

/// What becomes of requests that the service of rate limits doesn't answer for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unanswered {
    /// They go on.
    #[default]
    Allowed,
    /// They are refused.
    Refused,
}
