//! Requests on their way: limits, tries, upgrades, and what filters do.

use super::{Problems, balancing, telemetry};
use crate::{
    api::{
        BackendTrafficPolicySpec,
        cluster_settings::{BackOff, HttpTimeout, Retry},
    },
    name::{Patience, Traffic},
};
use edge_ir::{RetryPolicy, RouteTraffic, Timeout, Tunnel, Upgrade};
use std::sync::Arc;

fn http(spec: &BackendTrafficPolicySpec) -> Option<&HttpTimeout> {
    spec.timeout.as_deref()?.http.as_deref()
}

/// The limit of a whole request.
pub(super) fn timeout(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Timeout> {
    problems.millis("Timeout", "HTTP RequestTimeout", http(spec)?.request_timeout.as_ref())
}

/// Conditions after which a request may be tried again, in the words of the resource and of the proxy alike.
const TRIGGERS: [&str; 13] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

/// That codes say after what.
const BY_CODE: &str = "retriable-status-codes";

/// After what a request is tried again where a policy says only how often.
const USUAL_TRIGGERS: [&str; 5] = ["connect-failure", "refused-stream", "unavailable", "cancelled", BY_CODE];
/// The code that is retriable where none is named.
const USUAL_CODE: u16 = 503;

/// When a request is tried again.
pub(super) fn retry(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<RetryPolicy> {
    const AREA: &str = "Retry";
    let retry = spec.retry.as_deref()?;
    let Ok(retries) = u32::try_from(retry.num_retries) else {
        problems.add(AREA, format_args!("invalid NumRetries value {}", retry.num_retries));
        return None;
    };
    let (triggers, codes) = causes(retry, problems);
    let per_retry = retry.per_retry.as_deref();
    let (backoff, max_backoff) = per_retry
        .and_then(|per_retry| per_retry.back_off.as_ref())
        .map_or((None, None), |back_off| waits(back_off, problems));
    let attempts = retry.num_attempts_per_priority.unwrap_or_default();
    if attempts < 0 {
        problems.add(AREA, format_args!("invalid NumAttemptsPerPriority value {attempts}"));
    }
    let policy = RetryPolicy {
        retries,
        triggers,
        codes,
        backoff,
        max_backoff,
        per_try_timeout: problems
            .millis(AREA, "PerRetry.Timeout", per_retry.and_then(|p| p.timeout.as_ref()))
            .filter(|timeout| timeout.0 > 0),
        attempts_per_priority: u32::try_from(attempts).ok().filter(|attempts| *attempts > 0),
    };
    (retries > 0).then_some(policy)
}

fn causes(retry: &Retry, problems: &mut Problems) -> (Vec<Arc<str>>, Vec<u16>) {
    const AREA: &str = "Retry";
    let Some(on) = retry.retry_on.as_deref() else {
        return (USUAL_TRIGGERS.map(Arc::from).to_vec(), vec![USUAL_CODE]);
    };
    for unknown in on.triggers.iter().filter(|trigger| !TRIGGERS.contains(&&***trigger)) {
        problems.add(AREA, format_args!("unsupported trigger {unknown}"));
    }
    let mut triggers: Vec<Arc<str>> = on.triggers.iter().map(|trigger| (&**trigger).into()).collect();
    if triggers.is_empty() {
        triggers = USUAL_TRIGGERS.map(Arc::from).to_vec();
    }
    let mut codes = problems.codes(AREA, "httpStatusCodes", &on.http_status_codes);
    let is_by_code = triggers.iter().any(|trigger| **trigger == *BY_CODE);
    match (codes.is_empty(), is_by_code) {
        (true, true) => codes.push(USUAL_CODE),
        (false, false) => triggers.push(BY_CODE.into()),
        (true, false) | (false, true) => {}
    }
    (triggers, codes)
}

fn waits(back_off: &BackOff, problems: &mut Problems) -> (Option<Timeout>, Option<Timeout>) {
    const AREA: &str = "Retry";
    let base = problems.millis(AREA, "BaseInterval", back_off.base_interval.as_ref());
    if base == Some(Timeout(0)) {
        problems.add(AREA, "baseInterval cannot be set to 0s");
    }
    let max = problems.millis(AREA, "MaxInterval", back_off.max_interval.as_ref());
    let base_or_usual = base.unwrap_or(Timeout(100));
    if max.is_some_and(|max| max < base_or_usual) {
        problems.add(AREA, "maxInterval cannot be less than baseInterval");
    }
    // The proxy has no longest wait without a shortest one.
    (base.or(max.map(|_| base_or_usual)), max)
}

/// What a route says besides; none where that is nothing.
pub(super) fn route(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Arc<RouteTraffic>> {
    let http = http(spec);
    let traffic = RouteTraffic {
        idle_timeout: problems.millis(
            "Timeout",
            "HTTP StreamIdleTimeout",
            http.and_then(|http| http.stream_idle_timeout.as_ref()),
        ),
        max_stream_duration: problems.millis(
            "Timeout",
            "HTTP MaxStreamDuration",
            http.and_then(|http| http.max_stream_duration.as_ref()),
        ),
        hash: balancing::hash(spec, problems),
        upgrades: upgrades(spec, problems),
        tracing: telemetry::tracing(spec, problems),
        stat_name: telemetry::stat_name(spec, problems),
    };
    (traffic != RouteTraffic::default()).then(|| Arc::new(traffic))
}

/// How long a proxy bears silence of its own accord, and how long it is to where it must bear more.
const USUAL_SILENCE: Timeout = Timeout(300_000);
const LONG_SILENCE: Timeout = Timeout(3_600_000);

/// What is asked of a route, with as much patience for silence as its limit needs where nothing is said of that.
pub(crate) fn patient(traffic: &Traffic, limit: Option<Timeout>) -> Option<Arc<RouteTraffic>> {
    match limit {
        Some(Timeout(0)) => traffic.patience.endless.clone(),
        Some(limit) if limit > LONG_SILENCE => bearing(traffic.route.as_ref(), limit),
        Some(limit) if limit > USUAL_SILENCE => traffic.patience.long.clone(),
        Some(_) | None => traffic.route.clone(),
    }
}

/// What is asked of a route for limits that need patience: the same for all rules with such limits.
pub(super) fn patience(traffic: Option<&Arc<RouteTraffic>>) -> Patience {
    Patience {
        long: bearing(traffic, LONG_SILENCE),
        endless: bearing(traffic, Timeout(0)),
    }
}

impl Default for Patience {
    fn default() -> Self {
        patience(None)
    }
}

/// The same with so much silence, where nothing is said of that.
fn bearing(traffic: Option<&Arc<RouteTraffic>>, silence: Timeout) -> Option<Arc<RouteTraffic>> {
    match traffic {
        Some(traffic) if traffic.idle_timeout.is_some() => Some(Arc::clone(traffic)),
        _ => Some(Arc::new(RouteTraffic {
            idle_timeout: Some(silence),
            ..traffic.map(|traffic| RouteTraffic::clone(traffic)).unwrap_or_default()
        })),
    }
}

/// What of that is for a rule that forwards nothing.
pub(super) fn telemetry(traffic: Option<&RouteTraffic>) -> Option<Arc<RouteTraffic>> {
    let traffic = traffic?;
    let told = RouteTraffic {
        tracing: traffic.tracing.clone(),
        stat_name: traffic.stat_name.clone(),
        ..RouteTraffic::default()
    };
    (told != RouteTraffic::default()).then(|| Arc::new(told))
}

/// Upgrades that clients may ask for. A body that is read whole can't be a tunnel.
fn upgrades(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<Vec<Upgrade>> {
    const AREA: &str = "HTTPUpgrade";
    if spec.request_buffer.is_some() {
        if !spec.http_upgrade.is_empty() {
            problems.add(AREA, "requestBuffer cannot be used together with httpUpgrade");
        }
        return Some(Vec::new());
    }
    if spec.http_upgrade.is_empty() {
        return None;
    }
    let mut known: Vec<Upgrade> = Vec::new();
    for upgrade in &spec.http_upgrade {
        // A protocol, perhaps with its version (RFC 9110 §7.8).
        for part in upgrade.r#type.split('/') {
            problems.token(AREA, "type", part);
        }
        let name: Arc<str> = (&*upgrade.r#type).into();
        let is_connect = name.eq_ignore_ascii_case("connect");
        if upgrade.connect.is_some() && !is_connect {
            problems.add(
                AREA,
                "The connect configuration is only allowed when the type is CONNECT",
            );
        }
        if known.iter().any(|other| other.name.eq_ignore_ascii_case(&name)) {
            problems.add(AREA, format_args!("{name} is listed twice"));
            continue;
        }
        let terminates = upgrade.connect.as_ref().is_some_and(|connect| connect.terminate);
        known.push(Upgrade {
            name,
            tunnel: match terminates {
                true => Tunnel::Content,
                false => Tunnel::Whole,
            },
        });
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: Option<&Arc<RouteTraffic>>, b: Option<&Arc<RouteTraffic>>) -> bool {
        a.zip(b).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    #[test]
    fn rules_with_long_limits_share_what_they_say() {
        let route = Some(Arc::new(RouteTraffic {
            stat_name: Some("x".into()),
            ..RouteTraffic::default()
        }));
        let named = Traffic {
            patience: patience(route.as_ref()),
            route,
            ..Traffic::default()
        };
        for traffic in [&named, &Traffic::default()] {
            let minutes = |minutes: u64| patient(traffic, Some(Timeout(minutes * 60_000)));
            let silence = |minutes_of: Option<Arc<RouteTraffic>>| minutes_of.and_then(|traffic| traffic.idle_timeout);
            assert!(same(minutes(6).as_ref(), minutes(60).as_ref()));
            assert!(same(minutes(0).as_ref(), minutes(0).as_ref()));
            assert_eq!(
                [0, 6, 60, 61].map(|limit| silence(minutes(limit))),
                [0, 3_600_000, 3_600_000, 3_660_000].map(|silence| Some(Timeout(silence)))
            );
            assert_eq!(minutes(5), traffic.route);
            assert_eq!(patient(traffic, None), traffic.route);
        }
    }
}
