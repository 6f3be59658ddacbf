//! Whether and when to try again.
//!
//! Envoy's `retry_on` words applied to responses and faults, and its jittered exponential back-off.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use crate::config::route::{RetryOn, RetryPolicy};
use crate::fault::{Fault, Retry};
use crate::message::head::Head;
use crate::random::Random;

/// Whether a request may be sent twice, policy or not, if it has no content (RFC 9110 §9.2.2).
pub(crate) fn is_safe_twice(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// Whether a response is worth another attempt.
pub(crate) fn wants_response(policy: &RetryPolicy, status: StatusCode, headers: &HeaderMap) -> bool {
    let on = policy.on;
    if headers.contains_key(&policy.rate_limited) {
        return on.rate_limited;
    }
    (on.server_error && status.is_server_error())
        || (on.gateway_error && matches!(status.as_u16(), 502..=504))
        || (on.retriable_4xx && status == StatusCode::CONFLICT)
        || (on.status_codes && policy.status_codes.contains(&status))
        || (on.headers && policy.headers.iter().any(|condition| condition.holds_in(headers)))
        || wants_grpc(on, headers)
}

/// Whether a request may be tried again at all.
pub(crate) fn covers(policy: &RetryPolicy, head: &Head) -> bool {
    policy.requests.is_empty() || {
        let view = head.view();
        policy.requests.iter().any(|condition| condition.holds(&view))
    }
}

/// A gRPC server that fails at once answers with a head only, which holds the status.
fn wants_grpc(on: RetryOn, headers: &HeaderMap) -> bool {
    let any = on.grpc_cancelled
        || on.grpc_deadline_exceeded
        || on.grpc_internal
        || on.grpc_resource_exhausted
        || on.grpc_unavailable;
    any && match headers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        Some(b"1") => on.grpc_cancelled,
        Some(b"4") => on.grpc_deadline_exceeded,
        Some(b"8") => on.grpc_resource_exhausted,
        Some(b"13") => on.grpc_internal,
        Some(b"14") => on.grpc_unavailable,
        _ => false,
    }
}

/// Whether a fault is worth another attempt.
pub(crate) fn wants_fault(policy: &RetryPolicy, fault: Fault) -> bool {
    let on = policy.on;
    // A reset would become a 503, so the words for 5xx cover it.
    let any_reset = on.reset || on.server_error || on.gateway_error;
    match fault.verdict().retry {
        Retry::Never => false,
        Retry::ConnectFailure => any_reset || on.connect_failure || on.reset_before_request,
        Retry::RefusedStream => any_reset || on.refused_stream || on.reset_before_request,
        Retry::Reset => any_reset,
    }
}

/// The pause before attempt `n` (1 is the first retry).
pub(crate) fn pause(policy: &RetryPolicy, n: u32, random: &Random) -> Duration {
    let widest = policy
        .backoff_base
        .saturating_mul(1_u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX));
    let widest = widest.min(policy.backoff_max);
    let micros = usize::try_from(widest.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(random.below(micros.max(1)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(on: RetryOn) -> RetryPolicy {
        RetryPolicy {
            on,
            status_codes: smallvec::smallvec![StatusCode::SERVICE_UNAVAILABLE],
            headers: Box::default(),
            requests: Box::default(),
            rate_limited: http::HeaderName::from_static("x-edge-ratelimited"),
            max_retries: 2,
            per_try_timeout: None,
            backoff_base: Duration::from_millis(25),
            backoff_max: Duration::from_millis(100),
            avoid_previous_hosts: false,
            host_selection_attempts: 0,
            attempts_per_priority: None,
        }
    }

    #[test]
    fn the_default_words_cover_what_was_not_processed_and_nothing_else() {
        let policy = policy(RetryOn {
            connect_failure: true,
            refused_stream: true,
            grpc_unavailable: true,
            grpc_cancelled: true,
            status_codes: true,
            ..RetryOn::default()
        });
        for fault in [Fault::ConnectFailure, Fault::ConnectTimeout, Fault::RefusedStream] {
            assert!(wants_fault(&policy, fault), "{fault:?}");
        }
        for fault in [
            Fault::ConnectionTermination,
            Fault::RemoteReset,
            Fault::PerTryTimeout,
            Fault::RouteTimeout,
            Fault::Overflow,
        ] {
            assert!(!wants_fault(&policy, fault), "{fault:?}");
        }
        let none = HeaderMap::new();
        assert!(wants_response(&policy, StatusCode::SERVICE_UNAVAILABLE, &none));
        assert!(!wants_response(&policy, StatusCode::BAD_GATEWAY, &none));
        let mut grpc = HeaderMap::new();
        grpc.insert("grpc-status", http::HeaderValue::from_static("14"));
        assert!(wants_response(&policy, StatusCode::OK, &grpc));
        grpc.insert("grpc-status", http::HeaderValue::from_static("13"));
        assert!(!wants_response(&policy, StatusCode::OK, &grpc));
    }

    #[test]
    fn what_was_limited_further_back_is_tried_again_only_where_that_is_said() {
        let mut headers = HeaderMap::new();
        headers.insert("x-edge-ratelimited", http::HeaderValue::from_static("true"));
        let mut policy = policy(RetryOn {
            server_error: true,
            status_codes: true,
            ..RetryOn::default()
        });
        assert!(!wants_response(&policy, StatusCode::SERVICE_UNAVAILABLE, &headers));
        policy.on.rate_limited = true;
        assert!(wants_response(&policy, StatusCode::TOO_MANY_REQUESTS, &headers));
        assert!(!wants_response(
            &policy,
            StatusCode::TOO_MANY_REQUESTS,
            &HeaderMap::new()
        ));
    }

    #[test]
    fn resets_are_covered_by_the_words_for_5xx() {
        for on in [
            RetryOn {
                server_error: true,
                ..RetryOn::default()
            },
            RetryOn {
                gateway_error: true,
                ..RetryOn::default()
            },
            RetryOn {
                reset: true,
                ..RetryOn::default()
            },
        ] {
            assert!(wants_fault(&policy(on), Fault::ConnectionTermination));
            assert!(wants_fault(&policy(on), Fault::PerTryTimeout));
        }
    }

    #[test]
    fn pauses_grow_and_are_capped() {
        let random = Random::new();
        let policy = policy(RetryOn::default());
        for (n, cap) in [(1, 25), (2, 50), (3, 100), (40, 100)] {
            for _ in 0..50 {
                assert!(pause(&policy, n, &random) < Duration::from_millis(cap));
            }
        }
    }
}
