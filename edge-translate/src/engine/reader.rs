//! What a unit sees of the world. Every question is written down, so that a change of its answer runs the unit again.

use super::{
    faults::Faults,
    index::{HostRoutes, Index, RoutePolicy},
    key::{Key, QuestionKey},
    memo::Reads,
    unit::Subject,
    value::Value,
};
use crate::{
    api::{self, CustomObject, Kind, LocalObjectRef, Object, ParentReference, Timestamp},
    fact::{Fetched, FoundModule, MachinePort, WantedModule},
    name::{
        Ancestor, BackendId, BackendKind, BackendPort, BackendSet, EndpointsId, FilterKey, FilterOwner, FleetId,
        HostId, Id, ListenerId, OutsideService, Placement, PlacementId, PolicyId, RouteId, RouteKind, SetMember,
        SocketId, Sym, TableRef, Target,
    },
    phase::{
        backends::{backend_tls::BackendTls, endpoints::Readiness},
        gateways::{class::Class, fleet_shape::FleetShape, gateway::Gateway},
        listeners::{
            certificate::{CertificateView, ServerCertificate},
            fleet::FleetListeners,
            sockets::SocketListener,
            view::ListenerViews,
        },
        policies::{
            client::ClientPolicy, extension::ExtensionPolicy, security::SecurityPolicy, traffic::TrafficPolicy,
        },
        reference::{Referent, Referrer, is_permitted},
        routes::{
            attach::Attachments,
            bound::{Bound, InVain},
        },
    },
    settings::Settings,
    world::{Cover, World},
};
use edge_ir::{ClusterName, EndpointSetName, FilterId, PatchFailure, PortProtocol};
use smallvec::SmallVec;
use std::sync::Arc;

mod decided;

pub(crate) use decided::Reading;

/// The only way from a unit to the world and to other units.
pub(crate) struct Reader<'a> {
    /// The unit that runs.
    pub(super) key: Key,
    pub(super) world: &'a World,
    pub(super) index: &'a Index,
    pub(super) faults: &'a Faults,
    pub(super) reads: &'a Reads<'a, Key, Value>,
}

