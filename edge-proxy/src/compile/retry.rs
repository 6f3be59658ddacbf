//! Retry policies.

use std::num::NonZeroU32;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{BackoffStrategy, RetryPolicy as ServiceRetryPolicy};
use envoy_types::pb::envoy::config::route::v3::retry_policy::retry_priority::ConfigType as RetryPriorityConfig;
use envoy_types::pb::envoy::config::route::v3::retry_policy::{RetryBackOff, RetryHostPredicate, RetryPriority};
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, RetryPolicy as ProtoRetryPolicy};
use envoy_types::pb::envoy::extensions::retry::priority::previous_priorities::v3::PreviousPrioritiesConfig;
use http::StatusCode;
use smallvec::SmallVec;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, unpack};
use crate::compile::header::header_condition;
use crate::compile::route_action::positive;
use crate::config::header::HeaderCondition;
use crate::config::route::{RetryOn, RetryPolicy};

/// Compiles a retry policy; `None` when it never retries.
pub(super) fn retry_policy(
    context: &Context,
    at: &At<'_>,
    message: &ProtoRetryPolicy,
) -> Result<Option<RetryPolicy>, Rejection> {
    fields!(at, message => ProtoRetryPolicy {
        retry_on, num_retries, per_try_timeout, retry_host_predicate, host_selection_retry_max_attempts,
        retriable_status_codes, retriable_headers, retriable_request_headers, retry_back_off, retry_priority;
        // Clusters are looked up again for every attempt anyway.
        ignore refresh_cluster_on_retry;
        refuse per_try_idle_timeout, retry_options_predicates, rate_limited_retry_back_off
    });
    let avoid_previous_hosts = avoids_previous_hosts(&at.field("retry_host_predicate"), retry_host_predicate)?;
    let status_codes = status_codes(&at.field("retriable_status_codes"), retriable_status_codes)?;
    let attempts_per_priority = retry_priority.as_ref();
    let attempts_per_priority = attempts_per_priority
        .map(|message| priorities(&at.field("retry_priority"), message))
        .transpose()?;
    let headers = conditions(&at.field("retriable_headers"), retriable_headers)?;
    let requests = conditions(&at.field("retriable_request_headers"), retriable_request_headers)?;
    let on = self::retry_on(&at.field("retry_on"), retry_on)?;
    let max_retries = num_retries.as_ref().map_or(1, |number| number.value);
    if max_retries == 0 || on == RetryOn::default() {
        return Ok(None);
    }
    let back_off = self::back_off(&at.field("retry_back_off"), retry_back_off.as_ref())?;
    Ok(Some(RetryPolicy {
        on,
        status_codes,
        headers,
        requests,
        rate_limited: context.prefixed.rate_limited.clone(),
        max_retries,
        per_try_timeout: positive(&at.field("per_try_timeout"), per_try_timeout.as_ref())?,
        backoff_base: back_off.base,
        backoff_max: back_off.max,
        avoid_previous_hosts,
        host_selection_attempts: u32::try_from(*host_selection_retry_max_attempts).unwrap_or(1).max(1),
        attempts_per_priority,
    }))
}

/// Whether other hosts than before are tried, which is all that can be wanted of them.
fn avoids_previous_hosts(list: &At<'_>, predicates: &[RetryHostPredicate]) -> Result<bool, Rejection> {
    for (index, predicate) in predicates.iter().enumerate() {
        if predicate.name != "envoy.retry_host_predicates.previous_hosts" {
            let name = &predicate.name;
            return Err(list
                .index(index)
                .error(format!("{name:?} is not supported by this proxy")));
        }
    }
    Ok(!predicates.is_empty())
}

fn status_codes(at: &At<'_>, codes: &[u32]) -> Result<SmallVec<[StatusCode; 4]>, Rejection> {
    let codes = codes
        .iter()
        .map(|code| StatusCode::from_u16(u16::try_from(*code).ok()?).ok());
    let codes: Option<_> = codes.collect();
    codes.ok_or_else(|| at.error("holds a number that is not a status"))
}

/// How long pauses are.
struct BackOff {
    /// The first, from which they grow.
    base: Duration,
    max: Duration,
}

/// Envoy's defaults are 25 ms, and at most ten times the base.
fn back_off(at: &At<'_>, message: Option<&RetryBackOff>) -> Result<BackOff, Rejection> {
    let (base, max) = match message {
        None => (None, None),
        Some(back_off) => (
            positive(&at.field("base_interval"), back_off.base_interval.as_ref())?,
            positive(&at.field("max_interval"), back_off.max_interval.as_ref())?,
        ),
    };
    let base = base.unwrap_or(Duration::from_millis(25));
    Ok(BackOff {
        base,
        max: max.unwrap_or(base.saturating_mul(10)).max(base),
    })
}

