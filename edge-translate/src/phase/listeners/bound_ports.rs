//! Ports that proxies bind: two ports of Gateways must not meet on one, nor on a port that the proxy needs itself.
//!
//! On the cluster low ports are shifted (80 becomes 10080), so that port 80 and port 10080 of one fleet would be the
//! same socket; the proxy would refuse the second. The port whose listener comes first (oldest Gateway, spec order)
//! keeps it, and the other listeners say `PortUnavailable`.

use super::{
    finding::Finding,
    fleet::{Candidate, container_port},
};
use crate::{api::Protocol, settings::Platform};
use std::collections::BTreeMap;

/// Administration, statistics and readiness of a proxy in a cluster. On a shared machine each process has its own.
const OWN: [u16; 3] = [19000, 19001, 19003];

/// Refuses listeners whose port can't be bound.
pub(crate) fn check(candidates: &mut [Candidate], platform: Platform) {
    let mut taken: BTreeMap<(bool, u16), u16> = BTreeMap::new();
    for candidate in candidates.iter_mut().filter(|c| c.is_sound()) {
        let port = candidate.spec().port;
        let bound = container_port(port, platform);
        let is_udp = candidate.spec().protocol == Protocol::Udp;
        let message = if platform == Platform::Cluster && !is_udp && OWN.contains(&bound) {
            format!("Port {port} is used by the proxy itself.")
        } else {
            let owner = *taken.entry((is_udp, bound)).or_insert(port);
            if owner == port {
                continue;
            }
            format!("Port {port} is bound as {bound}, which port {owner} of another listener uses already.")
        };
        candidate.findings.push(Finding::accepted("PortUnavailable", message));
    }
}
