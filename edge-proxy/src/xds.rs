//! Configuration as it comes.
//!
//! [`delta`] speaks the delta xDS protocol, [`assembly`] turns resources into snapshots; both are pure state
//! machines. `discovery` is the thin shell that moves their bytes.
//! The order is make-before-break on this side too: a cluster is used once its endpoints are there, a listener once
//! its routes and secrets are, and until then the version before stays.

pub mod assembly;
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
///
/// In the `error_detail` of a NACK each line is about one place in one resource:
///
/// ```text
/// <resource>: [virtual host "<name>": ][route "<name>": ]<field>: <reason>
/// ```
///
/// for instance `http-80: virtual host "shop": route "httproute/shop/www/rule/0": match.path_separated_prefix: must
/// begin with "/": "shop"`. Names of virtual hosts and routes are written with `\"`, `\\` and `\n` for what would end
/// them early; resources have no `: ` in their names. The field is that of the innermost part that is named. A virtual
/// host or route without a name is found by its place in the field (`virtual_hosts[0].routes[2].match`). Of a
/// resource 20 places are told, and then `<resource>: and <n> more`. A reason is never more than its line.
///
/// Resources of the response that no line begins with were taken. Those that one begins with stay in the version
/// before, if there is one; the proxy takes a good version of them at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The resource.
    pub name: String,
    /// The places and what is wrong there, one a line.
    pub reason: String,
}

impl Rejected {
    /// The lines of a NACK about this resource.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let reasons = self.reason.lines();
        reasons.map(|reason| format!("{}: {reason}", self.name))
    }
}
