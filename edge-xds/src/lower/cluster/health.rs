//! How the health of endpoints is known: by probes, and by what traffic shows.

use super::super::common::{duration, extension, number};
use edge_ir::{AppProtocol, Cluster, HealthCheck, HealthLog, HttpProbe, OutlierDetection, Payload, Probe};
use envoy_types::pb::{
    envoy::{
        config::{
            cluster::v3 as cluster,
            core::v3::{
                self as core, RequestMethod,
                health_check::{GrpcHealthCheck, HealthChecker, HttpHealthCheck, TcpHealthCheck, payload},
            },
        },
        extensions::health_check::event_sinks::file::v3::HealthCheckEventFileSink,
        r#type::v3::{CodecClientType, Int64Range},
    },
    google::protobuf::BoolValue,
};

/// Probes of the endpoints. A call of gRPC needs HTTP/2: the proxy refuses a cluster that is to be probed so and speaks
/// HTTP/1.1, and its endpoints are taken as they are.
pub(super) fn probes(check: &HealthCheck, cluster: &Cluster) -> Option<core::HealthCheck> {
    let speaks_http2 = cluster.protocol == AppProtocol::Http2;
    if matches!(check.probe, Probe::Grpc { .. }) && !speaks_http2 {
        return None;
    }
    let codec = match speaks_http2 {
        true => CodecClientType::Http2,
        false => CodecClientType::Http1,
    };
    Some(core::HealthCheck {
        timeout: Some(duration(check.timeout)),
        interval: Some(duration(check.interval)),
        // A cluster that has had no request yet would be probed once a minute: what failed its first probe, as a pod
        // that still starts does, would be left out so long.
        no_traffic_interval: Some(duration(check.interval)),
        initial_jitter: check.initial_jitter.map(duration),
        unhealthy_threshold: number(check.unhealthy_threshold),
        healthy_threshold: number(check.healthy_threshold),
        health_checker: Some(match &check.probe {
            Probe::Http(probe) => HealthChecker::HttpHealthCheck(HttpHealthCheck {
                codec_client_type: codec.into(),
                host: probe.host.as_deref().map_or_else(|| own_host(cluster), str::to_owned),
                ..http(probe)
            }),
            Probe::Tcp { send, receive } => HealthChecker::TcpHealthCheck(TcpHealthCheck {
                send: send.as_ref().map(lower_payload),
                receive: receive.iter().map(lower_payload).collect(),
                ..Default::default()
            }),
            Probe::Grpc { service } => HealthChecker::GrpcHealthCheck(GrpcHealthCheck {
                service_name: service.as_deref().unwrap_or_default().to_owned(),
                authority: own_host(cluster),
                ..Default::default()
            }),
        }),
        event_logger: check.log.iter().map(log).collect(),
        always_log_health_check_failures: check.log.as_ref().is_some_and(|log| log.all_failures),
        always_log_health_check_success: check.log.as_ref().is_some_and(|log| log.all_successes),
        ..Default::default()
    })
}

/// The host that a probe is for which names none: the backend's own name. A proxy would say the name of the cluster, in
/// which there are slashes, and servers refuse a host with these (RFC 9110 §7.2).
fn own_host(cluster: &Cluster) -> String {
    let Some(origin) = cluster.origins.first() else {
        return String::new();
    };
    match &*origin.namespace {
        "" => origin.name.to_string(),
        namespace => [&*origin.name, ".", namespace].concat(),
    }
}

/// Whether a cluster has probes that are for the host that it says itself.
pub(super) fn asks_for_itself(cluster: &Cluster) -> bool {
    let check = cluster.upstream.health_check.as_deref();
    check.is_some_and(|check| match &check.probe {
        Probe::Http(probe) => probe.host.is_none(),
        Probe::Grpc { .. } => true,
        Probe::Tcp { .. } => false,
    })
}

fn log(log: &HealthLog) -> core::TypedExtensionConfig {
    let sink = HealthCheckEventFileSink {
        event_log_path: log.path.to_string(),
    };
    extension("envoy.health_check.event_sink.file", sink)
}

fn http(probe: &HttpProbe) -> HttpHealthCheck {
    let method = probe.method.as_deref().and_then(RequestMethod::from_str_name);
    HttpHealthCheck {
        path: probe.path.to_string(),
        method: method.unwrap_or(RequestMethod::MethodUnspecified).into(),
        expected_statuses: probe.expected.iter().map(range).collect(),
        retriable_statuses: probe.retriable.iter().map(range).collect(),
        receive: probe.receive.iter().map(lower_payload).collect(),
        send: probe.send.as_ref().map(lower_payload),
        ..Default::default()
    }
}

/// A code as a range without its end.
fn range(code: &u16) -> Int64Range {
    Int64Range {
        start: (*code).into(),
        end: i64::from(*code) + 1,
    }
}

fn lower_payload(Payload(hex): &Payload) -> core::health_check::Payload {
    core::health_check::Payload {
        payload: Some(payload::Payload::Text(hex.to_string())),
    }
}

/// What traffic shows. A threshold that is set counts: the proxy would only log it.
pub(super) fn outliers(outlier: &OutlierDetection) -> cluster::OutlierDetection {
    let enforced = |threshold: Option<u32>| threshold.and_then(|_| number(100));
    cluster::OutlierDetection {
        consecutive_5xx: number(outlier.consecutive_5xx),
        interval: Some(duration(outlier.interval)),
        base_ejection_time: Some(duration(outlier.base_ejection_time)),
        max_ejection_percent: number(outlier.max_ejection_percent),
        consecutive_gateway_failure: outlier.consecutive_gateway_errors.and_then(number),
        enforcing_consecutive_gateway_failure: enforced(outlier.consecutive_gateway_errors),
        split_external_local_origin_errors: outlier.split_local_errors,
        consecutive_local_origin_failure: number(outlier.consecutive_local_failures),
        failure_percentage_threshold: outlier.failure_percent.and_then(number),
        enforcing_failure_percentage: enforced(outlier.failure_percent),
        enforcing_failure_percentage_local_origin: match outlier.split_local_errors {
            true => enforced(outlier.failure_percent),
            false => None,
        },
        always_eject_one_host: outlier.always_eject_one.then_some(BoolValue { value: true }),
        ..Default::default()
    }
}
