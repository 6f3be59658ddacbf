//! Endpoints. Written field by field, because there are so many.

use super::metadata::put_socket_name;
use crate::{
    snapshot::{Body, Entry},
    wire::{put_message, put_present, put_str, put_text, put_varint},
};
use bytes::Bytes;
use edge_ir::{Endpoint, EndpointAddress, EndpointHealth, EndpointSet, Locality};
use envoy_types::pb::envoy::config::core::v3::HealthStatus;

/// Fields of `ClusterLoadAssignment`.
mod assignment {
    pub(super) const CLUSTER_NAME: u32 = 1;
    pub(super) const ENDPOINTS: u32 = 2;
}

/// Fields of `LocalityLbEndpoints`, and of its `Locality`.
mod group {
    pub(super) const LOCALITY: u32 = 1;
    pub(super) const ENDPOINTS: u32 = 2;
    pub(super) const WEIGHT: u32 = 3;
    pub(super) const PRIORITY: u32 = 5;
    pub(super) const REGION: u32 = 1;
    pub(super) const ZONE: u32 = 2;
}

/// Fields of `LbEndpoint`, and of its `Endpoint`.
mod endpoint {
    pub(super) const ENDPOINT: u32 = 1;
    pub(super) const HEALTH: u32 = 2;
    pub(super) const METADATA: u32 = 3;
    pub(super) const WEIGHT: u32 = 4;
    pub(super) const ADDRESS: u32 = 1;
    pub(super) const CHECK: u32 = 2;
    pub(super) const HOSTNAME: u32 = 3;
    /// Of `HealthCheckConfig`.
    pub(super) const CHECK_PORT: u32 = 1;
    pub(super) const CHECK_HOSTNAME: u32 = 2;
}

/// Fields of `Address`, `SocketAddress` and `Pipe`.
mod address {
    pub(super) const SOCKET: u32 = 1;
    pub(super) const PIPE: u32 = 2;
    pub(super) const HOST: u32 = 2;
    pub(super) const PORT: u32 = 3;
    pub(super) const PATH: u32 = 1;
}

/// `UInt32Value.value`.
const VALUE: u32 = 1;

/// Encodes a set of endpoints. It has no place for metadata of its own: the cluster that uses it carries the origins.
/// The buffer is scratch space.
pub(super) fn encode_endpoints(buffer: &mut Vec<u8>, set: &EndpointSet) -> Entry {
    buffer.clear();
    put_assignment(buffer, &set.name, &set.localities, Probed::AsAsked);
    let body = Body::Whole(Bytes::copy_from_slice(buffer));
    Entry::new(set.name.clone(), body, set.origins.clone())
}

/// Writes the fields of a `ClusterLoadAssignment`.
pub(super) fn put_assignment(out: &mut Vec<u8>, cluster: &str, localities: &[Locality], probed: Probed) {
    put_text(out, assignment::CLUSTER_NAME, cluster);
    for locality in localities {
        put_message(out, assignment::ENDPOINTS, |out| put_locality(out, locality, probed));
    }
}

/// The host that probes are for.
#[derive(Clone, Copy)]
pub(super) enum Probed {
    /// What the probe says.
    AsAsked,
    /// Its own name, where an endpoint has one.
    AsNamed,
}

fn put_locality(out: &mut Vec<u8>, locality: &Locality, probed: Probed) {
    put_message(out, group::LOCALITY, |out| {
        put_text(out, group::REGION, &locality.region);
        put_text(out, group::ZONE, locality.zone.as_deref().unwrap_or_default());
    });
    for endpoint in &locality.endpoints {
        put_message(out, group::ENDPOINTS, |out| {
            put_endpoint(out, endpoint, locality, probed);
        });
    }
    // Weighing localities takes one that has no weight to be closed.
    put_message(out, group::WEIGHT, |out| put_varint(out, VALUE, locality.weight.max(1)));
    put_varint(out, group::PRIORITY, locality.priority);
}

