//! The values of units. Each sits behind an `Arc`, so that readers and outputs share it.

use super::key::FleetId;
use crate::{
    phase::{
        attach::Attachments,
        backend_tls::BackendTls,
        class::Class,
        cluster::Built,
        endpoints::Readiness,
        gateway::Gateway,
        listeners::{Doors, FleetListeners},
        rules::Rules,
        sockets::Sockets,
        uses::Uses,
    },
    status::Status,
};
use edge_ir::{EndpointSet, Infra, RouteTableName, VirtualHost};
use std::sync::Arc;

/// The value of a unit; the variant is that of its key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// See [`phase::class`](crate::phase::class).
    Class(Arc<Class>),
    /// See [`phase::gateway`](crate::phase::gateway).
    Gateway(Arc<Gateway>),
    /// See [`phase::listeners`](crate::phase::listeners).
    Listeners(Arc<FleetListeners>),
    /// See [`phase::backend_tls`](crate::phase::backend_tls).
    BackendTls(BackendTls),
    /// What routes see of a Gateway.
    Doors(Arc<Doors>),
    /// Whether a backend has endpoints that take traffic.
    Ready(Readiness),
    /// See [`phase::attach`](crate::phase::attach).
    Attach(Arc<Attachments>),
    /// See [`phase::rules`](crate::phase::rules).
    Rules(Arc<Rules>),
    /// See [`phase::uses`](crate::phase::uses).
    Uses(Arc<Uses>),
    /// A virtual host and the table it stands in.
    Host(Placed),
    /// A cluster and the secrets it names.
    Cluster(Built),
    /// A set of endpoints; none when the backend resolves by itself (DNS).
    Endpoints(Option<Arc<EndpointSet>>),
    /// See [`phase::sockets`](crate::phase::sockets).
    Sockets(Arc<Sockets>),
    /// Infrastructure; none when what exists should stay as it is.
    Infra(Option<Arc<Infra>>),
    /// What we say about an object; none when it isn't ours to speak of.
    Status(Option<Arc<Status>>),
}

/// A virtual host and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    /// The fleet.
    pub(crate) fleet: FleetId,
    /// The table.
    pub(crate) table: RouteTableName,
    /// The host.
    pub(crate) host: Arc<VirtualHost>,
}