macro_rules! objects {
    ($($(#[$doc:meta])* $method:ident: $variant:ident -> $type:ident;)+) => {
        impl<'a> Reader<'a> {
            $(
                $(#[$doc])*
                pub(crate) fn $method(&self, id: Id) -> Option<&'a Arc<api::$type>> {
                    match self.object(Kind::$variant, id) {
                        Some(Object::$variant(object)) => Some(object),
                        _ => None,
                    }
                }
            )+
        }
    };
}

objects! {
    /// A GatewayClass.
    class_object: GatewayClass -> GatewayClass;
    /// A Gateway.
    gateway_object: Gateway -> Gateway;
    /// A ListenerSet.
    listener_set: ListenerSet -> ListenerSet;
    /// An HTTPRoute.
    http_route: HttpRoute -> HttpRoute;
    /// A GRPCRoute.
    grpc_route: GrpcRoute -> GrpcRoute;
    /// A TLSRoute.
    tls_route: TlsRoute -> TlsRoute;
    /// A TCPRoute.
    tcp_route: TcpRoute -> TcpRoute;
    /// A UDPRoute.
    udp_route: UdpRoute -> UdpRoute;
    /// A Service.
    service: Service -> Service;
    /// A ServiceImport.
    service_import: ServiceImport -> ServiceImport;
    /// A Backend.
    backend: Backend -> Backend;
    /// An HTTPRouteFilter.
    http_route_filter: HttpRouteFilter -> HttpRouteFilter;
    /// A BackendTrafficPolicy.
    backend_traffic_policy: BackendTrafficPolicy -> BackendTrafficPolicy;
    /// A BackendTLSPolicy.
    backend_tls_policy: BackendTlsPolicy -> BackendTlsPolicy;
    /// A ConfigMap.
    config_map: ConfigMap -> ConfigMap;
    /// A ClusterTrustBundle.
    cluster_trust_bundle: ClusterTrustBundle -> ClusterTrustBundle;
    /// A Secret.
    secret: Secret -> Secret;
    /// An EdgeProxy.
    edge_proxy: EdgeProxy -> EdgeProxy;
    /// An EdgePatchPolicy.
    edge_patch_policy: EdgePatchPolicy -> EdgePatchPolicy;
    /// A Namespace.
    namespace: Namespace -> Namespace;
}

macro_rules! units {
    ($($(#[$doc:meta])* $method:ident($arg:ident: $argtype:ty): $variant:ident -> $type:ty;)+) => {
        impl<'a> Reader<'a> {
            $(
                $(#[$doc])*
                pub(crate) fn $method(&self, $arg: $argtype) -> Option<&'a $type> {
                    match self.reads.get(Key::$variant($arg)) {
                        Some(Value::$variant(value)) => Some(value),
                        _ => None,
                    }
                }
            )+
        }
    };
}

units! {
    /// The judgement on a class; none while the object is missing.
    class(name: Sym): Class -> Arc<Class>;
    /// The judgement on a Gateway.
    gateway(id: Id): Gateway -> Arc<Gateway>;
    /// A certificate; none when there is no such Secret.
    certificate(id: Id): Certificate -> Result<Arc<ServerCertificate>, Arc<str>>;
    /// What listeners see of it.
    certificate_view(id: Id): CertificateView -> Result<Arc<CertificateView>, Arc<str>>;
    /// All listeners of a fleet.
    listeners(fleet: FleetId): Listeners -> Arc<FleetListeners>;
    /// What its EdgeProxy decides for all of a fleet; none while it has no Gateway.
    fleet_shape(fleet: FleetId): FleetShape -> Arc<FleetShape>;
    /// What a ClientTrafficPolicy says; none when it doesn't exist.
    client_policy(id: Id): ClientPolicy -> Arc<ClientPolicy>;
    /// What a BackendTrafficPolicy says; none when it doesn't exist.
    traffic_policy(id: Id): TrafficPolicy -> Arc<TrafficPolicy>;
    /// What a SecurityPolicy says; none when it doesn't exist.
    security_policy(id: Id): SecurityPolicy -> Arc<SecurityPolicy>;
    /// What an EdgeExtensionPolicy says; none when it doesn't exist.
    extension_policy(id: Id): ExtensionPolicy -> Arc<ExtensionPolicy>;
    /// How a backend is spoken to; none when it doesn't exist.
    backend_tls(port: BackendPort): BackendTls -> BackendTls;
    /// What routes see of a Gateway; none when it isn't ours.
    listener_views(gateway: Id): ListenerViews -> Arc<ListenerViews>;
    /// Where a route attaches.
    attachments(route: RouteId): Attach -> Arc<Attachments>;
    /// A route's rules, bound.
    bound(route: RouteId): Bound -> Arc<Bound>;
}

impl<'a> Reader<'a> {
    /// One object of any kind.
    pub(crate) fn object(&self, kind: Kind, id: Id) -> Option<&'a Object> {
        if self.key.subject().and_then(Subject::object) != Some((kind, id)) {
            self.reads.note(Key::Object(kind, id));
        }
        self.world.object(kind, id)
    }

    /// An object of a kind that the configuration names for extension services.
    pub(crate) fn custom(&self, namespace: &str, reference: &LocalObjectRef) -> Option<&'a Arc<CustomObject>> {
        let kind = self.settings().custom_kind(&reference.group, &reference.kind)?;
        let id = self.id(namespace, &kind.key_name(&reference.name));
        self.object(kind.kept_as(), id)?.custom()
    }

    /// The object of such a kind that is a backend; none for backends of our kinds.
    pub(crate) fn custom_backend(&self, port: BackendPort) -> Option<&'a Arc<edge_ir::CustomObject>> {
        if port.target.kind != BackendKind::Custom {
            return None;
        }
        Some(&self.object(Kind::Custom, port.target.id)?.custom()?.content)
    }

    /// The controller's settings.
    pub(crate) fn settings(&self) -> &'a Settings {
        self.reads.note(Key::Settings);
        self.world.settings()
    }

    /// All ReferenceGrants in a namespace.
    pub(crate) fn grants(&self, namespace: Sym) -> impl Iterator<Item = &'a Arc<api::ReferenceGrant>> {
        self.reads.note(Key::Grants(namespace));
        self.world.grants(namespace)
    }

    /// All EndpointSlices of a backend.
    pub(crate) fn slices(&self, target: Target) -> impl Iterator<Item = &'a Arc<api::EndpointSlice>> {
        self.reads.note(Key::Slices(target));
        self.world.slices(target)
    }

    /// Whether a backend has endpoints that take traffic.
    pub(crate) fn readiness(&self, port: BackendPort) -> Readiness {
        if port.target.kind == BackendKind::Custom {
            // Where its endpoints are, a service says later.
            return Readiness::Ready;
        }
        match self.reads.get(Key::Ready(port)) {
            Some(Value::Ready(readiness)) => *readiness,
            _ => Readiness::NoEndpoints,
        }
    }

    /// Policies over an object, sorted by no order that can be seen; those of other namespaces as far as a
    /// ReferenceGrant lets them in. Of a route for its attachment alone, as with [`Self::host_routes`].
    pub(crate) fn covers(&self, kind: Kind, id: Id) -> impl Iterator<Item = Cover> {
        match RouteKind::of(kind) {
            Some(kind) => debug_assert_eq!(self.key, Key::Attach(RouteId { kind, id }), "only this unit is woken"),
            None => self.reads.note(Key::Covers(kind, id)),
        }
        let covers = self.world.covers(kind, id).iter().copied();
        covers.filter(move |Cover { policy, .. }| self.admits(*policy, kind, id))
    }

    /// What a policy is over, those of other namespaces as far as a ReferenceGrant lets it in: kind, object, and the
    /// listener or rule that it names. For its status alone, as with [`Self::host_routes`].
    pub(crate) fn covered_by(&self, policy: PolicyId) -> impl Iterator<Item = (Kind, Id, Option<Sym>)> {
        debug_assert_eq!(self.key, Key::Status(policy.kind, policy.id), "only this unit is woken");
        let covered = self.world.covered_by(policy);
        covered.filter(move |(kind, id, _)| self.admits(policy, *kind, *id))
    }

    /// What a policy chooses by labels, whether or not a ReferenceGrant lets it in. For its status alone, as with
    /// [`Self::covered_by`].
    pub(crate) fn chosen_by(&self, policy: PolicyId) -> impl Iterator<Item = (Kind, Id)> {
        debug_assert_eq!(self.key, Key::Status(policy.kind, policy.id), "only this unit is woken");
        self.world.chosen_by(policy)
    }

    /// Whether an object is in the namespace of a policy, or a ReferenceGrant lets that in.
    pub(crate) fn admits(&self, policy: PolicyId, kind: Kind, id: Id) -> bool {
        policy.id.namespace == id.namespace || self.lets_in(policy.kind, policy.id.namespace, kind, id)
    }

    /// Policies on routes below a Gateway and on their rules, in no order.
    pub(crate) fn route_policies(&self, gateway: Id) -> impl Iterator<Item = RoutePolicy> {
        self.reads.note(Key::RoutePolicies(gateway));
        self.index.route_policies.of(gateway)
    }

    /// Whether a ReferenceGrant lets the policies of another namespace cover an object.
    fn lets_in(&self, policy: Kind, from: Sym, kind: Kind, id: Id) -> bool {
        let (namespace, name, own) = (self.text(id.namespace), self.text(id.name), self.text(from));
        let from = Referrer {
            group: policy.group(),
            kind: policy.as_str(),
            namespace: &own,
        };
        let to = Referent {
            group: kind.group(),
            kind: kind.as_str(),
            namespace: &namespace,
            name: &name,
        };
        is_permitted(self, from, to)
    }

    fn pointers(&self, kind: Kind, id: Id) -> impl Iterator<Item = (Kind, Id)> {
        self.reads.note(Key::Referrers(kind, id));
        self.world.pointers(kind, id)
    }

    fn pointers_of(&self, by: Kind, kind: Kind, id: Id) -> impl Iterator<Item = Id> {
        let pointers = self.pointers(kind, id);
        pointers.filter(move |(kind, _)| *kind == by).map(|(_, id)| id)
    }

    /// Classes and Gateways that name an EdgeProxy as their parameters.
    pub(crate) fn proxy_users(&self, proxy: Id) -> impl Iterator<Item = (Kind, Id)> {
        self.pointers(Kind::EdgeProxy, proxy)
    }

    /// BackendTLSPolicies that point at a backend.
    pub(crate) fn tls_policies(&self, target: Target) -> impl Iterator<Item = Id> {
        let kind = target.kind.kind().into_iter();
        kind.flat_map(move |kind| self.pointers_of(Kind::BackendTlsPolicy, kind, target.id))
    }

    /// EdgePatchPolicies that point at a Gateway or a class.
    pub(crate) fn patch_policies(&self, kind: Kind, id: Id) -> impl Iterator<Item = Id> {
        self.pointers_of(Kind::EdgePatchPolicy, kind, id)
    }

    /// Patches of a fleet that could not be applied; none while nobody tried.
    pub(crate) fn patch_failures(&self, fleet: FleetId) -> Option<&'a Arc<Vec<PatchFailure>>> {
        self.reads.note(Key::Patched(fleet));
        self.world.patch_failures(fleet)
    }

    /// ListenerSets that name a Gateway.
    pub(crate) fn listener_sets(&self, gateway: Id) -> impl Iterator<Item = Id> {
        self.pointers_of(Kind::ListenerSet, Kind::Gateway, gateway)
    }

    /// Whether a Gateway or ListenerSet names a Secret; for the certificate alone, as with [`Self::host_routes`].
    pub(crate) fn is_certificate(&self, secret: Id) -> bool {
        debug_assert_eq!(self.key, Key::Certificate(secret), "only this unit is woken");
        self.world.is_certificate(secret)
    }

    /// Whether a time has come; none while nobody told us the time.
    pub(crate) fn has_come(&self, time: Timestamp) -> Option<bool> {
        self.reads.note(Key::Fact(QuestionKey::Time(time)));
        self.world.now().map(|now| now >= time)
    }

    /// Who else holds a port of the machine; none while nobody told us of one.
    pub(crate) fn port_holder(&self, port: MachinePort) -> Option<&'a Arc<str>> {
        self.reads.note(Key::Fact(QuestionKey::Port(port)));
        self.world.port_holder(port)
    }

    /// What stands at a URL; none while nobody told us.
    pub(crate) fn document(&self, url: &str) -> Option<&'a Fetched> {
        let url = self.sym(url);
        self.reads.note(Key::Fact(QuestionKey::Document(url)));
        self.world.document(url)
    }

    /// What came of fetching a Wasm module; none while nobody told us.
    pub(crate) fn module(&self, wanted: WantedModule) -> Option<&'a FoundModule> {
        let module = self.world.module_id(&Arc::new(wanted));
        self.reads.note(Key::Fact(QuestionKey::Module(module)));
        self.world.module(module)
    }

    /// The ports of an object that can be a backend.
    pub(crate) fn backend_ports(&self, target: Target) -> SmallVec<[BackendPort; 2]> {
        if let Some(kind) = target.kind.kind() {
            self.object(kind, target.id);
        }
        self.world.backend_ports(target)
    }

    /// The parents of routes that lead to a backend, in no order.
    pub(crate) fn ancestors(&self, port: BackendPort) -> impl Iterator<Item = Ancestor> {
        self.reads.note(Key::Ancestors(port));
        self.index.ancestors.of(port)
    }

    /// The Gateways of a fleet, in no order.
    pub(crate) fn members(&self, fleet: FleetId) -> &'a [Id] {
        self.reads.note(Key::Members(fleet));
        self.index.members(fleet)
    }

    /// The Gateways of all fleets that want a port of a machine that fleets share, in no order.
    pub(crate) fn port_claims(&self, protocol: PortProtocol, port: u16) -> &'a [(FleetId, Id)] {
        self.reads.note(Key::PortClaims(protocol, port));
        self.index.port_claims((protocol, port))
    }

    /// The routes of a host. Only its own unit asks, and is woken when they change, so there is nothing to record.
    pub(crate) fn host_routes(&self, host: HostId) -> Option<&'a HostRoutes> {
        debug_assert_eq!(self.key, Key::Host(host), "only this unit is woken");
        self.index.host_routes(host)
    }

    /// The listeners that serve at a socket; for the socket alone, as with [`Self::host_routes`].
    pub(crate) fn socket_listeners(&self, socket: SocketId) -> &'a [SocketListener] {
        debug_assert_eq!(self.key, Key::Socket(socket), "only this unit is woken");
        self.index.socket_listeners(socket)
    }

    /// TLS, TCP and UDP routes of a listener, in no order.
    pub(crate) fn listener_routes(&self, listener: ListenerId) -> &'a [RouteId] {
        self.reads.note(Key::ListenerRoutes(listener));
        self.index.listener_routes(listener)
    }

    /// How many routes a listener has.
    pub(crate) fn n_attached(&self, listener: ListenerId) -> u32 {
        self.reads.note(Key::Attached(listener));
        self.index.n_attached(listener)
    }

    /// Filters that routes of a listener use, in no order.
    pub(crate) fn filters(&self, listener: ListenerId) -> impl Iterator<Item = FilterKey> {
        self.reads.note(Key::Filters(listener));
        self.index.filters.of(listener)
    }

    /// What a BackendTrafficPolicy asks of backends in vain at the listeners that it is for, in no order.
    pub(crate) fn in_vain(&self, policy: Id) -> impl Iterator<Item = InVain> {
        self.reads.note(Key::InVain(policy));
        self.index.in_vain.of(policy)
    }

    /// Whether a fleet sends traffic to a backend; for the cluster alone, as with [`Self::host_routes`].
    pub(crate) fn is_used(&self, fleet: FleetId, backend: BackendId) -> bool {
        debug_assert_eq!(self.key, Key::Cluster(fleet, backend), "only this unit is woken");
        self.index.is_used(fleet, backend)
    }

    /// Whether a fleet needs a list of endpoints; for the endpoints alone, as with [`Self::host_routes`].
    pub(crate) fn needs_endpoints(&self, fleet: FleetId, list: EndpointsId) -> bool {
        debug_assert_eq!(self.key, Key::Endpoints(fleet, list), "only this unit is woken");
        self.index.needs_endpoints(fleet, list)
    }

    /// Other routes with a match of a route's, each with a listener where that is so, in no order; for its status
    /// alone, as with [`Self::host_routes`].
    pub(crate) fn overlaps(&self, route: RouteId) -> impl Iterator<Item = (ListenerId, RouteId)> {
        debug_assert_eq!(
            self.key,
            Key::Status(route.kind.kind(), route.id),
            "only this unit is woken"
        );
        self.index.overlaps.of(route)
    }

    /// Units that broke down over an object, with what they said; for its status alone, as with [`Self::host_routes`].
    pub(crate) fn faults(&self, kind: Kind, id: Id) -> Vec<(&'static str, &'a str)> {
        debug_assert_eq!(self.key, Key::Status(kind, id), "only this unit is woken");
        self.faults.of(kind, id)
    }

    /// The set of some backends. Sets are no input: what is in one never changes.
    pub(crate) fn backend_set(&self, members: Vec<SetMember>) -> BackendPort {
        self.world.backend_set(members)
    }

    /// What is in a set; none for what is no set.
    pub(crate) fn set_behind(&self, port: BackendPort) -> Option<Arc<BackendSet>> {
        self.world.set_behind(port)
    }

    /// The backends behind a backend: those of a set, else itself.
    pub(crate) fn backends_behind(&self, port: BackendPort) -> SmallVec<[BackendPort; 2]> {
        match self.set_behind(port) {
            Some(set) => set.members.iter().map(|member| member.port).collect(),
            None => SmallVec::from_slice(&[port]),
        }
    }

    /// The name of a cluster.
    pub(crate) fn cluster_name(&self, backend: BackendId) -> ClusterName {
        self.world.cluster_name(backend)
    }

    /// The name of the cluster of a service outside.
    pub(crate) fn outside_cluster_name(&self, service: &OutsideService) -> ClusterName {
        service.cluster(
            self.world
                .variant_suffix(service.variant)
                .as_deref()
                .unwrap_or_default(),
        )
    }

    /// The list of endpoints that a cluster uses.
    pub(crate) fn endpoints_of(&self, backend: BackendId) -> EndpointsId {
        self.world.endpoints_of(backend)
    }

    /// What is said of endpoints besides their addresses.
    pub(crate) fn placement(&self, id: PlacementId) -> TableRef<'a, Placement> {
        self.world.placement(id)
    }

    /// The name of a list of endpoints.
    pub(crate) fn endpoints_name(&self, list: EndpointsId) -> EndpointSetName {
        self.world.endpoints_name(list)
    }

    /// The name of a backend's endpoints.
    pub(crate) fn endpoint_set_name(&self, port: BackendPort) -> EndpointSetName {
        self.world.endpoint_set_name(port)
    }

    /// The identity of a filter's instance, as the data plane has it.
    pub(crate) fn filter_id(&self, key: FilterKey) -> FilterId {
        let owner = match key.owner {
            None => Arc::default(),
            Some(FilterOwner::Object(kind, id)) => {
                let kind = kind.as_str().to_ascii_lowercase();
                format!("{kind}/{}/{}", self.text(id.namespace), self.text(id.name)).into()
            }
            Some(FilterOwner::Of(instance)) => match &*self.instance(instance) {
                Some(of) => Arc::clone(&of.instance.id.owner),
                None => Arc::default(),
            },
            Some(FilterOwner::Settings(settings)) => self.world.decisions().filter_settings_name(settings).into(),
            Some(FilterOwner::Part(part)) => part.into(),
        };
        FilterId { kind: key.kind, owner }
    }

    /// An ancestor of a policy as it is written down.
    pub(crate) fn parent_reference(&self, ancestor: Ancestor) -> Arc<ParentReference> {
        self.world.parent_reference(ancestor)
    }

    /// The word for a name.
    pub(crate) fn sym(&self, name: &str) -> Sym {
        self.world.sym(name)
    }

    /// The words for a namespace and name.
    pub(crate) fn id(&self, namespace: &str, name: &str) -> Id {
        self.world.id(namespace, name)
    }

    /// The name behind a word.
    pub(crate) fn text(&self, sym: Sym) -> Arc<str> {
        self.world.text(sym)
    }
}
