//! What the memo table knows: inputs, indexes and units, and in which stage a unit runs.

use super::memo::MemoKey;
use crate::{
    api::Kind,
    name::{BackendId, BackendPort, FleetId, HostId, Id, Interner, ListenerId, RouteId, Sym, Target},
};

/// A node of the memo table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    // Inputs.
    /// The controller's settings.
    Settings,
    /// One object.
    Object(Kind, Id),
    /// All EndpointSlices of a backend.
    Slices(Target),
    /// All ReferenceGrants of a namespace.
    Grants(Sym),
    /// BackendTLSPolicies that point at a backend.
    TlsPolicies(Target),
    /// ListenerSets that name a Gateway.
    ListenerSets(Id),
    /// Protective policies on objects of a kind in a namespace.
    Guards(Kind, Sym),
    // Indexes, kept from the values of units.
    /// The Gateways of a fleet.
    Members(FleetId),
    /// TLS, TCP and UDP routes of a listener.
    ListenerRoutes(ListenerId),
    /// The classes and Gateways that name an EdgeProxy.
    ProxyUsers(Id),
    /// How many routes a listener has.
    Attached(ListenerId),
    /// The parents of routes that lead to a backend.
    Ancestors(BackendPort),
    /// What the routes of a listener need of it.
    Features(ListenerId),
    // Units.
    /// Is this class ours, and what does it say?
    Class(Sym),
    /// Whose is this Gateway, and which fleet is it in?
    Gateway(Id),
    /// All listeners of a fleet, judged together.
    Listeners(FleetId),
    /// Is this backend spoken to in TLS, and whom do we trust?
    BackendTls(BackendPort),
    /// What routes see of a Gateway.
    ListenerViews(Id),
    /// Does this backend have an endpoint that takes traffic?
    Ready(BackendPort),
    /// Where does this route attach?
    Attach(RouteId),
    /// The rules of this route, compiled.
    Rules(RouteId),
    /// Which backends does this route use, in which fleets?
    Uses(RouteId),
    /// A virtual host.
    Host(HostId),
    /// A cluster of a fleet.
    Cluster(FleetId, BackendId),
    /// The endpoints of a backend for a fleet.
    Endpoints(FleetId, BackendPort),
    /// Sockets, tables and secrets of a fleet.
    Sockets(FleetId),
    /// What must exist around a fleet.
    Infra(FleetId),
    /// What we say about an object.
    Status(Kind, Id),
}

/// Number of stages.
pub(crate) const N_STAGES: usize = 8;

impl Key {
    /// The object that a unit is about. Every change to it wakes the unit, so that reading it needs no record.
    pub(crate) fn subject(&self) -> Option<(Kind, Id)> {
        match *self {
            Self::Class(name) => {
                let namespace = Interner::EMPTY;
                Some((Kind::GatewayClass, Id { namespace, name }))
            }
            Self::Gateway(id) => Some((Kind::Gateway, id)),
            Self::Attach(route) | Self::Rules(route) | Self::Uses(route) => Some((route.kind.kind(), route.id)),
            Self::Status(kind, id) => Some((kind, id)),
            _ => None,
        }
    }
}

impl MemoKey for Key {
    fn stage(&self) -> Option<usize> {
        Some(match self {
            Self::Settings | Self::Object(..) | Self::Slices(_) | Self::Grants(_) | Self::Guards(..) => return None,
            Self::Members(_) | Self::ListenerRoutes(_) => return None,
            Self::Attached(_) | Self::ProxyUsers(_) | Self::TlsPolicies(_) | Self::Ancestors(_) => return None,
            Self::ListenerSets(_) | Self::Features(_) => return None,
            Self::Class(_) => 0,
            Self::Gateway(_) => 1,
            Self::Listeners(_) | Self::BackendTls(_) => 2,
            Self::ListenerViews(_) | Self::Ready(_) => 3,
            Self::Attach(_) | Self::Rules(_) => 4,
            Self::Uses(_) => 5,
            Self::Host(_) | Self::Cluster(..) | Self::Endpoints(..) | Self::Sockets(_) | Self::Infra(_) => 6,
            Self::Status(..) => 7,
        })
    }
}
