//! Health checks and outlier detection of clusters.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER_PERMISSIVE;
use envoy_types::pb::envoy::config::cluster::v3::OutlierDetection as ProtoOutliers;
use envoy_types::pb::envoy::config::core::v3::health_check::payload::Payload as Content;
use envoy_types::pb::envoy::config::core::v3::health_check::{
    GrpcHealthCheck, HealthChecker, HttpHealthCheck, Payload, TcpHealthCheck, TlsOptions,
};
use envoy_types::pb::envoy::config::core::v3::{HealthCheck as ProtoCheck, RequestMethod, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::health_check::event_sinks::file::v3::HealthCheckEventFileSink;
use envoy_types::pb::envoy::r#type::v3::{CodecClientType, Int64Range};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration_or, fields, number, unpack};
use crate::config::access_log::LogFile;
use crate::config::health::{
    Events, FailurePercentage, HealthCheck, HttpProbe, Intervals, OutlierDetection, Probe, Streaks, SuccessRate,
};

/// So much of a response is looked at, where nothing says how much.
const LOOKED_AT: u32 = 1024;

/// The check of a cluster; there may be one.
pub(super) fn check(
    context: &mut Context,
    at: &At<'_>,
    list: &[ProtoCheck],
) -> Result<Option<Arc<HealthCheck>>, Rejection> {
    match list {
        [] => Ok(None),
        [only] => one(context, &at.index(0), only).map(|check| Some(Arc::new(check))),
        _ => Err(at.error("has more than one entry, which is not supported by this proxy")),
    }
}

fn one(context: &mut Context, at: &At<'_>, message: &ProtoCheck) -> Result<HealthCheck, Rejection> {
    fields!(at, message => ProtoCheck {
        timeout, interval, initial_jitter, interval_jitter, interval_jitter_percent, unhealthy_threshold,
        healthy_threshold, alt_port, reuse_connection, no_traffic_interval, no_traffic_healthy_interval,
        unhealthy_interval, unhealthy_edge_interval, healthy_edge_interval, event_log_path, event_logger,
        always_log_health_check_failures, always_log_health_check_success, tls_options, health_checker;
        ignore;
        refuse event_service, transport_socket_match_criteria
    });
    let required = |name, value: Option<&_>| match value {
        Some(value) => duration_or(&at.field(name), Some(value), Duration::ZERO),
        None => Err(at.field(name).error("is required")),
    };
    let usual = required("interval", interval.as_ref())?;
    let or = |name, value: Option<&_>, default| duration_or(&at.field(name), value, default);
    let no_traffic = or(
        "no_traffic_interval",
        no_traffic_interval.as_ref(),
        Duration::from_secs(60),
    )?;
    let unhealthy = or("unhealthy_interval", unhealthy_interval.as_ref(), usual)?;
    let intervals = Intervals {
        usual,
        unhealthy,
        unhealthy_edge: or("unhealthy_edge_interval", unhealthy_edge_interval.as_ref(), unhealthy)?,
        healthy_edge: or("healthy_edge_interval", healthy_edge_interval.as_ref(), usual)?,
        no_traffic,
        no_traffic_healthy: or(
            "no_traffic_healthy_interval",
            no_traffic_healthy_interval.as_ref(),
            no_traffic,
        )?,
        initial_jitter: or("initial_jitter", initial_jitter.as_ref(), Duration::ZERO)?,
        jitter: or("interval_jitter", interval_jitter.as_ref(), Duration::ZERO)?,
        jitter_percent: *interval_jitter_percent,
    };
    let mut files = Vec::new();
    if !event_log_path.is_empty() {
        files.push(context.scopes.log_file(event_log_path));
    }
    files.extend(event_files(context, &at.field("event_logger"), event_logger)?);
    Ok(HealthCheck {
        timeout: required("timeout", timeout.as_ref())?,
        intervals,
        unhealthy_threshold: number(unhealthy_threshold.as_ref()).unwrap_or(1),
        healthy_threshold: number(healthy_threshold.as_ref()).unwrap_or(1),
        port: number(alt_port.as_ref())
            .map(|port| u16::try_from(port).map_err(|_| at.field("alt_port").error("is not a port")))
            .transpose()?,
        reuses_connections: reuse_connection.as_ref().is_none_or(|reuse| reuse.value),
        alpn: tls_options.as_ref().map_or_else(Box::default, alpn),
        events: Events {
            files: files.into(),
            all_failures: *always_log_health_check_failures,
            all_successes: *always_log_health_check_success,
        },
        probe: probe(at, health_checker.as_ref())?,
        degraded: context.prefixed.degraded.clone(),
        immediate_fail: context.prefixed.immediate_health_check_fail.clone(),
    })
}

fn alpn(options: &TlsOptions) -> Box<[Vec<u8>]> {
    let protocols = options.alpn_protocols.iter();
    protocols.map(|protocol| protocol.clone().into_bytes()).collect()
}

fn event_files(
    context: &mut Context,
    at: &At<'_>,
    list: &[TypedExtensionConfig],
) -> Result<Vec<Arc<LogFile>>, Rejection> {
    let mut files = Vec::with_capacity(list.len());
    for (index, sink) in list.iter().enumerate() {
        let at = at.index(index);
        let at = at.field("typed_config");
        let Some(config) = &sink.typed_config else {
            return Err(at.error("is required"));
        };
        let sink: HealthCheckEventFileSink = unpack(&at, config)?;
        if sink.event_log_path.is_empty() {
            return Err(at.field("event_log_path").error("is required"));
        }
        files.push(context.scopes.log_file(&sink.event_log_path));
    }
    Ok(files)
}

fn probe(at: &At<'_>, message: Option<&HealthChecker>) -> Result<Probe, Rejection> {
    match message {
        Some(HealthChecker::HttpHealthCheck(message)) => http(&at.field("http_health_check"), message).map(Probe::Http),
        Some(HealthChecker::TcpHealthCheck(message)) => {
            let at = at.field("tcp_health_check");
            fields!(at, message => TcpHealthCheck { send, receive; ignore; refuse proxy_protocol_config });
            Ok(Probe::Tcp {
                send: payload(&at.field("send"), send.as_ref())?,
                receive: payloads(&at.field("receive"), receive)?,
            })
        }
        Some(HealthChecker::GrpcHealthCheck(message)) => {
            let at = at.field("grpc_health_check");
            fields!(at, message => GrpcHealthCheck { service_name, authority; ignore; refuse initial_metadata });
            Ok(Probe::Grpc {
                service: service_name.clone(),
                authority: authority_value(&at.field("authority"), authority)?,
            })
        }
        Some(HealthChecker::CustomHealthCheck(_)) => Err(at.unsupported("custom_health_check")),
        None => Err(at.field("health_checker").error("is required")),
    }
}

fn http(at: &At<'_>, message: &HttpHealthCheck) -> Result<HttpProbe, Rejection> {
    fields!(at, message => HttpHealthCheck {
        host, path, send, receive, response_buffer_size, expected_statuses, retriable_statuses, codec_client_type,
        method;
        ignore;
        refuse request_headers_to_add, request_headers_to_remove, service_name_matcher
    });
    let method = match RequestMethod::try_from(*method) {
        Ok(RequestMethod::MethodUnspecified) => Method::GET,
        Ok(RequestMethod::Connect) | Err(_) => return Err(at.unsupported("method")),
        Ok(method) => Method::from_bytes(method.as_str_name().as_bytes())
            .map_err(|_| at.field("method").error("is not a method"))?,
    };
    let send = payload(&at.field("send"), send.as_ref())?;
    if !send.is_empty() && matches!(method, Method::GET | Method::HEAD | Method::DELETE | Method::TRACE) {
        return Err(at.field("send").error(format!("a {method} has no body")));
    }
    let mut expected = ranges(&at.field("expected_statuses"), expected_statuses)?;
    if expected.is_empty() {
        // Bounds of a list with one element.
        expected = Box::new([Range { start: 200, end: 201 }]);
    }
    Ok(HttpProbe {
        host: authority_value(&at.field("host"), host)?,
        path: PathAndQuery::try_from(path.as_str())
            .ok()
            .filter(|_| path.starts_with('/'))
            .ok_or_else(|| at.field("path").error(format!("{path:?} is not a path")))?,
        method,
        http2: match CodecClientType::try_from(*codec_client_type) {
            Ok(CodecClientType::Http1) => false,
            Ok(CodecClientType::Http2) => true,
            Ok(CodecClientType::Http3) | Err(_) => return Err(at.unsupported("codec_client_type")),
        },
        expected,
        retriable: ranges(&at.field("retriable_statuses"), retriable_statuses)?,
        send,
        receive: payloads(&at.field("receive"), receive)?,
        looked_at: response_buffer_size
            .as_ref()
            .map_or(u64::from(LOOKED_AT), |size| size.value)
            .try_into()
            .unwrap_or(usize::MAX),
    })
}

fn authority_value(at: &At<'_>, text: &str) -> Result<Option<HeaderValue>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    HeaderValue::from_str(text)
        .map(Some)
        .map_err(|_| at.error(format!("{text:?} is not a host")))
}

fn ranges(at: &At<'_>, list: &[Int64Range]) -> Result<Box<[Range<u16>]>, Rejection> {
    list.iter()
        .enumerate()
        .map(
            |(index, range)| match (u16::try_from(range.start), u16::try_from(range.end)) {
                (Ok(start), Ok(end)) if 100 <= start && start < end && end <= 600 => Ok(start..end),
                _ => Err(at
                    .index(index)
                    .error(format!("{} to {} are not statuses", range.start, range.end))),
            },
        )
        .collect()
}

fn payloads(at: &At<'_>, list: &[Payload]) -> Result<Box<[Bytes]>, Rejection> {
    list.iter()
        .enumerate()
        .map(|(index, one)| payload(&at.index(index), Some(one)))
        .collect()
}

fn payload(at: &At<'_>, message: Option<&Payload>) -> Result<Bytes, Rejection> {
    match message.and_then(|message| message.payload.as_ref()) {
        None => Ok(Bytes::new()),
        Some(Content::Binary(bytes)) => Ok(Bytes::copy_from_slice(bytes)),
        Some(Content::Text(text)) => HEXLOWER_PERMISSIVE
            .decode(text.as_bytes())
            .map(Bytes::from)
            .map_err(|_| at.field("text").error(format!("{text:?} is not hexadecimal"))),
    }
}

/// Outlier detection, with Envoy's defaults.
pub(super) fn outliers(at: &At<'_>, message: &ProtoOutliers) -> Result<OutlierDetection, Rejection> {
    fields!(at, message => ProtoOutliers {
        consecutive_5xx, interval, base_ejection_time, max_ejection_percent, enforcing_consecutive_5xx,
        enforcing_success_rate, success_rate_minimum_hosts, success_rate_request_volume, success_rate_stdev_factor,
        consecutive_gateway_failure, enforcing_consecutive_gateway_failure, split_external_local_origin_errors,
        consecutive_local_origin_failure, enforcing_consecutive_local_origin_failure,
        enforcing_local_origin_success_rate, failure_percentage_threshold, enforcing_failure_percentage,
        enforcing_failure_percentage_local_origin, failure_percentage_minimum_hosts,
        failure_percentage_request_volume, max_ejection_time, max_ejection_time_jitter,
        successful_active_health_check_uneject_host, always_eject_one_host;
        ignore;
        refuse monitors, detect_degraded_hosts
    });
    let base_time = duration_or(
        &at.field("base_ejection_time"),
        base_ejection_time.as_ref(),
        Duration::from_secs(30),
    )?;
    let max_time = duration_or(
        &at.field("max_ejection_time"),
        max_ejection_time.as_ref(),
        base_time.max(Duration::from_secs(300)),
    )?;
    if max_time < base_time {
        return Err(at
            .field("max_ejection_time")
            .error("must not be less than base_ejection_time"));
    }
    let or = |value: Option<&_>, default| number(value).unwrap_or(default);
    let streaks = |limit: Option<&_>, enforcing: Option<&_>, default| Streaks {
        limit: or(limit, 5),
        enforcing: or(enforcing, default),
    };
    Ok(OutlierDetection {
        interval: duration_or(&at.field("interval"), interval.as_ref(), Duration::from_secs(10))?
            .max(Duration::from_millis(1)),
        base_time,
        max_time,
        max_jitter: duration_or(
            &at.field("max_ejection_time_jitter"),
            max_ejection_time_jitter.as_ref(),
            Duration::ZERO,
        )?,
        max_percent: or(max_ejection_percent.as_ref(), 10).min(100),
        always_one: always_eject_one_host.as_ref().is_some_and(|value| value.value),
        splits_local: *split_external_local_origin_errors,
        server_errors: streaks(consecutive_5xx.as_ref(), enforcing_consecutive_5xx.as_ref(), 100),
        gateway_errors: streaks(
            consecutive_gateway_failure.as_ref(),
            enforcing_consecutive_gateway_failure.as_ref(),
            0,
        ),
        local_failures: streaks(
            consecutive_local_origin_failure.as_ref(),
            enforcing_consecutive_local_origin_failure.as_ref(),
            100,
        ),
        success_rate: SuccessRate {
            min_hosts: or(success_rate_minimum_hosts.as_ref(), 5),
            min_requests: or(success_rate_request_volume.as_ref(), 100),
            deviations: f64::from(or(success_rate_stdev_factor.as_ref(), 1900)) / 1000.0,
            enforcing: or(enforcing_success_rate.as_ref(), 100),
            enforcing_local: or(enforcing_local_origin_success_rate.as_ref(), 100),
        },
        failure_percentage: FailurePercentage {
            threshold: or(failure_percentage_threshold.as_ref(), 85),
            min_hosts: or(failure_percentage_minimum_hosts.as_ref(), 5),
            min_requests: or(failure_percentage_request_volume.as_ref(), 50),
            enforcing: or(enforcing_failure_percentage.as_ref(), 0),
            enforcing_local: or(enforcing_failure_percentage_local_origin.as_ref(), 0),
        },
        ends_with_check: successful_active_health_check_uneject_host
            .as_ref()
            .is_none_or(|value| value.value),
    })
}
