//! What the memo table knows: inputs, indexes and units, and in which stage a unit runs.

use super::memo::MemoKey;
use crate::{
    api::Kind,
    name::{Id, Interner, Sym},
};
use edge_ir::{AppProtocol, PortProtocol};

/// A fleet, by its interned key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FleetId(pub(crate) Sym);

/// A listener of a Gateway, its own or added by a ListenerSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListenerId {
    /// The Gateway.
    pub(crate) gateway: Id,
    /// The ListenerSet that brings it.
    pub(crate) set: Option<Id>,
    /// The listener's name in its object.
    pub(crate) name: Sym,
}

/// An effective hostname on a listener: what becomes a virtual host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The hostname, `*` for every one.
    pub(crate) host: Sym,
}

/// A route object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteId {
    /// Its kind.
    pub(crate) kind: RouteKind,
    /// Namespace and name.
    pub(crate) id: Id,
}

/// Route kinds that are translated, in the order in which they win where age and name are the same. Others become
/// variants here, and `match` finds what they still need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RouteKind {
    /// HTTPRoute.
    Http,
    /// GRPCRoute.
    Grpc,
    /// TLSRoute.
    Tls,
    /// TCPRoute.
    Tcp,
    /// UDPRoute.
    Udp,
}

impl RouteKind {
    /// The kind of the objects.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Http => Kind::HttpRoute,
            Self::Grpc => Kind::GrpcRoute,
            Self::Tls => Kind::TlsRoute,
            Self::Tcp => Kind::TcpRoute,
            Self::Udp => Kind::UdpRoute,
        }
    }

    /// The route kind of an object kind.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::HttpRoute => Some(Self::Http),
            Kind::GrpcRoute => Some(Self::Grpc),
            Kind::TlsRoute => Some(Self::Tls),
            Kind::TcpRoute => Some(Self::Tcp),
            Kind::UdpRoute => Some(Self::Udp),
            _ => None,
        }
    }

    /// Whether its rules stand in virtual hosts; the others take whole connections or datagrams of a listener.
    pub(crate) fn is_by_host(self) -> bool {
        match self {
            Self::Http | Self::Grpc => true,
            Self::Tls | Self::Tcp | Self::Udp => false,
        }
    }

    /// The transport protocol of its backends.
    pub(crate) fn transport(self) -> PortProtocol {
        match self {
            Self::Http | Self::Grpc | Self::Tls | Self::Tcp => PortProtocol::Tcp,
            Self::Udp => PortProtocol::Udp,
        }
    }
}

/// Kinds that a backendRef may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum BackendKind {
    /// A Service of this cluster.
    Service,
    /// A Service of a cluster set.
    ServiceImport,
    /// Our own kind: addresses and names outside the platform.
    Backend,
}

impl BackendKind {
    /// The kind behind a group and kind as written.
    pub(crate) fn of(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            ("", "Service") => Some(Self::Service),
            ("multicluster.x-k8s.io", "ServiceImport") => Some(Self::ServiceImport),
            ("gateway.edge", "Backend") => Some(Self::Backend),
            _ => None,
        }
    }

    /// The kind of the objects.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Service => Kind::Service,
            Self::ServiceImport => Kind::ServiceImport,
            Self::Backend => Kind::Backend,
        }
    }

    /// As it stands in the names of clusters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::ServiceImport => "serviceimport",
            Self::Backend => "backend",
        }
    }
}

/// An object that can be a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    /// Its kind.
    pub(crate) kind: BackendKind,
    /// Namespace and name.
    pub(crate) id: Id,
}

/// A port of a backend: what has endpoints. Kind Backend has no ports to choose from; its port is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendPort {
    /// The object.
    pub(crate) target: Target,
    /// The port.
    pub(crate) port: u16,
    /// Its transport protocol.
    pub(crate) transport: PortProtocol,
}

/// A backend and how it is spoken to: what becomes a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendId {
    /// The endpoints.
    pub(crate) port: BackendPort,
    /// The protocol.
    pub(crate) protocol: AppProtocol,
}

/// A parentRef that leads routes to a backend: what a policy on the backend calls its ancestor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ancestor {
    /// Kind of the parent.
    pub(crate) kind: Kind,
    /// The parent.
    pub(crate) id: Id,
    /// The listener, if the route names one.
    pub(crate) section: Option<Sym>,
    /// The port, if the route names one.
    pub(crate) port: Option<u16>,
}

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
    Doors(Id),
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
            Self::Doors(_) | Self::Ready(_) => 3,
            Self::Attach(_) | Self::Rules(_) => 4,
            Self::Uses(_) => 5,
            Self::Host(_) | Self::Cluster(..) | Self::Endpoints(..) | Self::Sockets(_) | Self::Infra(_) => 6,
            Self::Status(..) => 7,
        })
    }
}