fn conditions(at: &At<'_>, list: &[HeaderMatcher]) -> Result<Box<[HeaderCondition]>, Rejection> {
    let list = list.iter().enumerate();
    list.map(|(index, matcher)| header_condition(&at.index(index), matcher))
        .collect()
}

/// How many attempts go to the priorities that there are before those that were tried are left out.
fn priorities(at: &At<'_>, message: &RetryPriority) -> Result<NonZeroU32, Rejection> {
    fields!(at, message => RetryPriority { name, config_type; ignore; refuse });
    let Some(RetryPriorityConfig::TypedConfig(config)) = config_type else {
        return Err(at.field("typed_config").error("is required"));
    };
    if !is::<PreviousPrioritiesConfig>(config) {
        return Err(at.error(format!("{name:?} is not supported by this proxy")));
    }
    let at = at.field("typed_config");
    let message: PreviousPrioritiesConfig = unpack(&at, config)?;
    let frequency = u32::try_from(message.update_frequency).ok().and_then(NonZeroU32::new);
    frequency.ok_or_else(|| at.field("update_frequency").error("must be greater than 0"))
}

/// When keys and tokens are asked for again: Envoy has these words whatever a policy says.
pub(super) const FIXED_WORDS: &str = "5xx,gateway-error,connect-failure,reset";

/// Compiles what is said of asking a service again, `None` where nothing is; `words` stand in for its own. As in Envoy
/// an attempt takes as long as the longest pause at most.
pub(super) fn of_service(
    context: &Context,
    at: &At<'_>,
    message: Option<&ServiceRetryPolicy>,
    words: Option<&str>,
) -> Result<Option<Box<RetryPolicy>>, Rejection> {
    let Some(message) = message else {
        return Ok(None);
    };
    let at = at.field("retry_policy");
    fields!(at, message => ServiceRetryPolicy {
        retry_back_off, num_retries, retry_on;
        // It is about the predicates.
        ignore host_selection_retry_max_attempts;
        refuse retry_priority, retry_host_predicate
    });
    let on = self::retry_on(&at.field("retry_on"), words.unwrap_or(retry_on))?;
    let max_retries = num_retries.as_ref().map_or(1, |number| number.value);
    let (base, max) = match retry_back_off {
        None => (Duration::from_secs(1), None),
        Some(message) => {
            let at = at.field("retry_back_off");
            fields!(at, message => BackoffStrategy { base_interval, max_interval; ignore; refuse });
            let at_base = at.field("base_interval");
            let base = positive(&at_base, base_interval.as_ref())?.ok_or_else(|| at_base.error("is required"))?;
            let at_max = at.field("max_interval");
            let max = positive(&at_max, max_interval.as_ref())?;
            if max.is_some_and(|max| max < base) {
                return Err(at_max.error("is less than base_interval"));
            }
            (base, max)
        }
    };
    if max_retries == 0 || on == RetryOn::default() {
        return Ok(None);
    }
    let longest = max.unwrap_or(base.saturating_mul(10));
    Ok(Some(Box::new(RetryPolicy {
        on,
        status_codes: SmallVec::new(),
        headers: Box::default(),
        requests: Box::default(),
        rate_limited: context.prefixed.rate_limited.clone(),
        max_retries,
        per_try_timeout: Some(longest),
        backoff_base: base,
        backoff_max: longest,
        avoid_previous_hosts: false,
        host_selection_attempts: 1,
        attempts_per_priority: None,
    })))
}

fn retry_on(at: &At<'_>, words: &str) -> Result<RetryOn, Rejection> {
    let mut on = RetryOn::default();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word {
            "5xx" => on.server_error = true,
            "gateway-error" => on.gateway_error = true,
            "reset" => on.reset = true,
            "reset-before-request" => on.reset_before_request = true,
            "connect-failure" => on.connect_failure = true,
            "refused-stream" => on.refused_stream = true,
            "retriable-4xx" => on.retriable_4xx = true,
            "retriable-status-codes" => on.status_codes = true,
            "cancelled" => on.grpc_cancelled = true,
            "deadline-exceeded" => on.grpc_deadline_exceeded = true,
            "internal" => on.grpc_internal = true,
            "resource-exhausted" => on.grpc_resource_exhausted = true,
            "unavailable" => on.grpc_unavailable = true,
            "retriable-headers" => on.headers = true,
            "envoy-ratelimited" => on.rate_limited = true,
            // It only concerns HTTP/3 to backends, which clusters refuse.
            "http3-post-connect-failure" => {}
            other => return Err(at.error(format!("{other:?} is not a retry condition"))),
        }
    }
    Ok(on)
}
