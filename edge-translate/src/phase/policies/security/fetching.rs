//! What proxies fetch for a policy by URL: from backends that the policy names, or from whom the URL does.

use super::Guards;
use crate::{
    api::{Kind, security::Services},
    engine::reader::Reader,
    name::Variant,
    phase::policies::{
        services::{self, Service, ServiceLookup},
        traffic::Problems,
    },
};
use edge_ir::{AppProtocol, RetryPolicy, Timeout};

/// Longest wait for it.
const FETCH: Timeout = Timeout(10_000);

/// Who is asked for it.
pub(super) enum Giver {
    /// A backend of ours.
    Backend(Service),
    /// Whoever the URL names, by these settings.
    Outside(Variant, Option<RetryPolicy>),
}

/// Finds out who is asked.
pub(super) fn giver(
    reader: &Reader<'_>,
    area: &str,
    services: Services<'_>,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) -> Option<Giver> {
    services::refuse_older(area, &services, problems);
    let asked = ServiceLookup {
        by: Kind::SecurityPolicy,
        area,
        protocol: AppProtocol::Http1,
        services,
        wait: Some(FETCH),
    };
    if asked.services.references.is_empty() {
        let (variant, retry) = services::settings(&asked, problems);
        return Some(Giver::Outside(variant, retry));
    }
    let service = services::service(reader, asked, problems)?;
    guards.backends.push(service.backend);
    Some(Giver::Backend(service))
}
