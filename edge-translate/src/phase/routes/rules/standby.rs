//! Backends that stand by for others (`Backend.fallback`): they are used while too few endpoints of the others are
//! healthy. For that, all backends of the rule are one cluster, which puts bounds on what each of them may have for
//! itself.

use super::{Compilation, Share};
use crate::{
    name::{BackendId, RouteKind},
    phase::backends::endpoints::is_of_request,
};

/// Fails a rule whose backends can't be one cluster and would have to be.
pub(super) fn check(c: &mut Compilation<'_, '_>, shares: &[Share]) {
    let bare = |share: &Share| {
        share.request_headers.is_empty()
            && share.response_headers.is_empty()
            && share.host_rewrite.is_none()
            && share.filters.is_empty()
    };
    let ranked: Vec<_> = shares.iter().map(|share| (share.backend, share.priority)).collect();
    if is_ranked(&ranked) && !shares.iter().all(bare) {
        fail(c, "their backendRefs can't have filters of their own");
    }
    check_backends(c, &ranked);
}

/// The same for backends alone.
pub(super) fn check_backends(c: &mut Compilation<'_, '_>, ranked: &[(BackendId, u32)]) {
    let Some((first, _)) = ranked.first().filter(|_| is_ranked(ranked)) else {
        return;
    };
    if c.kind == RouteKind::Udp {
        fail(c, "nobody knows which endpoints of UDP are healthy");
    }
    if ranked.iter().any(|(backend, _)| backend.protocol != first.protocol) {
        fail(c, "all of them must speak the same protocol");
    }
    if ranked.iter().any(|(backend, _)| is_of_request(c.reader, backend.port)) {
        fail(c, "none of them can take its host from requests");
    }
}

/// Whether some stand by for others.
fn is_ranked(backends: &[(BackendId, u32)]) -> bool {
    backends.len() > 1 && backends.iter().any(|(_, priority)| *priority > 0)
}

fn fail(c: &mut Compilation<'_, '_>, why: &str) {
    let message = format!(
        "Failed to process route rule {}: where a Backend has fallback, the backends of a rule are used as one, and {why}.",
        c.rule
    );
    c.fail("UnsupportedValue", message);
}
