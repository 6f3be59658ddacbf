//! Connections to backends: limits, times, buffers, and what is spoken on them.

use super::{Problems, balancing, health};
use crate::api::{
    BackendTrafficPolicySpec,
    cluster_settings::{self as api, BackendConnection, DnsLookupFamily, InvalidMessageAction, ProxyProtocolVersion},
};
use edge_ir::{
    CircuitBreaker, DnsFamily, DnsSettings, Http1Upstream, Http2Keepalive, Http2Settings, HttpVersion, Preconnect,
    ProxyProtocol, RetryBudget, TcpKeepalive, Timeout, UpstreamSettings,
};

/// Windows of HTTP/2 (RFC 9113 §6.9.2): the proxy takes no smaller one than the protocol's own.
const WINDOWS: std::ops::RangeInclusive<u32> = 65_535..=2_147_483_647;

/// Sizes that the system can be asked for: it counts in the integers of C.
pub(in crate::phase::policies) const SYSTEM_BUFFERS: std::ops::RangeInclusive<u32> = 1..=2_147_483_647;

/// What a policy asks of connections.
pub(super) fn upstream(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> UpstreamSettings {
    let breaker = spec.circuit_breaker.as_deref();
    let timeout = spec.timeout.as_deref();
    let tcp = timeout.and_then(|timeout| timeout.tcp.as_ref());
    let http = timeout.and_then(|timeout| timeout.http.as_deref());
    let connection = spec.connection.as_deref();
    let check = spec.health_check.as_deref();
    UpstreamSettings {
        endpoint_headers: balancing::endpoint_headers(spec, problems),
        slow_start: balancing::slow_start(spec, problems),
        health_check: health::probes(check, problems),
        outlier_detection: health::outliers(check, problems),
        panic_threshold: health::panic_threshold(check, problems),
        circuit_breaker: breaker.map(|breaker| circuit_breaker(breaker, problems)),
        connect_timeout: problems.positive(
            "Timeout",
            "ConnectTimeout",
            tcp.and_then(|tcp| tcp.connect_timeout.as_ref()),
        ),
        idle_timeout: problems.millis(
            "Timeout",
            "HTTP ConnectionIdleTimeout",
            http.and_then(|http| http.connection_idle_timeout.as_ref()),
        ),
        max_connection_duration: problems.millis(
            "Timeout",
            "MaxConnectionDuration",
            http.and_then(|http| http.max_connection_duration.as_ref()),
        ),
        max_requests_per_connection: breaker
            .and_then(|breaker| breaker.max_requests_per_connection)
            .and_then(|value| limit("MaxRequestsPerConnection", value, problems)),
        keepalive: keepalive(spec, problems),
        proxy_protocol: spec
            .proxy_protocol
            .as_ref()
            .and_then(|p| proxy_protocol(&p.version, problems)),
        buffer_limit: buffer_limit(connection, problems),
        system_buffer: problems.bytes(
            "BackendConnection",
            "SocketBufferLimit",
            connection.and_then(|connection| connection.socket_buffer_limit.as_ref()),
            SYSTEM_BUFFERS,
        ),
        preconnect: preconnect(connection, problems),
        dns: spec.dns.as_ref().map(|dns| names(dns, problems)),
        // For clients of a listener to say (`policies/effective`).
        http1: Http1Upstream::default(),
        http2: spec.http2.as_deref().map(|settings| http2(settings, problems)),
        http_version: match spec.use_client_protocol {
            Some(true) => HttpVersion::Client,
            Some(false) | None => HttpVersion::Backend,
        },
    }
}

/// Bytes that a connection buffers.
fn buffer_limit(connection: Option<&BackendConnection>, problems: &mut Problems) -> Option<u32> {
    const AREA: &str = "BackendConnection";
    let text = connection?.buffer_limit.as_ref()?;
    let limit = u32::try_from(problems.quantity(AREA, "BufferLimit", Some(text))?).ok();
    if limit.is_none() {
        let value = text.as_str();
        problems.add(AREA, format_args!("BufferLimit value {value} is out of range"));
    }
    limit
}

fn limit(field: &str, value: i64, problems: &mut Problems) -> Option<u32> {
    let limit = u32::try_from(value);
    if limit.is_err() {
        problems.add("CircuitBreaker", format_args!("invalid {field} value {value}"));
    }
    limit.ok()
}

fn circuit_breaker(breaker: &api::CircuitBreaker, problems: &mut Problems) -> CircuitBreaker {
    let mut number = |field: &str, value: i64| limit(field, value, problems).unwrap_or_default();
    CircuitBreaker {
        max_connections: number("MaxConnections", breaker.max_connections),
        max_pending_requests: number("MaxPendingRequests", breaker.max_pending_requests),
        max_requests: number("MaxParallelRequests", breaker.max_parallel_requests),
        max_retries: number("MaxParallelRetries", breaker.max_parallel_retries),
        max_connections_per_endpoint: breaker.per_endpoint.as_ref().map(|per_endpoint| {
            limit("PerEndpoint.MaxConnections", per_endpoint.max_connections, problems).unwrap_or_default()
        }),
        retry_budget: breaker
            .retry_budget
            .as_ref()
            .map(|budget| retry_budget(budget, problems)),
    }
}

fn retry_budget(budget: &api::RetryBudget, problems: &mut Problems) -> RetryBudget {
    let (numerator, denominator) = (
        u64::from(budget.percent.numerator),
        u64::from(budget.percent.denominator),
    );
    if denominator == 0 || numerator > denominator {
        problems.add("CircuitBreaker", "RetryBudget.Percent must be a fraction from 0 to 1");
    }
    let share = (numerator * 1_000_000).checked_div(denominator).unwrap_or_default();
    RetryBudget {
        share: u32::try_from(share).unwrap_or_default(),
        min_concurrency: budget.min_retry_concurrency,
    }
}

/// Longest times, in seconds, and most probes that the system takes for the keepalive of a socket (tcp(7)).
const KEEPALIVE_SECONDS: u64 = 32_767;
pub(in crate::phase::policies) const KEEPALIVE_PROBES: u32 = 127;

/// Keepalive of the system; 0 switches it off.
fn keepalive(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Option<TcpKeepalive> {
    const AREA: &str = "TCPKeepalive";
    let keepalive = spec.tcp_keepalive.as_deref()?;
    Some(TcpKeepalive {
        probes: keepalive
            .probes
            .map(|n| problems.number(AREA, "Probes", n, 0..=KEEPALIVE_PROBES)),
        idle_seconds: problems
            .millis(AREA, "IdleTime", keepalive.idle_time.as_ref())
            .map(|time| keepalive_seconds("IdleTime", time, problems)),
        interval_seconds: problems
            .millis(AREA, "Interval", keepalive.interval.as_ref())
            .map(|time| keepalive_seconds("Interval", time, problems)),
    })
}

/// A time of the keepalive as the system counts it.
pub(in crate::phase::policies) fn keepalive_seconds(field: &str, time: Timeout, problems: &mut Problems) -> u32 {
    let seconds = time.0.div_ceil(1000);
    if seconds > KEEPALIVE_SECONDS {
        let what = format_args!("{field} value {seconds}s is out of range, must be at most {KEEPALIVE_SECONDS}s");
        problems.add("TCPKeepalive", what);
    }
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn proxy_protocol(version: &ProxyProtocolVersion, problems: &mut Problems) -> Option<ProxyProtocol> {
    match version {
        ProxyProtocolVersion::V1 => Some(ProxyProtocol::V1),
        ProxyProtocolVersion::V2 => Some(ProxyProtocol::V2),
        ProxyProtocolVersion::Other(other) => {
            problems.add("ProxyProtocol", format_args!("unsupported version {other}"));
            None
        }
    }
}

fn preconnect(connection: Option<&BackendConnection>, problems: &mut Problems) -> Option<Preconnect> {
    let preconnect = connection?.preconnect.as_ref()?;
    let mut percent =
        |field, value: Option<u32>| value.map(|value| problems.number("BackendConnection", field, value, 100..=300));
    Some(Preconnect {
        per_endpoint_percent: percent("PerEndpointPercent", preconnect.per_endpoint_percent),
        predictive_percent: percent("PredictivePercent", preconnect.predictive_percent),
    })
}

/// A proxy takes a longer one alone.
const SHORTEST_REFRESH: Timeout = Timeout(1);

fn names(dns: &api::Dns, problems: &mut Problems) -> DnsSettings {
    let refresh = problems.positive("DNS", "DNSRefreshRate", dns.dns_refresh_rate.as_ref());
    if refresh == Some(SHORTEST_REFRESH) {
        problems.add("DNS", "DNSRefreshRate value 1ms is out of range, must be more than 1ms");
    }
    DnsSettings {
        refresh,
        respect_ttl: dns.respect_dns_ttl,
        family: match &dns.lookup_family {
            None | Some(DnsLookupFamily::Ipv4Preferred) => DnsFamily::V4Preferred,
            Some(DnsLookupFamily::Ipv4) => DnsFamily::V4,
            Some(DnsLookupFamily::Ipv6) => DnsFamily::V6,
            Some(DnsLookupFamily::Ipv6Preferred) => DnsFamily::V6Preferred,
            Some(DnsLookupFamily::Ipv4AndIpv6) => DnsFamily::All,
            Some(DnsLookupFamily::Other(other)) => {
                problems.add("DNS", format_args!("unsupported lookup family {other}"));
                DnsFamily::default()
            }
        },
    }
}

/// HTTP/2, on either side.
pub(in crate::phase::policies) fn http2(settings: &api::Http2Settings, problems: &mut Problems) -> Http2Settings {
    const AREA: &str = "HTTP2";
    Http2Settings {
        stream_window: problems.bytes(
            AREA,
            "InitialStreamWindowSize",
            settings.initial_stream_window_size.as_ref(),
            WINDOWS,
        ),
        connection_window: problems.bytes(
            AREA,
            "InitialConnectionWindowSize",
            settings.initial_connection_window_size.as_ref(),
            WINDOWS,
        ),
        max_concurrent_streams: settings
            .max_concurrent_streams
            .map(|streams| problems.number(AREA, "MaxConcurrentStreams", streams, 1..=2_147_483_647)),
        override_stream_error: match &settings.on_invalid_message {
            None => None,
            Some(InvalidMessageAction::TerminateConnection) => Some(false),
            Some(InvalidMessageAction::TerminateStream) => Some(true),
            Some(InvalidMessageAction::Other(other)) => {
                problems.add(AREA, format_args!("unsupported action {other} on an invalid message"));
                None
            }
        },
        keepalive: settings
            .connection_keepalive
            .as_deref()
            .and_then(|pings| keepalive_by_pings(pings, problems)),
    }
}

/// Longest wait for the answer to a ping where nothing is said; less where pings are as frequent.
const USUAL_ANSWER: Timeout = Timeout(5_000);

/// Pings; none where nothing says when.
fn keepalive_by_pings(pings: &api::Http2Keepalive, problems: &mut Problems) -> Option<Http2Keepalive> {
    const AREA: &str = "HTTP2";
    let interval = problems.positive(AREA, "ConnectionKeepalive.Interval", pings.interval.as_ref());
    let timeout = problems.positive(AREA, "ConnectionKeepalive.Timeout", pings.timeout.as_ref());
    let jitter_percent = pings
        .interval_jitter
        .map(|percent| problems.number(AREA, "ConnectionKeepalive.IntervalJitter", percent, 0..=100));
    let idle_interval = problems.positive(AREA, "ConnectionKeepalive.IdleInterval", pings.idle_interval.as_ref());
    if let (Some(interval), Some(timeout)) = (interval, timeout)
        && timeout >= interval
    {
        problems.add(AREA, "timeout must be less than interval");
    }
    interval.or(idle_interval)?;
    let usual = || {
        interval.map_or(USUAL_ANSWER, |Timeout(interval)| {
            USUAL_ANSWER.min(Timeout(interval.div_ceil(2)))
        })
    };
    Some(Http2Keepalive {
        interval,
        timeout: timeout.unwrap_or_else(usual),
        jitter_percent,
        idle_interval,
    })
}
