//! The values of units. Each sits behind an `Arc`, so that readers and outputs share it.

use crate::{
    name::FleetId,
    phase::{
        backends::{backend_tls::BackendTls, cluster::ClusterParts, endpoints::Readiness},
        gateways::{class::Class, fleet_shape::FleetShape, gateway::Gateway},
        listeners::{
            certificate::{CertificateView, ServerCertificate},
            fleet::FleetListeners,
            sockets::Socket,
            view::ListenerViews,
        },
        policies::{
            client::ClientPolicy, extension::ExtensionPolicy, security::SecurityPolicy, traffic::TrafficPolicy,
        },
        routes::{attach::Attachments, bound::Bound, overlap::Overlap},
    },
    status::Status,
};
use edge_ir::{CustomPolicy, EndpointSet, Infra, Patch, RouteTableName, Seldom, VirtualHost};
use std::sync::Arc;

/// The value of a unit; the variant is that of its key. Every node of the memo has room for the largest, so what is
/// large stands behind a pointer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// See [`phase::gateways::class`](crate::phase::gateways::class).
    Class(Arc<Class>),
    /// See [`phase::gateways::gateway`](crate::phase::gateways::gateway).
    Gateway(Arc<Gateway>),
    /// A certificate, or why the Secret isn't one.
    Certificate(Result<Arc<ServerCertificate>, Arc<str>>),
    /// What listeners see of a certificate.
    CertificateView(Result<Arc<CertificateView>, Arc<str>>),
    /// See [`phase::listeners::fleet`](crate::phase::listeners::fleet).
    Listeners(Arc<FleetListeners>),
    /// See [`phase::gateways::fleet_shape`](crate::phase::gateways::fleet_shape).
    FleetShape(Arc<FleetShape>),
    /// See [`phase::policies::security`](crate::phase::policies::security).
    SecurityPolicy(Arc<SecurityPolicy>),
    /// See [`phase::policies::extension`](crate::phase::policies::extension).
    ExtensionPolicy(Arc<ExtensionPolicy>),
    /// See [`phase::policies::client`](crate::phase::policies::client).
    ClientPolicy(Arc<ClientPolicy>),
    /// See [`phase::policies::traffic`](crate::phase::policies::traffic).
    TrafficPolicy(Arc<TrafficPolicy>),
    /// See [`phase::gateways::patches`](crate::phase::gateways::patches).
    Patches(Arc<Vec<Patch>>),
    /// See [`phase::policies::custom`](crate::phase::policies::custom).
    CustomPolicies(Arc<Vec<CustomPolicy>>),
    /// See [`phase::backends::backend_tls`](crate::phase::backends::backend_tls).
    BackendTls(BackendTls),
    /// What routes see of a Gateway.
    ListenerViews(Arc<ListenerViews>),
    /// Whether a backend has endpoints that take traffic.
    Ready(Readiness),
    /// See [`phase::routes::attach`](crate::phase::routes::attach).
    Attach(Arc<Attachments>),
    /// See [`phase::routes::bound`](crate::phase::routes::bound).
    Bound(Arc<Bound>),
    /// A virtual host and the table it stands in.
    Host(Arc<PlacedHost>),
    /// A cluster and the secrets it names.
    Cluster(Arc<ClusterParts>),
    /// A set of endpoints; none when the backend resolves by itself (DNS).
    Endpoints(Option<Arc<EndpointSet>>),
    /// See [`phase::listeners::sockets`](crate::phase::listeners::sockets).
    Socket(Arc<Socket>),
    /// See [`phase::gateways::collectors`](crate::phase::gateways::collectors).
    Collectors(Arc<Vec<ClusterParts>>),
    /// Infrastructure; none when what exists should stay as it is.
    Infra(Option<Arc<Infra>>),
    /// What we say about an object; none when it isn't ours to speak of.
    Status(Option<Arc<Status>>),
}

/// A virtual host and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedHost {
    /// The fleet.
    pub(crate) fleet: FleetId,
    /// The table.
    pub(crate) table: RouteTableName,
    /// The host.
    pub(crate) host: Arc<VirtualHost>,
    /// Routes of it that have matches in common, sorted.
    pub(crate) overlaps: Seldom<Overlap>,
}
