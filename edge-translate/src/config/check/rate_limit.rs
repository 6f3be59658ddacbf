//! What must hold of the service of global rate limits: where it counts, whom it tells, and the objects around it.

use super::{Sink, names_secret, one_of, positive_duration};
use crate::{
    config::{
        provider::ClusterProvider,
        service::{RateLimit, RateLimitBackendType, RateLimitTracing, Redis},
    },
    phase::gateways::proxy_settings::objects,
};

/// Checks what the service is told.
pub(super) fn check(service: &RateLimit, fault: Sink<'_>) {
    let path = "rateLimit.backend";
    match (&service.backend.r#type, &service.backend.redis) {
        (RateLimitBackendType::Other(other), _) => {
            let known = one_of(RateLimitBackendType::KNOWN);
            fault(
                path,
                &format!("unsupported ratelimit backend {other}, should be {known}"),
            );
        }
        (RateLimitBackendType::Redis, None) => fault(path, "empty ratelimit redis settings"),
        (RateLimitBackendType::Redis, Some(redis)) => check_redis(redis, fault),
    }
    positive_duration("rateLimit.timeout", service.timeout.as_ref(), fault);
    let telemetry = service.telemetry.as_ref();
    if let Some(tracing) = telemetry.and_then(|telemetry| telemetry.tracing.as_ref()) {
        check_tracing(tracing, fault);
    }
}

fn check_redis(redis: &Redis, fault: Sink<'_>) {
    let path = "rateLimit.backend.redis";
    if redis.url.is_some() == redis.url_ref.is_some() {
        fault(path, "exactly one of ratelimit redis url or urlRef must be set");
    }
    if redis.url_ref.as_ref().is_some_and(|url| url.secret_key_ref.optional) {
        fault(
            &format!("{path}.urlRef.secretKeyRef.optional"),
            "urlRef.secretKeyRef.optional must not be true; the Secret is required",
        );
    }
    if let Some(reference) = redis.tls.as_ref().and_then(|tls| tls.certificate_ref.as_ref()) {
        names_secret(reference, &format!("{path}.tls.certificateRef"), fault);
    }
}

fn check_tracing(tracing: &RateLimitTracing, fault: Sink<'_>) {
    if tracing.sampling_rate.is_some_and(|percent| percent > 100) {
        let path = "rateLimit.telemetry.tracing.samplingRate";
        fault(path, &format!("{path}: must be a percentage, 100 at most"));
    }
}

/// What is asked for around the service keeps the rules of the same fields of an EdgeProxy.
pub(super) fn check_objects(cluster: &ClusterProvider, path: &str, fault: Sink<'_>) {
    let (deployment, autoscaler, budget) = (
        cluster.rate_limit_deployment.as_deref(),
        cluster.rate_limit_hpa.as_deref(),
        cluster.rate_limit_pdb.as_deref(),
    );
    let mut refuse = |field: &str, message: &str| {
        let path = format!("{path}.{field}");
        fault(&path, &format!("{path}: {message}"));
    };
    if let Some(message) = deployment.and_then(objects::replicas) {
        refuse("rateLimitDeployment.replicas", message);
    }
    let container = deployment.and_then(|deployment| deployment.container.as_deref());
    if let Some(message) = container.and_then(objects::container) {
        refuse("rateLimitDeployment.container", message);
    }
    for message in autoscaler.into_iter().flat_map(objects::autoscaler) {
        refuse("rateLimitHpa", message);
    }
    if let Some(message) = budget.and_then(objects::budget) {
        refuse("rateLimitPDB", message);
    }
    let patches = [
        (
            "rateLimitDeployment",
            "deployment",
            deployment.and_then(|it| it.patch.as_deref()),
        ),
        ("rateLimitHpa", "hpa", autoscaler.and_then(|it| it.patch.as_deref())),
        ("rateLimitPDB", "pdb", budget.and_then(|it| it.patch.as_deref())),
    ];
    for (field, what, patch) in patches {
        for message in patch.iter().flat_map(|patch| objects::patch(what, patch)) {
            refuse(&format!("{field}.patch"), &message);
        }
    }
}
