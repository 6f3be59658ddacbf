//! How the health of endpoints is known.

use super::Problems;
use crate::{
    api::health_check::{
        ActiveHealthCheck, HealthCheck as Spec, HealthCheckPayload, HealthCheckType, HttpHealthCheck, PayloadType,
    },
    phase::health_log,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use edge_ir::{HealthCheck, HttpProbe, OutlierDetection, Payload, Probe, Timeout};
use std::{fmt::Write, sync::Arc};

const AREA: &str = "HealthCheck";

/// Probes.
pub(super) fn probes(spec: Option<&Spec>, problems: &mut Problems) -> Option<Arc<HealthCheck>> {
    let active = spec?.active.as_deref()?;
    let probe = probe(active, problems)?;
    let mut time = |field, text| problems.positive(AREA, field, Some(text)).unwrap_or(Timeout(0));
    let (timeout, interval) = (time("Timeout", &active.timeout), time("Interval", &active.interval));
    Some(Arc::new(HealthCheck {
        probe,
        timeout,
        interval,
        initial_jitter: problems.millis(AREA, "InitialJitter", active.initial_jitter.as_ref()),
        unhealthy_threshold: problems.number(AREA, "UnhealthyThreshold", active.unhealthy_threshold, 1..=u32::MAX),
        healthy_threshold: problems.number(AREA, "HealthyThreshold", active.healthy_threshold, 1..=u32::MAX),
        log: active
            .health_check_log
            .as_deref()
            .and_then(|spec| match health_log::log(spec) {
                Ok(log) => Some(log),
                Err(why) => {
                    problems.add(AREA, why);
                    None
                }
            }),
    }))
}

fn probe(active: &ActiveHealthCheck, problems: &mut Problems) -> Option<Probe> {
    match (&active.r#type, &active.http, &active.tcp) {
        (HealthCheckType::Http, Some(check), _) => Some(Probe::Http(http(check, problems))),
        (HealthCheckType::Http, None, _) => {
            problems.add(AREA, "If Health Checker type is HTTP, http field needs to be set");
            None
        }
        (HealthCheckType::Tcp, _, check) => {
            let check = check.as_deref();
            Some(Probe::Tcp {
                send: check
                    .and_then(|check| check.send.as_ref())
                    .and_then(|p| payload(p, problems)),
                receive: check
                    .and_then(|check| check.receive.as_ref())
                    .and_then(|p| payload(p, problems)),
            })
        }
        (HealthCheckType::Grpc, ..) => Some(Probe::Grpc {
            service: active
                .grpc
                .as_ref()
                .and_then(|check| check.service.as_deref())
                .map(Into::into),
        }),
        (HealthCheckType::Other(other), ..) => {
            problems.add(AREA, format_args!("unsupported type {other}"));
            None
        }
    }
}

/// Methods that the proxy can probe with.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

fn http(check: &HttpHealthCheck, problems: &mut Problems) -> HttpProbe {
    if check.path.is_empty() || check.path.len() > 1024 || check.path.chars().any(|c| c.is_control() || c == ' ') {
        problems.add(AREA, format_args!("{:?} is not a valid path", check.path));
    }
    let method: Option<Arc<str>> = check.method.as_deref().map(|method| method.to_ascii_uppercase().into());
    if let Some(unknown) = method.as_deref().filter(|method| !METHODS.contains(method)) {
        problems.add(AREA, format_args!("unsupported method {unknown}"));
    }
    if check.request_body.is_some() && !matches!(method.as_deref(), Some("POST" | "PUT")) {
        problems.add(AREA, "The requestBody field can only be set when method is POST or PUT");
    }
    HttpProbe {
        host: check
            .hostname
            .as_deref()
            .map(|host| problems.text(AREA, "hostname", host)),
        path: (&*check.path).into(),
        method,
        expected: problems.codes(AREA, "expectedStatuses", &check.expected_statuses),
        retriable: problems.codes(AREA, "retriableStatuses", &check.retriable_statuses),
        receive: check.expected_response.as_ref().and_then(|p| payload(p, problems)),
        send: check.request_body.as_ref().and_then(|p| payload(p, problems)),
    }
}

fn payload(payload: &HealthCheckPayload, problems: &mut Problems) -> Option<Payload> {
    let bytes = match (&payload.r#type, &payload.text, &payload.binary) {
        (PayloadType::Text, Some(text), _) => text.as_bytes().to_vec(),
        (PayloadType::Binary, _, Some(binary)) => match STANDARD.decode(&**binary) {
            Ok(bytes) => bytes,
            Err(_) => {
                problems.add(AREA, "a binary payload is not base64");
                return None;
            }
        },
        _ => {
            problems.add(AREA, "a payload has no text or binary field of its type");
            return None;
        }
    };
    if bytes.is_empty() {
        // Nothing is sent, and anything is what was expected.
        return None;
    }
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Some(Payload(hex.into()))
}

/// What traffic shows.
pub(super) fn outliers(spec: Option<&Spec>, problems: &mut Problems) -> Option<OutlierDetection> {
    let passive = spec?.passive.as_deref()?;
    let mut time = |field, text| problems.positive(AREA, field, Some(text)).unwrap_or(Timeout(0));
    let (interval, base) = (
        time("Interval", &passive.interval),
        time("BaseEjectionTime", &passive.base_ejection_time),
    );
    let percent = u32::try_from(passive.max_ejection_percent)
        .ok()
        .filter(|percent| *percent <= 100);
    if percent.is_none() {
        let percent = passive.max_ejection_percent;
        problems.add(
            AREA,
            format_args!("MaxEjectionPercent value {percent} is out of range, must be between 0 and 100"),
        );
    }
    Some(OutlierDetection {
        split_local_errors: passive.split_external_local_origin_errors,
        interval,
        consecutive_local_failures: passive.consecutive_local_origin_failures,
        consecutive_gateway_errors: passive.consecutive_gateway_errors,
        consecutive_5xx: passive.consecutive_5xx_errors,
        base_ejection_time: base,
        max_ejection_percent: percent.unwrap_or_default(),
        failure_percent: passive
            .failure_percentage_threshold
            .map(|percent| problems.number(AREA, "FailurePercentageThreshold", percent, 0..=100)),
        always_eject_one: passive.always_eject_one_endpoint,
    })
}

/// Percent of healthy endpoints below which health is ignored.
pub(super) fn panic_threshold(spec: Option<&Spec>, problems: &mut Problems) -> Option<u32> {
    let percent = spec?.panic_threshold?;
    Some(problems.number(AREA, "PanicThreshold", percent, 0..=100))
}
