//! Identities: what units, indexes and names of the data plane are about, in interned words.

use super::{FilterSettingsId, InstanceId, PlacementId, Sym, VariantId};
use crate::api::Kind;
use edge_ir::{AppProtocol, FilterKind, PortProtocol};

/// Namespace and name of an object. Cluster-scoped objects have the empty namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// Namespace.
    pub(crate) namespace: Sym,
    /// Name.
    pub(crate) name: Sym,
}

/// A fleet, by its interned key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FleetId(pub(crate) Sym);

/// A socket of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SocketId {
    /// The fleet.
    pub(crate) fleet: FleetId,
    /// What its port is a port of.
    pub(crate) transport: PortProtocol,
    /// The port that clients use.
    pub(crate) port: u16,
}

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

impl ListenerId {
    /// The object that it stands in.
    pub(crate) fn holder(self) -> (Kind, Id) {
        holder(self.gateway, self.set)
    }
}

/// The object that listeners of a Gateway stand in: itself, or one of its ListenerSets.
pub(crate) fn holder(gateway: Id, set: Option<Id>) -> (Kind, Id) {
    match set {
        Some(set) => (Kind::ListenerSet, set),
        None => (Kind::Gateway, gateway),
    }
}

/// What becomes a virtual host: an effective hostname on a listener, or the names there that are of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostId {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The hostname, `*` for every one, [`edge_ir::ELSEWHERE`] for those of others.
    pub(crate) host: Sym,
}

/// An instance of a filter, in interned words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterKey {
    /// Its kind.
    pub(crate) kind: FilterKind,
    /// Whose it is; nobody's is the one that all routes share.
    pub(crate) owner: Option<FilterOwner>,
}

/// What tells an instance from others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FilterOwner {
    /// The object that it is for.
    Object(Kind, Id),
    /// Who asks for it, and what it is about: all who ask for the same share it.
    Of(InstanceId),
    /// What it is set to: whoever wants the same shares it.
    Settings(FilterSettingsId),
    /// What it is about: all routes share this one as well.
    Part(&'static str),
}

impl FilterKey {
    /// The one instance of a kind that all routes share.
    pub(crate) fn shared(kind: FilterKind) -> Self {
        Self { kind, owner: None }
    }
}

/// A route object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteId {
    /// Its kind.
    pub(crate) kind: RouteKind,
    /// Namespace and name.
    pub(crate) id: Id,
}

/// A policy with targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PolicyId {
    /// Its kind.
    pub(crate) kind: Kind,
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
    /// An object that only extension services know. Its name holds its kind too ([`crate::api::CustomKind::key_name`]).
    Custom,
    /// Several of these as one, which no object stands for.
    Set,
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

    /// The kind of the objects; none for what is no object.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Service => Some(Kind::Service),
            Self::ServiceImport => Some(Kind::ServiceImport),
            Self::Backend => Some(Kind::Backend),
            Self::Custom => Some(Kind::Custom),
            Self::Set => None,
        }
    }

    /// As it stands in the names of clusters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::ServiceImport => "serviceimport",
            Self::Backend => "backend",
            Self::Custom => "custom",
            Self::Set => "set",
        }
    }
}

/// An object that can be a backend, or a set of some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    /// Its kind.
    pub(crate) kind: BackendKind,
    /// Namespace and name.
    pub(crate) id: Id,
}

/// A port of a backend: what has endpoints. Kind Backend and sets have no ports to choose from; theirs is 0. That of an
/// object that only extension services know is what the reference says, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendPort {
    /// The object.
    pub(crate) target: Target,
    /// The port.
    pub(crate) port: u16,
    /// Its transport protocol.
    pub(crate) transport: PortProtocol,
}

/// A list of endpoints: those of a port, with what is said of them besides their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EndpointsId {
    /// The port.
    pub(crate) port: BackendPort,
    /// What is said of them.
    pub(crate) placement: PlacementId,
}

/// A backend and how it is spoken to: what becomes a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendId {
    /// The endpoints.
    pub(crate) port: BackendPort,
    /// The protocol.
    pub(crate) protocol: AppProtocol,
    /// What a context changes about it. Only what makes a difference to the backend: else it is the same cluster.
    pub(crate) variant: VariantId,
}

/// What a policy calls its ancestor: of one on a backend, a parentRef that leads routes there; of one with targets, the
/// Gateway or ListenerSet that a target is or hangs under.
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

impl Ancestor {
    /// All of an object.
    pub(crate) fn object(kind: Kind, id: Id) -> Self {
        Self {
            kind,
            id,
            section: None,
            port: None,
        }
    }
}
