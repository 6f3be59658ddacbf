//! The configuration client.
//!
//! What: [`delta`] speaks the delta xDS protocol, [`assembly`] turns resources into snapshots; both are pure state
//! machines. [`client`] and [`connect`] are the thin shell that moves bytes.
//! The order is make-before-break on this side too: a cluster is used once its endpoints are there, a listener once
//! its routes and secrets are, and until then the version before stays.

pub mod assembly;
pub mod client;
pub mod connect;
pub mod delta;

/// The resource types of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// CDS
    Cluster,
    /// EDS
    Assignment,
    /// LDS
    Listener,
    /// RDS
    Routes,
    /// SDS
    Secret,
}

impl Kind {
    /// Every type, in the order in which they are asked for: what others refer to comes first.
    pub const ALL: [Self; 5] = [
        Self::Cluster,
        Self::Assignment,
        Self::Listener,
        Self::Routes,
        Self::Secret,
    ];

    /// The type URL on the wire.
    pub fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Assignment => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Routes => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        }
    }

    /// The type with this URL.
    pub fn of_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }
}

/// A resource that can't be honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The resource.
    pub name: String,
    /// The field and what is wrong with it.
    pub reason: String,
}
