//! What policies are for, and what their statuses hang under.

use crate::{
    api::{Kind, Protocol},
    engine::reader::Reader,
    name::{Ancestor, Id, PolicyId, RouteId, RouteKind, Sym},
    phase::{
        gateways::gateway::{Gateway, transport},
        listeners::listener_set,
    },
};
use edge_ir::PortProtocol;
use smallvec::SmallVec;

/// A target of a policy.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) id: Id,
    /// A listener or rule of it.
    pub(super) section: Option<Sym>,
}

impl Target {
    /// The route that it is.
    pub(super) fn route(self) -> Option<RouteId> {
        RouteKind::of(self.kind).map(|kind| RouteId { kind, id: self.id })
    }

    /// What carries its streams, if it is a TCPRoute or a listener at which nobody reads requests.
    pub(super) fn streams(self, reader: &Reader<'_>) -> Option<PortProtocol> {
        let section = self.section.map(|section| reader.text(section));
        let listeners = match self.kind {
            Kind::TcpRoute => return Some(PortProtocol::Tcp),
            Kind::Gateway => &reader.gateway_object(self.id)?.spec.listeners,
            Kind::ListenerSet => &reader.listener_set(self.id)?.spec.listeners,
            _ => return None,
        };
        let it = listeners
            .iter()
            .find(|listener| section.as_deref() == Some(&*listener.name))?;
        match it.protocol {
            Protocol::Tcp | Protocol::Tls | Protocol::Udp => Some(transport(&it.protocol)),
            _ => None,
        }
    }
}

/// What a policy is for, of the kinds that it may be for; in order of name, because the first word that isn't good
/// stays.
pub(super) fn targets(
    reader: &Reader<'_>,
    policy: PolicyId,
    may_target: impl Fn(Kind) -> bool,
) -> SmallVec<[Target; 1]> {
    let covered = reader.covered_by(policy);
    let mut targets: SmallVec<[Target; 1]> = covered
        .filter(|(kind, ..)| may_target(*kind))
        .map(|(kind, id, section)| Target { kind, id, section })
        .collect();
    if targets.len() > 1 {
        let text = |sym| reader.text(sym);
        targets.sort_by_cached_key(|target| {
            let Target { kind, id, section } = *target;
            (kind, text(id.namespace), text(id.name), section.map(text))
        });
    }
    targets
}

/// What a target hangs under: a Gateway or ListenerSet is its own ancestor, a route has one for each parent that is
/// ours, with the listener that it names.
pub(super) fn ancestors_of(reader: &Reader<'_>, target: Target) -> Vec<Ancestor> {
    let is_ours = |gateway: Id| {
        let gateway = reader.gateway(gateway);
        gateway.is_some_and(|gateway| matches!(**gateway, Gateway::Member(_)))
    };
    let itself = || Ancestor {
        section: target.section,
        ..Ancestor::object(target.kind, target.id)
    };
    match target.route() {
        Some(route) => {
            let attachments = reader.attachments(route);
            let parents = attachments.into_iter().flat_map(|a| &a.parents);
            parents.map(|parent| parent.ancestor()).collect()
        }
        None => {
            let gateway = match target.kind {
                Kind::ListenerSet => reader
                    .listener_set(target.id)
                    .and_then(|set| listener_set::parent(reader, set)),
                _ => Some(target.id),
            };
            gateway
                .filter(|gateway| is_ours(*gateway))
                .map(|_| itself())
                .into_iter()
                .collect()
        }
    }
}

/// Whether a target has the part that a policy names.
pub(super) fn has_section(reader: &Reader<'_>, target: Target, section: Sym) -> bool {
    let section = reader.text(section);
    let is_it = |name: Option<&str>| name == Some(&*section);
    match target.kind {
        Kind::Gateway => reader
            .gateway_object(target.id)
            .is_some_and(|gateway| gateway.spec.listeners.iter().any(|l| is_it(Some(&l.name)))),
        Kind::ListenerSet => reader
            .listener_set(target.id)
            .is_some_and(|set| set.spec.listeners.iter().any(|l| is_it(Some(&l.name)))),
        Kind::HttpRoute => reader
            .http_route(target.id)
            .is_some_and(|route| route.spec.rules.iter().any(|rule| is_it(rule.name.as_deref()))),
        Kind::GrpcRoute => reader
            .grpc_route(target.id)
            .is_some_and(|route| route.spec.rules.iter().any(|rule| is_it(rule.name.as_deref()))),
        Kind::TlsRoute => reader
            .tls_route(target.id)
            .is_some_and(|route| route.spec.rules.iter().any(|rule| is_it(rule.name.as_deref()))),
        Kind::TcpRoute => reader
            .tcp_route(target.id)
            .is_some_and(|route| route.spec.rules.iter().any(|rule| is_it(rule.name.as_deref()))),
        Kind::UdpRoute => reader
            .udp_route(target.id)
            .is_some_and(|route| route.spec.rules.iter().any(|rule| is_it(rule.name.as_deref()))),
        _ => false,
    }
}
