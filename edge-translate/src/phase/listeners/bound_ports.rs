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
            } else if let Some((owner, why)) = other_owner(reader, fleet, protocol, port) {
                format!("Port {port} of this machine belongs to Gateway {owner}, {why}.")
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

/// The Gateway of another fleet that a port of a shared machine belongs to, and why. A Gateway's own listeners go
/// before what ListenerSets add, which make no claim.
fn other_owner(
    reader: &Reader<'_>,
    fleet: FleetId,
    protocol: PortProtocol,
    port: u16,
) -> Option<(String, &'static str)> {
    if reader.settings().platform != Platform::Host {
        return None;
    }
    let claimants = || {
        let claims = reader.port_claims(protocol, port).iter();
        claims.filter_map(|(fleet, gateway)| {
            let seniority = Seniority::of(&reader.gateway_object(*gateway)?.metadata);
            Some((seniority, *fleet))
        })
    };
    let (first, owner) = claimants().min_by(|(a, _), (b, _)| a.cmp(b))?;
    if owner == fleet {
        return None;
    }
    // Files seldom say how old an object is.
    let is_of_age = claimants().any(|(own, of)| of == fleet && own.created == first.created);
    let why = match is_of_age {
        true => "the first by name of those of one age that name it",
        false => "the oldest that names it",
    };
    Some((format!("{}/{}", first.namespace, first.name), why))
}
