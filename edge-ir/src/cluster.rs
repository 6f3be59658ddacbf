//! Clusters and their endpoints.

use crate::{
    ClusterName, CustomObjects, EndpointSetName, LoadBalancing, NamedHosts, Origins, SecretSource, TlsVersion,
    UpstreamSettings,
};
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, sync::Arc};

/// A backend as the proxy sees it: how to speak to it and how to choose among its endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Named for the backend, never for the route that uses it.
    pub name: ClusterName,
    /// Where its endpoints come from.
    pub discovery: Discovery,
    /// Protocol spoken to the backend.
    pub protocol: AppProtocol,
    /// TLS towards the backend; none is spoken to in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<UpstreamTls>>,
    /// How endpoints that name one of these are spoken to. What [`Self::tls`] says is for those that name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<EndpointSocket>,
    /// How endpoints are chosen.
    pub load_balancing: LoadBalancing,
    /// What policies ask of the connections to it; shared by all clusters of whom the same is asked.
    #[serde(default, skip_serializing_if = "UpstreamSettings::is_usual")]
    pub upstream: Arc<UpstreamSettings>,
    /// What zones mean for the choice of an endpoint.
    #[serde(default, skip_serializing_if = "ZoneRouting::is_unheeded")]
    pub zones: ZoneRouting,
    /// The name under which it is counted, which several may share; its own where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stat_name: Option<Arc<str>>,
    /// What is counted besides the usual.
    #[serde(default, skip_serializing_if = "ClusterStats::is_default")]
    pub stats: ClusterStats,
    /// Objects that only extension services know and that stand for the backend: these services say where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Arc<CustomObjects>>,
    /// The backend object.
    pub origins: Origins,
}

/// How some of the endpoints of a cluster are spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSocket {
    /// What the [`Locality`] of the endpoints names.
    pub name: Arc<str>,
    /// TLS towards them; none is spoken to in clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<UpstreamTls>,
}

/// What is counted of a cluster besides the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStats {
    /// Each endpoint by itself.
    pub endpoints: bool,
    /// Sizes of requests and responses.
    pub sizes: bool,
}

impl ClusterStats {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How TLS is spoken to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamTls {
    /// Whose name is asked for and looked for in the certificate.
    #[serde(default, skip_serializing_if = "ServerNaming::is_fixed")]
    pub naming: ServerNaming,
    /// Server name asked for (SNI, RFC 6066 §3); empty unless it is fixed.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub server_name: Arc<str>,
    /// The authorities of which one must have signed; none takes any certificate, which somebody asked for in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<SecretSource>,
    /// Names of which one must be in the certificate; empty where the naming gives the one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<SubjectName>,
    /// The certificate shown to a backend that asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<SecretSource>,
    /// Application protocols offered (ALPN, RFC 7301), best first; none leaves it to who speaks inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<Arc<str>>,
    /// What requests are sent in where none is named.
    #[serde(default, skip_serializing_if = "Inside::is_of_cluster")]
    pub inside: Inside,
    /// What may be agreed on.
    #[serde(default, skip_serializing_if = "TlsParameters::is_default")]
    pub parameters: TlsParameters,
}

impl UpstreamTls {
    /// Whether a backend is told that HTTP/2 would do.
    pub fn offers_http2(&self) -> bool {
        self.inside == Inside::Agreed || self.alpn.iter().any(|protocol| &**protocol == "h2")
    }
}

/// What is spoken inside TLS where no application protocol is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inside {
    /// What the cluster says: that is what is offered for requests.
    #[default]
    OfCluster,
    /// HTTP/2 or HTTP/1.1, as the server chooses: both are offered for requests, and nothing for streams, which have no
    /// protocol of their own.
    Agreed,
}

impl Inside {
    fn is_of_cluster(&self) -> bool {
        *self == Self::OfCluster
    }
}

