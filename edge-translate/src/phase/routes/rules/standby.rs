//! Backends that stand by for others (`Backend.fallback`): they are used while too few endpoints of the others are
//! healthy. For that, all backends of the rule are one cluster, which puts bounds on what each of them may have for
//! itself. So are backends among which a client has to find its endpoint again.

use super::{Compilation, Share};
use crate::{
    engine::reader::Reader,
    name::{BackendId, BackendKind, RouteKind},
    phase::backends::endpoints::is_of_request,
};

/// Why backends can't be one cluster.
const OWN_FILTERS: &str = "their backendRefs can't have filters of their own";
const PROTOCOLS: &str = "all of them must speak the same protocol";
const OF_REQUEST: &str = "none of them can take its host from requests";

/// Fails a rule whose backends can't be one cluster and would have to be.
pub(super) fn check(c: &mut Compilation<'_, '_>, shares: &[Share]) {
    let ranked: Vec<_> = shares.iter().map(|share| (share.backend, share.priority)).collect();
    if is_ranked(&ranked) && !shares.iter().all(is_bare) {
        fail(c, OWN_FILTERS);
    }
    check_backends(c, &ranked);
}

/// Why the backends of a rule to which something is sent can't be one cluster; none where they can.
pub(in crate::phase::routes) fn hindrance(reader: &Reader<'_>, shares: &[Share]) -> Option<&'static str> {
    let used = || shares.iter().filter(|share| share.weight > 0);
    let protocol = used().next()?.backend.protocol;
    if !used().all(is_bare) {
        return Some(OWN_FILTERS);
    }
    if used().any(|share| share.backend.protocol != protocol) {
        return Some(PROTOCOLS);
    }
    if used().any(|share| is_of_request(reader, share.backend.port)) {
        return Some(OF_REQUEST);
    }
    let is_custom = |share: &Share| share.backend.port.target.kind == BackendKind::Custom;
    used()
        .any(is_custom)
        .then_some("none of them can be one whose endpoints an extension service tells")
}

fn is_bare(share: &Share) -> bool {
    share.request_headers.is_empty()
        && share.response_headers.is_empty()
        && share.host_rewrite.is_none()
        && share.rewrite.is_none()
        && share.filters.is_empty()
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
        fail(c, PROTOCOLS);
    }
    if ranked.iter().any(|(backend, _)| is_of_request(c.reader, backend.port)) {
        fail(c, OF_REQUEST);
    }
}

/// Whether some stand by for others.
fn is_ranked(backends: &[(BackendId, u32)]) -> bool {
    backends.len() > 1 && backends.iter().any(|(_, priority)| *priority > 0)
}

fn fail(c: &mut Compilation<'_, '_>, why: &str) {
    let message = format!(
        "Failed to process route rule {}: where a Backend has fallback, the backends of a rule are used as one, and {why}.",
        c.rule.index
    );
    c.fail("UnsupportedValue", message);
}
