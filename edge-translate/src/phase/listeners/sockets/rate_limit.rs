//! The service that counts requests for all proxies: what an instance asks, and the cluster of it.

use super::ours::{self, Ours};
use crate::{
    engine::reader::Reader,
    phase::backends::cluster::ClusterParts,
    settings::{Platform, Settings},
};
use edge_ir::{
    AppProtocol, ClusterName, FilterSettings, LimitHeaders, Placement, RateLimitService, SecretSource, Timeout,
    pod_certificate,
};
use std::sync::Arc;

/// The name of its cluster.
const CLUSTER: &str = "ratelimit_cluster";
/// Its Service beside the controller of a cluster, and the port of that.
const SERVICE: &str = "edge-ratelimit";
const PORT: u16 = 8081;
/// Time for its answer.
const TIMEOUT: Timeout = Timeout(20);

/// What an instance asks.
pub(super) fn service(reader: &Reader<'_>) -> FilterSettings {
    let Some(settings) = &reader.settings().rate_limit else {
        // Without a service no policy has such a limit.
        return FilterSettings::OfRoutes;
    };
    FilterSettings::RateLimitService(Arc::new(RateLimitService {
        cluster: ClusterName::from(CLUSTER),
        timeout: settings.timeout.unwrap_or(TIMEOUT),
        unanswered: settings.unanswered,
        told: LimitHeaders::Usual,
    }))
}

/// What proxies show it: what they show the controller, where they have that.
fn certificate(settings: &Settings) -> Option<SecretSource> {
    match (settings.platform, settings.placement) {
        (Platform::Cluster, Placement::Controller) => Some(SecretSource::File {
            file: pod_certificate::FILE.into(),
            secret: pod_certificate::SECRET.into(),
        }),
        (Platform::Host, _) | (_, Placement::Gateway) => None,
    }
}

/// Its cluster.
pub(super) fn cluster(reader: &Reader<'_>) -> Option<ClusterParts> {
    let settings = reader.settings();
    let service = settings.rate_limit.as_ref()?;
    let beside = || (ours::beside(settings, SERVICE), PORT);
    let (host, port) = service.address.clone().unwrap_or_else(beside);
    let name = format!("{SERVICE}.{}", settings.controller_namespace);
    Some(ours::cluster(Ours {
        cluster: CLUSTER,
        host,
        port,
        protocol: AppProtocol::Http2,
        name: name.into(),
        authorities: service.authorities.clone(),
        client_certificate: certificate(settings),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_show_the_certificate_that_they_have() {
        let shows = |platform, placement| {
            let settings = Settings {
                platform,
                placement,
                ..Settings::default()
            };
            certificate(&settings).is_some()
        };
        assert!(shows(Platform::Cluster, Placement::Controller));
        assert!(!shows(Platform::Cluster, Placement::Gateway));
        assert!(!shows(Platform::Host, Placement::Controller));
    }
}
