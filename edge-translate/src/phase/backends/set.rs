//! Several backends in one cluster: where its endpoints are, and how each backend is spoken to.
//!
//! Each backend is a locality with its own weight, in a region of its own, so that statistics tell them apart. Zones
//! don't count where several backends share a priority: they would split a backend's weight.

use super::{
    backend_tls::{BackendTls, Trust},
    endpoints, zones,
};
use crate::{
    engine::reader::Reader,
    name::{BackendKind, BackendPort, BackendSet, Placement, Routing, SetMember, Zones},
};
use edge_ir::{EndpointAddress, EndpointSetName, Locality, ServerNaming};
use std::sync::Arc;

/// How far behind others a backend stands by what it says itself: 0 is used first.
pub(crate) fn priority(reader: &Reader<'_>, port: BackendPort) -> u32 {
    let object = match port.target.kind {
        BackendKind::Backend => reader.backend(port.target.id),
        BackendKind::Service | BackendKind::ServiceImport | BackendKind::Custom | BackendKind::Set => None,
    };
    u32::from(object.is_some_and(|object| object.spec.fallback))
}

/// The same for one that a reference names which can say it too.
pub(crate) fn priority_of(reader: &Reader<'_>, port: BackendPort, fallback: Option<bool>) -> u32 {
    priority(reader, port).max(u32::from(fallback == Some(true)))
}

/// Why a backend, or one of a set, can't be spoken to as it asks; none where it can.
pub(crate) fn refusal<'a>(reader: &Reader<'a>, port: BackendPort) -> Option<&'a str> {
    let of_one = |port| match reader.backend_tls(port) {
        Some(BackendTls::Refused(why)) => Some(why.as_str()),
        Some(BackendTls::Clear | BackendTls::Tls(_)) | None => None,
    };
    let Some(set) = reader.set_behind(port) else {
        return of_one(port);
    };
    let own = set.members.iter().find_map(|member| of_one(member.port));
    own.or_else(|| mixed_naming(reader, &set))
}

/// Names of servers come from the request for a whole cluster or not at all.
fn mixed_naming(reader: &Reader<'_>, set: &BackendSet) -> Option<&'static str> {
    let is_of_request =
        |member: &SetMember| trust(reader, member).is_some_and(|trust| trust.tls.naming == ServerNaming::OfRequest);
    let n_of_request = set.members.iter().filter(|member| is_of_request(member)).count();
    (n_of_request > 0 && n_of_request < set.members.len())
        .then_some("TLS to one of several backends needs a server name of its own: set `sni` in the Backend")
}

/// TLS towards a backend of a set; none where it is spoken to in clear.
pub(super) fn trust<'a>(reader: &Reader<'a>, member: &SetMember) -> Option<&'a Arc<Trust>> {
    match reader.backend_tls(member.port) {
        Some(BackendTls::Tls(trust)) => Some(trust),
        Some(BackendTls::Clear | BackendTls::Refused(_)) | None => None,
    }
}

/// Whether the backends of a set are told apart by how they are spoken to: as soon as one wants TLS, each says which
/// way it is for, those in clear as well. An endpoint that says nothing is then never spoken to in clear, whatever
/// order clusters and endpoints arrive in.
pub(super) fn has_sockets(reader: &Reader<'_>, set: &BackendSet) -> bool {
    set.members.iter().any(|member| trust(reader, member).is_some())
}

/// The name of the socket for a backend of a set, the same in every variant of its cluster.
pub(super) fn socket_name(set: &EndpointSetName, member: usize) -> Arc<str> {
    format!("{set}/tls/{member}").into()
}

/// Where the backends of a set are.
pub(super) fn localities(
    reader: &Reader<'_>,
    port: BackendPort,
    set: &BackendSet,
    routing: Routing,
    placement: &Placement,
) -> Vec<Locality> {
    let name = reader.endpoint_set_name(port);
    let has_sockets = has_sockets(reader, set);
    let prefers_zone = placement.zones == Zones::Known && !zones::is_shared(set);
    let of_one = |(number, member): (usize, &SetMember)| {
        let found = endpoints::addresses(reader, member.port, routing);
        let own = reader.endpoint_set_name(member.port);
        let mut placed = match prefers_zone {
            true => zones::compared(&own, &zones::known(reader, member.port), found),
            false => endpoints::localities(&own, found),
        };
        for locality in &mut placed {
            locality.weight = member.weight;
            locality.priority = member.priority;
            locality.socket = has_sockets.then(|| socket_name(&name, number));
            locality.probe_port = placement.probe_port;
        }
        placed
    };
    let mut placed: Vec<Locality> = set.members.iter().enumerate().flat_map(of_one).collect();
    if placed.iter().any(|locality| endpoints::is_dns(&locality.endpoints)) {
        for locality in &mut placed {
            // What resolves names can't connect to a path.
            let is_reachable = |address: &EndpointAddress| !matches!(address, EndpointAddress::Pipe { .. });
            locality.endpoints.retain(|endpoint| is_reachable(&endpoint.address));
        }
    }
    close_ranks(placed)
}

/// Numbers priorities anew, from 0 and without a gap, as a proxy wants them: one may be missing where its backends have
/// no endpoints.
fn close_ranks(mut placed: Vec<Locality>) -> Vec<Locality> {
    let mut known: Vec<u32> = placed.iter().map(|locality| locality.priority).collect();
    known.sort_unstable();
    known.dedup();
    for locality in &mut placed {
        let rank = known.iter().position(|priority| *priority == locality.priority);
        locality.priority = rank.and_then(|rank| u32::try_from(rank).ok()).unwrap_or_default();
    }
    placed
}
