//! Ports that proxies bind: two ports of Gateways must not meet on one, nor on a port that the proxy needs itself.
//!
//! On the cluster low ports are shifted (80 becomes 10080), so that port 80 and port 10080 of one fleet would be the
//! same socket; the proxy would refuse the second. The port whose listener comes first (oldest Gateway, spec order)
//! keeps it, and the other listeners say `PortUnavailable`. On a machine that fleets share, a port belongs to the fleet
//! whose Gateway is the oldest that names it: two proxies on one port would each get some of the connections. For the
//! same reason a port that a stranger on the machine holds isn't touched until it is free, which whoever runs the
//! translation finds out.

use super::{finding::Finding, fleet::Candidate};
use crate::{
    engine::reader::Reader,
    fact::MachinePort,
    name::FleetId,
    phase::{
        gateways::{
            gateway::{PortMapping, proxy_of, transport},
            proxy_settings::ip_family,
        },
        precedence::Seniority,
    },
    settings::Platform,
};
use edge_ir::{IpFamily, PortProtocol, pod_port};
use std::{collections::BTreeMap, sync::Arc};

/// Refuses listeners whose port can't be bound.
pub(crate) fn check(reader: &Reader<'_>, fleet: FleetId, candidates: &mut [Candidate]) {
    let platform = reader.settings().platform;
    // Where proxies have a machine to themselves, nobody else can hold a port.
    let is_shared = platform == Platform::Host;
    let family = is_shared.then(|| ip_family(proxy_of(reader, fleet).map(|proxy| &**proxy)));
    let mapping = PortMapping::of(reader, fleet);
    let mut taken: BTreeMap<(PortProtocol, u16), u16> = BTreeMap::new();
    for candidate in candidates.iter_mut().filter(|c| c.is_sound()) {
        let port = candidate.spec().port;
        let bound = mapping.container_port(port);
        let protocol = transport(&candidate.spec().protocol);
        let message =
            if platform == Platform::Cluster && protocol == PortProtocol::Tcp && pod_port::ALL.contains(&bound) {
                format!("Port {port} is used by the proxy itself.")
            } else if let Some(owner) = other_owner(reader, fleet, protocol, port) {
                format!("Port {port} of this machine belongs to Gateway {owner}, the oldest that names it.")
            } else if let Some(holder) = family.and_then(|family| stranger(reader, protocol, port, family)) {
                format!("Port {port} of this machine is held by {holder}. The listener is served once it is free.")
            } else {
                let owner = *taken.entry((protocol, bound)).or_insert(port);
                if owner == port {
                    continue;
                }
                format!("Port {port} is bound as {bound}, which port {owner} of another listener uses already.")
            };
        candidate.findings.push(Finding::accepted("PortUnavailable", message));
    }
}

/// Who holds a port of a shared machine and is none of ours.
fn stranger<'a>(reader: &Reader<'a>, protocol: PortProtocol, number: u16, family: IpFamily) -> Option<&'a Arc<str>> {
    reader.port_holder(MachinePort {
        protocol,
        number,
        family,
    })
}

/// The Gateway of another fleet that a port of a shared machine belongs to. A Gateway's own listeners go before what
/// ListenerSets add, which make no claim.
fn other_owner(reader: &Reader<'_>, fleet: FleetId, protocol: PortProtocol, port: u16) -> Option<Arc<str>> {
    if reader.settings().platform != Platform::Host {
        return None;
    }
    let claims = reader.port_claims(protocol, port).iter();
    let claimants = claims.filter_map(|(fleet, gateway)| {
        let seniority = Seniority::of(&reader.gateway_object(*gateway)?.metadata);
        Some((seniority, *fleet))
    });
    let (oldest, owner) = claimants.min_by(|(a, _), (b, _)| a.cmp(b))?;
    (owner != fleet).then(|| format!("{}/{}", oldest.namespace, oldest.name).into())
}