fn put_endpoint(out: &mut Vec<u8>, endpoint: &Endpoint, of: &Locality, probed: Probed) {
    put_message(out, endpoint::ENDPOINT, |out| {
        put_message(out, endpoint::ADDRESS, |out| put_address(out, &endpoint.address));
        let name = match (probed, &endpoint.address) {
            (Probed::AsNamed, EndpointAddress::Name { host, .. }) => Some(host),
            _ => None,
        };
        if of.probe_port.is_some() || name.is_some() {
            put_message(out, endpoint::CHECK, |out| {
                put_varint(out, endpoint::CHECK_PORT, of.probe_port.unwrap_or_default());
                put_text(
                    out,
                    endpoint::CHECK_HOSTNAME,
                    name.map(|name| &**name).unwrap_or_default(),
                );
            });
        }
        put_text(
            out,
            endpoint::HOSTNAME,
            endpoint.hostname.as_deref().unwrap_or_default(),
        );
    });
    let health = match endpoint.health {
        EndpointHealth::Serving => HealthStatus::Unknown,
        EndpointHealth::Draining => HealthStatus::Draining,
    };
    put_varint(out, endpoint::HEALTH, health as u32);
    if let Some(name) = of.socket.as_deref() {
        put_socket_name(out, endpoint::METADATA, name);
    }
    put_message(out, endpoint::WEIGHT, |out| put_varint(out, VALUE, 1u32));
}

/// Where an endpoint listens.
fn put_address(out: &mut Vec<u8>, endpoint: &EndpointAddress) {
    let socket = |out: &mut Vec<u8>, host: &str, port: u16| {
        put_message(out, address::SOCKET, |out| {
            put_text(out, address::HOST, host);
            put_present(out, address::PORT, port);
        });
    };
    match endpoint {
        EndpointAddress::Socket { ip, port } => socket(out, &ip.to_string(), *port),
        EndpointAddress::Name { host, port } => socket(out, host, *port),
        EndpointAddress::Pipe { path } => put_message(out, address::PIPE, |out| put_str(out, address::PATH, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::Origins;
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use prost::Message;
    use std::net::Ipv4Addr;

    /// Endpoints of every kind, in two places.
    fn full_set() -> EndpointSet {
        let endpoint = |address| Endpoint {
            address,
            hostname: Some("a.example".into()),
            health: EndpointHealth::Draining,
        };
        let socket = |ip: Ipv4Addr| EndpointAddress::Socket {
            ip: ip.into(),
            port: 8080,
        };
        let name = EndpointAddress::Name {
            host: "b.example".into(),
            port: 0,
        };
        let place = |zone: Option<&str>, weight, endpoints| Locality {
            region: "service/a/b/80".into(),
            zone: zone.map(Into::into),
            priority: weight,
            weight,
            socket: zone.map(|_| "set/a/tls/0".into()),
            probe_port: zone.map(|_| 8181),
            endpoints,
        };
        let plain = Endpoint {
            hostname: None,
            health: EndpointHealth::Serving,
            ..endpoint(socket(Ipv4Addr::LOCALHOST))
        };
        let pipe = EndpointAddress::Pipe { path: "/run/b".into() };
        EndpointSet {
            name: "service/a/b/80".into(),
            localities: vec![
                place(None, 0, vec![plain, endpoint(name)]),
                place(
                    Some("z"),
                    300,
                    vec![endpoint(pipe), endpoint(socket(Ipv4Addr::BROADCAST))],
                ),
                place(Some("empty"), 1, Vec::new()),
            ],
            origins: Origins::default(),
        }
    }

    #[test]
    fn endpoints_are_what_generated_types_write() {
        let entry = encode_endpoints(&mut vec![1], &full_set());
        let bytes = entry.body.contiguous();
        let message = ClusterLoadAssignment::decode(&*bytes).unwrap();
        assert_eq!(message.encode_to_vec(), bytes);
        let addresses = format!("{message:?}");
        for part in [
            "127.0.0.1",
            "255.255.255.255",
            "b.example",
            "/run/b",
            "a.example",
            "PortValue(0)",
            "Draining",
            "set/a/tls/0",
            "8181",
        ] {
            assert!(addresses.contains(part), "{part}: {addresses}");
        }
    }
}
