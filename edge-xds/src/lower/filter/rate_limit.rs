//! Limits of requests in a time.

use super::super::common::{number, range, seconds, text_matcher};
use edge_ir::{Hits, LimitHeaders, LocalRateLimit, RateLimit, RateLimitEntry as Entry, RateLimitRule, RateLimitUnit};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::RuntimeFractionalPercent,
            route::v3::{
                self as rt, HeaderMatcher, QueryParameterMatcher,
                header_matcher::HeaderMatchSpecifier,
                query_parameter_matcher::QueryParameterMatchSpecifier,
                rate_limit::{
                    Action, HitsAddend, XRateLimitOption,
                    action::{
                        ActionSpecifier, GenericKey, HeaderValueMatch, QueryParameterValueMatch, QueryParameters,
                        RemoteAddress, RemoteAddressMatch, RequestHeaders,
                    },
                },
            },
        },
        extensions::{
            common::ratelimit::v3::{
                LocalRateLimitDescriptor, XRateLimitHeadersRfcVersion, rate_limit_descriptor::Entry as DescriptorEntry,
            },
            filters::http::local_ratelimit::v3::LocalRateLimit as Filter,
        },
        r#type::{
            matcher::v3::AddressMatcher,
            v3::{FractionalPercent, TokenBucket},
        },
    },
    google::protobuf::{BoolValue, UInt64Value},
};

/// What the names of its counters begin with.
const STAT_PREFIX: &str = "http_local_rate_limiter";

/// How many values of headers and addresses are counted apart, the least recently seen given up for new ones.
const MAX_VALUES: u32 = 10_000;

/// For requests that no rule is for, where they have no limit.
const UNLIMITED: RateLimit = RateLimit {
    requests: u32::MAX,
    unit: RateLimitUnit::Second,
};

/// An instance that limits nothing.
pub(super) fn neutral() -> Filter {
    Filter {
        stat_prefix: STAT_PREFIX.to_owned(),
        ..Default::default()
    }
}

/// The limits of a route, or of those that share them, and whether clients are told where these don't say.
pub(super) fn lower(limits: &LocalRateLimit, told: LimitHeaders) -> Filter {
    let always = RuntimeFractionalPercent {
        // Of a hundred.
        default_value: Some(FractionalPercent {
            numerator: 100,
            ..Default::default()
        }),
        ..Default::default()
    };
    // Whether the instance tells is what its limit for other requests says, so rules that say nothing must say what
    // their listener does.
    let of_listener = told.or(LimitHeaders::Yes);
    let usual = match limits.told {
        LimitHeaders::Yes | LimitHeaders::No if limits.told != of_listener => option(of_listener),
        LimitHeaders::Usual | LimitHeaders::Yes | LimitHeaders::No => XRateLimitOption::Unspecified,
    };
    let rule = |one: &RateLimitRule| rt::RateLimit {
        x_ratelimit_option: match one.told {
            LimitHeaders::Usual => usual.into(),
            LimitHeaders::Yes | LimitHeaders::No => option(one.told).into(),
        },
        ..rule(one)
    };
    Filter {
        token_bucket: Some(bucket(limits.others.unwrap_or(UNLIMITED))),
        filter_enabled: Some(always.clone()),
        filter_enforced: Some(always),
        descriptors: limits.rules.iter().map(descriptor).collect(),
        rate_limits: limits.rules.iter().map(rule).collect(),
        always_consume_default_token_bucket: Some(BoolValue { value: false }),
        max_dynamic_descriptors: number(MAX_VALUES),
        enable_x_ratelimit_headers: headers(limits.told.or(told)).into(),
        ..neutral()
    }
}

fn headers(told: LimitHeaders) -> XRateLimitHeadersRfcVersion {
    match told {
        LimitHeaders::Usual | LimitHeaders::Yes => XRateLimitHeadersRfcVersion::DraftVersion03,
        LimitHeaders::No => XRateLimitHeadersRfcVersion::Off,
    }
}

fn bucket(limit: RateLimit) -> TokenBucket {
    TokenBucket {
        max_tokens: limit.requests,
        tokens_per_fill: number(limit.requests),
        fill_interval: Some(seconds(limit.unit.seconds().into())),
    }
}

