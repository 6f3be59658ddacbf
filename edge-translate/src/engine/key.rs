//! What the memo table knows: inputs, indexes and units.

use crate::{
    api::{Kind, Timestamp},
    fact::MachinePort,
    name::{
        BackendId, BackendPort, EndpointsId, FleetId, HostId, Id, ListenerId, ModuleId, RouteId, SocketId, Sym, Target,
    },
};
use edge_ir::PortProtocol;

/// What of the outside is asked for: a [`Question`](crate::Question), with its texts as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QuestionKey {
    /// When this time has come.
    Time(Timestamp),
    /// Who holds a port.
    Port(MachinePort),
    /// What stands at a URL.
    Document(Sym),
    /// What Wasm module is to be had.
    Module(ModuleId),
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
    /// Who names an object.
    Referrers(Kind, Id),
    /// Which policies point at an object that is no route.
    Covers(Kind, Id),
    /// What the outside says.
    Fact(QuestionKey),
    /// Which patches of a fleet could not be applied.
    Patched(FleetId),
    // Indexes, kept from the values of units.
    /// The Gateways of a fleet.
    Members(FleetId),
    /// The Gateways of all fleets that want a port of a machine that fleets share.
    PortClaims(PortProtocol, u16),
    /// TLS, TCP and UDP routes of a listener.
    ListenerRoutes(ListenerId),
    /// How many routes a listener has.
    Attached(ListenerId),
    /// The parents of routes that lead to a backend.
    Ancestors(BackendPort),
    /// Filters that the routes of a listener use.
    Filters(ListenerId),
    /// What a BackendTrafficPolicy asks of backends in vain.
    InVain(Id),
    /// Policies on routes below a Gateway, and on their rules.
    RoutePolicies(Id),
    // Units.
    /// Is this class ours, and what does it say?
    Class(Sym),
    /// Whose is this Gateway, and which fleet is it in?
    Gateway(Id),
    /// What is in this Secret, read as a certificate?
    Certificate(Id),
    /// What do listeners see of it?
    CertificateView(Id),
    /// All listeners of a fleet, judged together.
    Listeners(FleetId),
    /// What the EdgeProxy of a fleet decides for all of it.
    FleetShape(FleetId),
    /// What does this SecurityPolicy say?
    SecurityPolicy(Id),
    /// What does this EdgeExtensionPolicy say?
    ExtensionPolicy(Id),
    /// What does this ClientTrafficPolicy say?
    ClientPolicy(Id),
    /// What does this BackendTrafficPolicy say?
    TrafficPolicy(Id),
    /// What is changed of what a fleet's proxies are sent?
    Patches(FleetId),
    /// Which policies of extension services are over a fleet's Gateways?
    CustomPolicies(FleetId),
    /// Is this backend spoken to in TLS, and whom do we trust?
    BackendTls(BackendPort),
    /// What routes see of a Gateway.
    ListenerViews(Id),
    /// Does this backend have an endpoint that takes traffic?
    Ready(BackendPort),
    /// Where does this route attach?
    Attach(RouteId),
    /// What do this route's rules do under its parents, and what does it use there?
    Bound(RouteId),
    /// A virtual host.
    Host(HostId),
    /// A cluster of a fleet.
    Cluster(FleetId, BackendId),
    /// The endpoints of a backend for a fleet.
    Endpoints(FleetId, EndpointsId),
    /// A socket, with the tables and secrets that it names.
    Socket(SocketId),
    /// The clusters of those who are told what a fleet sees.
    Collectors(FleetId),
    /// Where are a fleet's own proxies?
    Proxies(FleetId),
    /// What must exist around a fleet.
    Infra(FleetId),
    /// What we say about an object.
    Status(Kind, Id),
}
