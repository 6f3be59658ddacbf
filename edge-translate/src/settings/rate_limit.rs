//! The service of global rate limits, as a configuration file speaks of it: what proxies ask, and what is made around
//! it.

use super::{RateLimitSettings, placement};
use crate::{
    config::{
        EdgeGateway,
        service::{RateLimit, RateLimitTelemetry, Redis},
    },
    phase::gateways::rate_limit_settings,
};
use edge_ir::{
    Placement, RateLimitClients, RateLimitInfra, RateLimitTraces, RedisAddress, RedisSecurity, Timeout, Unanswered,
};
use std::{sync::Arc, time::Duration};

/// What proxies ask.
pub(super) fn settings(config: &RateLimit) -> RateLimitSettings {
    let timeout = config.timeout.as_ref().and_then(|text| text.parse().ok());
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    RateLimitSettings {
        timeout: timeout.map(|time| Timeout(millis(time))),
        unanswered: match config.fail_closed {
            true => Unanswered::Refused,
            false => Unanswered::Allowed,
        },
        ..RateLimitSettings::default()
    }
}

/// What must exist around the service in a cluster; `None` where the file asks for none. What contradicts itself was
/// refused when the file was judged.
pub fn rate_limit_infra(config: &EdgeGateway) -> Option<RateLimitInfra> {
    let service = config.rate_limit.as_deref()?;
    let redis = service.backend.redis.as_ref()?;
    let telemetry = service.telemetry.as_ref();
    let metrics = telemetry.and_then(|telemetry| telemetry.metrics.as_ref());
    let scraped = metrics.and_then(|metrics| metrics.prometheus.as_ref());
    Some(RateLimitInfra {
        cluster: config
            .provider
            .cluster
            .as_deref()
            .map(rate_limit_settings)
            .unwrap_or_default(),
        clients: match placement(config) {
            Placement::Controller => RateLimitClients::Certified,
            Placement::Gateway => RateLimitClients::Anyone,
        },
        redis: address(redis)?,
        redis_tls: security(redis),
        prometheus: !scraped.is_some_and(|scraped| scraped.disable),
        traces: telemetry.and_then(traces),
    })
}

fn address(redis: &Redis) -> Option<RedisAddress> {
    match (&redis.url, &redis.url_ref) {
        (Some(url), _) => Some(RedisAddress::Url(Arc::from(&**url))),
        (None, Some(secret)) => Some(RedisAddress::Secret {
            name: Arc::from(&*secret.secret_key_ref.name),
            key: Arc::from(&*secret.secret_key_ref.key),
        }),
        (None, None) => None,
    }
}

fn security(redis: &Redis) -> RedisSecurity {
    match redis.tls.as_ref().map(|tls| &tls.certificate_ref) {
        None => RedisSecurity::Clear,
        Some(None) => RedisSecurity::Tls,
        Some(Some(certificate)) => RedisSecurity::MutualTls(Arc::from(&*certificate.name)),
    }
}

fn traces(telemetry: &RateLimitTelemetry) -> Option<RateLimitTraces> {
    let tracing = telemetry.tracing.as_ref()?;
    Some(RateLimitTraces {
        collector: Arc::from(&*tracing.provider.as_ref()?.url),
        percent: tracing.sampling_rate.unwrap_or(100),
    })
}