/// What the proxy counts: of an entry without a value each value by itself.
fn descriptor(rule: &RateLimitRule) -> LocalRateLimitDescriptor {
    let entries = rule.entries.iter().map(|entry| {
        let (key, value) = described(entry);
        DescriptorEntry {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    });
    LocalRateLimitDescriptor {
        entries: entries.collect(),
        token_bucket: Some(bucket(rule.limit)),
        shadow_mode: rule.shadow,
    }
}

/// Key and value by which an entry is counted; without a value each value by itself.
pub(crate) fn described(entry: &Entry) -> (&str, &str) {
    match entry {
        Entry::Always { key } | Entry::Header { key, .. } | Entry::Query { key, .. } | Entry::Cidr { key, .. } => {
            (key, key)
        }
        Entry::HeaderValue { key, .. } | Entry::QueryValue { key, .. } => (key, ""),
        Entry::Address => ("remote_address", ""),
    }
}

fn option(told: LimitHeaders) -> XRateLimitOption {
    match told {
        LimitHeaders::Usual => XRateLimitOption::Unspecified,
        LimitHeaders::Yes => XRateLimitOption::DraftVersion03,
        LimitHeaders::No => XRateLimitOption::Off,
    }
}

/// How a request is described for a rule.
pub(super) fn rule(rule: &RateLimitRule) -> rt::RateLimit {
    let action = |entry: &Entry| Action {
        action_specifier: Some(action(entry)),
    };
    rt::RateLimit {
        actions: rule.entries.iter().map(action).collect(),
        hits_addend: hits(&rule.hits),
        x_ratelimit_option: option(rule.told).into(),
        ..Default::default()
    }
}

/// What a request counts for; nothing where that is one.
pub(super) fn hits(hits: &Hits) -> Option<HitsAddend> {
    match hits {
        Hits::One => None,
        Hits::Number(value) => Some(HitsAddend {
            number: Some(UInt64Value { value: *value }),
            ..Default::default()
        }),
        Hits::Metadata { namespace, key } => Some(HitsAddend {
            format: format!("%DYNAMIC_METADATA({namespace}:{key})%"),
            ..Default::default()
        }),
    }
}

fn action(entry: &Entry) -> ActionSpecifier {
    match entry {
        Entry::Always { key } => ActionSpecifier::GenericKey(GenericKey {
            descriptor_key: key.to_string(),
            descriptor_value: key.to_string(),
            ..Default::default()
        }),
        Entry::Header {
            key,
            name,
            text,
            expect,
        } => ActionSpecifier::HeaderValueMatch(HeaderValueMatch {
            descriptor_key: key.to_string(),
            descriptor_value: key.to_string(),
            expect_match: Some(BoolValue { value: *expect }),
            headers: vec![HeaderMatcher {
                name: name.to_string(),
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(text_matcher(text))),
                ..Default::default()
            }],
            ..Default::default()
        }),
        Entry::HeaderValue { key, name } => ActionSpecifier::RequestHeaders(RequestHeaders {
            header_name: name.to_string(),
            descriptor_key: key.to_string(),
            ..Default::default()
        }),
        Entry::Query {
            key,
            name,
            text,
            expect,
        } => ActionSpecifier::QueryParameterValueMatch(QueryParameterValueMatch {
            descriptor_key: key.to_string(),
            descriptor_value: key.to_string(),
            expect_match: Some(BoolValue { value: *expect }),
            query_parameters: vec![QueryParameterMatcher {
                name: name.to_string(),
                query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(text_matcher(text))),
            }],
            ..Default::default()
        }),
        Entry::QueryValue { key, name } => ActionSpecifier::QueryParameters(QueryParameters {
            query_parameter_name: name.to_string(),
            descriptor_key: key.to_string(),
            ..Default::default()
        }),
        Entry::Cidr { key, cidr, expect } => ActionSpecifier::RemoteAddressMatch(RemoteAddressMatch {
            descriptor_key: key.to_string(),
            descriptor_value: key.to_string(),
            address_matcher: Some(AddressMatcher {
                ranges: vec![range(*cidr)],
                invert_match: !expect,
            }),
            ..Default::default()
        }),
        Entry::Address => ActionSpecifier::RemoteAddress(RemoteAddress {}),
    }
}