/// Whose name a server is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServerNaming {
    /// One name for all endpoints.
    #[default]
    Fixed,
    /// The host of the request, as the backend sees it.
    OfRequest,
    /// The host name of the endpoint that was chosen.
    OfEndpoint,
}

impl ServerNaming {
    fn is_fixed(&self) -> bool {
        *self == Self::Fixed
    }
}

/// What may be agreed on in a handshake. What is empty is left to the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsParameters {
    /// Lowest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<TlsVersion>,
    /// Highest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_version: Option<TlsVersion>,
    /// Cipher suites up to TLS 1.2, by their names in OpenSSL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<Arc<str>>,
    /// Groups of the key exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Arc<str>>,
    /// Signature algorithms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_algorithms: Vec<Arc<str>>,
}

impl TlsParameters {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A name in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectName {
    /// A host name; a wildcard in the certificate matches it.
    Dns(Arc<str>),
    /// A URI, equal to the letter.
    Uri(Arc<str>),
    /// An address.
    Ip(IpAddr),
}

/// Where endpoints come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Discovery {
    /// From an [`EndpointSet`] that changes on its own.
    Endpoints(EndpointSetName),
    /// By resolving the host names in these localities.
    Dns(Vec<Locality>),
    /// By resolving the host of each request.
    OfRequest(NamedHosts),
    /// They are where these localities say.
    Fixed(Vec<Locality>),
}

/// Protocol spoken to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// What zones mean for the choice of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ZoneRouting {
    /// Endpoints of all zones are equally near.
    #[default]
    Unheeded,
    /// Each zone gets the share that its weight says, however endpoints are chosen within.
    Weighted,
    /// The zone of the proxy comes first.
    PreferLocal(ZonePreference),
}

/// How far endpoints in the zone of the proxy come first. They get as many requests as they would if every zone sent
/// its own to itself: a zone with few endpoints and many proxies leaves the rest to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZonePreference {
    /// With fewer endpoints than that in all zones together, all of them are equally near.
    pub min_endpoints: u64,
    /// Share of requests that zones matter for, in per cent; all of them where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
    /// With so many endpoints the zone of the proxy gets all requests, whatever share would be its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<u32>,
}

impl ZoneRouting {
    fn is_unheeded(&self) -> bool {
        *self == Self::Unheeded
    }
}

/// The endpoints of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSet {
    /// `<kind>/<namespace>/<name>/<port>`, with `~` and a hash behind it where a cluster needs more than addresses.
    pub name: EndpointSetName,
    /// Groups of endpoints; empty when the backend has none, which answers 503.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub localities: Vec<Locality>,
    /// The backend object.
    pub origins: Origins,
}

/// Endpoints that share a place and a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Locality {
    /// The backend's key, unless a setting says otherwise; nothing where the zone is compared with that of the proxy,
    /// whose region nobody knows.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub region: Arc<str>,
    /// Zone; set only where it matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
    /// 0 is used first; others are fall-backs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u32,
    /// Weight among the localities of a priority.
    pub weight: u32,
    /// Which of the cluster's [`EndpointSocket`]s they are spoken to by; none by what holds for the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<Arc<str>>,
    /// Port that probes ask; where the endpoints serve by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_port: Option<u16>,
    /// Sorted by address.
    pub endpoints: Vec<Endpoint>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// One address that serves a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Where it listens.
    pub address: EndpointAddress,
    /// Its own name, for server names and rewritten hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Whether it takes new requests.
    #[serde(default)]
    pub health: EndpointHealth,
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointAddress {
    /// An IP address and TCP port.
    Socket {
        /// IPv4 or IPv6.
        ip: IpAddr,
        /// Port.
        port: u16,
    },
    /// A name to be resolved, and a TCP port.
    Name {
        /// Fully qualified domain name.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// A Unix domain socket.
    Pipe {
        /// Absolute path.
        path: Arc<str>,
    },
}

/// Whether an endpoint takes new requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointHealth {
    /// It does.
    #[default]
    Serving,
    /// It finishes what it has: terminating, or not serving.
    Draining,
}
