//! LocalRateLimit → [`RateLimits`].

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{HeaderValueOption, RuntimeFractionalPercent};
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{
    LocalRateLimitDescriptor, XRateLimitHeadersRfcVersion,
};
use envoy_types::pb::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use envoy_types::pb::envoy::r#type::v3::TokenBucket;
use envoy_types::pb::google::protobuf::Any;
use http::StatusCode;

use super::rate_limit_descriptor::descriptor;
use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration, fields, number, unpack};
use crate::compile::header::edits;
use crate::compile::route::fraction;
use crate::config::filter::local_rate_limit::{Bucket, BucketCache, Buckets, Limit, RateLimits, SharedBuckets, Size};
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::header::HeaderSteps;
use crate::config::route::Fraction;

/// So many values have buckets where nothing is said.
const USUAL_VALUES: u32 = 20;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    limits(at, &unpack(at, config)?).map(FilterKind::LocalRateLimit)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let limits = limits(at, &unpack(at, config)?)?;
    if limits.is_none() {
        return Err(at.field("token_bucket").error("is required for a route"));
    }
    Ok(FilterSettings::LocalRateLimit(limits))
}

/// `None` limits nothing.
fn limits(at: &At<'_>, message: &LocalRateLimit) -> Result<Option<RateLimits>, Rejection> {
    fields!(at, message => LocalRateLimit {
        status, token_bucket, filter_enabled, filter_enforced, request_headers_to_add_when_not_enforced,
        response_headers_to_add, descriptors, enable_x_ratelimit_headers, always_consume_default_token_bucket,
        rate_limited_as_resource_exhausted, rate_limits, max_dynamic_descriptors;
        // Statistics; and limits of virtual hosts, which are refused.
        ignore stat_prefix, vh_rate_limits;
        refuse stage, local_rate_limit_per_downstream_connection, local_cluster_rate_limit, enable_retry_after_header
    });
    let Some(bucket) = token_bucket else {
        if !descriptors.is_empty() {
            return Err(at
                .field("token_bucket")
                .error("is required where there are descriptors"));
        }
        return Ok(None);
    };
    if rate_limits.is_empty() && !descriptors.is_empty() {
        return Err(at.field("rate_limits").error("is required where there are descriptors"));
    }
    let others = size(&at.field("token_bucket"), bucket)?;
    let max_values = number(max_dynamic_descriptors.as_ref()).unwrap_or(USUAL_VALUES);
    let (list, rules) = (at.field("descriptors"), at.field("rate_limits"));
    let at_headers = at.field("enable_x_ratelimit_headers");
    let sends_limit_headers = match XRateLimitHeadersRfcVersion::try_from(*enable_x_ratelimit_headers) {
        Ok(XRateLimitHeadersRfcVersion::Off) => false,
        Ok(XRateLimitHeadersRfcVersion::DraftVersion03) => true,
        Err(_) => return Err(at_headers.error("is not known")),
    };
    Ok(Some(RateLimits {
        enabled: share(&at.field("filter_enabled"), filter_enabled.as_ref())?,
        enforced: share(&at.field("filter_enforced"), filter_enforced.as_ref())?,
        others: Bucket::full(others),
        always_others: always_consume_default_token_bucket
            .as_ref()
            .is_none_or(|always| always.value),
        rules: rate_limits
            .iter()
            .enumerate()
            .map(|(index, one)| descriptor(&rules.index(index), one))
            .collect::<Result<_, _>>()?,
        buckets: descriptors
            .iter()
            .enumerate()
            .map(|(index, one)| limit(&list.index(index), one, max_values))
            .collect::<Result<_, _>>()?,
        status: match status.as_ref().map(|status| status.code) {
            // As in Envoy: what is no error isn't said to one who is refused.
            Some(code @ 400..600) => {
                StatusCode::from_u16(code as u16).map_err(|_| at.field("status").error("is not a status"))?
            }
            _ => StatusCode::TOO_MANY_REQUESTS,
        },
        exhausted: *rate_limited_as_resource_exhausted,
        sends_limit_headers,
        unenforced: steps(
            at,
            "request_headers_to_add_when_not_enforced",
            request_headers_to_add_when_not_enforced,
        )?,
        response: steps(at, "response_headers_to_add", response_headers_to_add)?,
    }))
}

fn steps(at: &At<'_>, field: &str, list: &[HeaderValueOption]) -> Result<HeaderSteps, Rejection> {
    edits(at, (field, ""), list, &[]).map(Into::into)
}

/// A share of requests; none where nothing is said.
fn share(at: &At<'_>, message: Option<&RuntimeFractionalPercent>) -> Result<Fraction, Rejection> {
    let none = Fraction {
        numerator: 0,
        denominator: 100,
    };
    message.map_or(Ok(none), |message| fraction(at, message.default_value.as_ref()))
}

fn size(at: &At<'_>, message: &TokenBucket) -> Result<Size, Rejection> {
    fields!(at, message => TokenBucket { max_tokens, tokens_per_fill, fill_interval; ignore; refuse });
    let at_interval = at.field("fill_interval");
    let Some(interval) = fill_interval else {
        return Err(at_interval.error("is required"));
    };
    let interval = duration(&at_interval, interval)?;
    if interval.as_millis() < 50 {
        return Err(at_interval.error("must be at least 50 ms"));
    }
    let fill = number(tokens_per_fill.as_ref()).unwrap_or(1);
    if fill == 0 || *max_tokens == 0 {
        return Err(at.error("max_tokens and tokens_per_fill must be at least 1"));
    }
    Ok(Size {
        max: *max_tokens,
        rate: f64::from(fill) / interval.as_secs_f64(),
    })
}

fn limit(at: &At<'_>, message: &LocalRateLimitDescriptor, max_values: u32) -> Result<Limit, Rejection> {
    fields!(at, message => LocalRateLimitDescriptor { entries, token_bucket, shadow_mode; ignore; refuse });
    let Some(bucket) = token_bucket else {
        return Err(at.field("token_bucket").error("is required"));
    };
    let size = size(&at.field("token_bucket"), bucket)?;
    let list = at.field("entries");
    if entries.is_empty() {
        return Err(list.error("must name at least one"));
    }
    let mut pairs: Vec<(Arc<str>, Box<str>)> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let at = list.index(index);
        fields!(at, entry => Entry { key, value; ignore; refuse });
        if key.is_empty() {
            return Err(at.field("key").error("is required"));
        }
        pairs.push((key.as_str().into(), value.as_str().into()));
    }
    let is_open = pairs.iter().any(|(_, value)| value.is_empty());
    Ok(Limit {
        entries: pairs.into(),
        buckets: if is_open {
            Buckets::Each(SharedBuckets::new(BucketCache::empty(size, max_values as usize)))
        } else {
            Buckets::One(Bucket::full(size))
        },
        shadow: *shadow_mode,
    })
}
