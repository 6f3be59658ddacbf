//! Sockets, filter chains, and the settings of the connections they accept.

use crate::{
    AccessRules, ClientSettings, ClusterName, ConnectionSettings, FilterInstance, GuardSet, ListenerName, NamedHosts,
    Origins, RouteTableName, SecretName, SecretSource, SocketSettings, TextMatcher,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// `tcp-<port>`, `udp-<port>` or `udp-<port>-quic`; made from the external port, so that neither the order nor the
    /// number of Gateway listeners renames a socket and drains its connections.
    pub name: ListenerName,
    /// Port the proxy binds.
    pub port: u16,
    /// Port that clients connect to (the Service's port).
    pub external_port: u16,
    /// Address family to bind.
    pub ip_family: IpFamily,
    /// What holds for all of its connections.
    #[serde(default, skip_serializing_if = "SocketSettings::is_default")]
    pub socket: SocketSettings,
    /// What its chains are carried by.
    #[serde(default, skip_serializing_if = "Carrier::is_tcp")]
    pub carrier: Carrier,
    /// Whether it is looked at how TLS begins: what server a client asks for.
    #[serde(default, skip_serializing_if = "Hello::is_unread")]
    pub hello: Hello,
    /// What takes datagrams, when this is a UDP socket; such a socket has no chains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<StreamProxy>,
    /// Chains chosen by server name, sorted by their first name. All of them terminate or inspect TLS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<FilterChain>,
    /// The chain for connections that no entry of `chains` matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_chain: Option<FilterChain>,
    /// The Gateway listeners behind this socket.
    pub origins: Origins,
}

/// Whether it is looked at how connections of TLS begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hello {
    /// It isn't: nothing is said of TLS.
    #[default]
    Unread,
    /// It is. The chains by server name need it, and so do logs that tell the name.
    Read,
}

impl Hello {
    fn is_unread(&self) -> bool {
        *self == Self::Unread
    }
}

/// What carries the connections of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Carrier {
    /// TCP.
    #[default]
    Tcp,
    /// QUIC (RFC 9000), in datagrams. All chains terminate TLS, and speak HTTP/3 inside.
    Quic,
}

impl Carrier {
    fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

/// What happens to a connection once it is accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterChain {
    /// `<namespace>/<gateway>/<listener>`; where routes share a listener by server name, with the route behind.
    pub name: Arc<str>,
    /// Server names (SNI) this chain is for.
    pub server_names: ServerNames,
    /// Terminates TLS when set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<DownstreamTls>,
    /// What holds for its connections.
    #[serde(default, skip_serializing_if = "ConnectionSettings::is_default")]
    pub connections: ConnectionSettings,
    /// What is spoken inside.
    pub network: Network,
    /// The Gateway listener behind this chain.
    pub origins: Origins,
}

/// Which TLS server names a chain answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServerNames {
    /// Every connection that no other chain is for.
    #[default]
    Any,
    /// These names; `*.` in front stands for any number of labels.
    Only(Vec<Arc<str>>),
}

/// The protocol inside a connection. TLS that is passed through is bytes as they come, in a chain with server names and
/// without [`FilterChain::tls`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// HTTP/1.1 and HTTP/2, routed by a table.
    Http(HttpManager),
    /// Bytes as they come, to a backend picked for each connection.
    Tcp(StreamProxy),
}

/// Where connections or datagrams go as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamProxy {
    /// Prefix of the statistics: `tcp-<port>`, `tls-passthrough-<port>`, `tls-terminate-<port>`, or `service` for UDP.
    pub stat_prefix: Arc<str>,
    /// Who may connect; everybody where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Arc<AccessRules>>,
    /// Backends by weight. Nobody: connections are closed, datagrams dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<StreamShare>,
    /// Weight of the backends that could not be resolved: that share is closed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalid_weight: u32,
    /// Whether the address of a client is what is hashed, where a backend's endpoints are chosen by hash. Without it
    /// the choice is random.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hashes_source: bool,
    /// Where set, its one backend is whoever the client asks for by server name. Who asks for nobody is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_at: Option<NamedAt>,
    /// The route object; none while no route is attached.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub origins: Origins,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Where those are whom clients ask for by server name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedAt {
    /// The port.
    pub port: u16,
    /// Who may be asked for.
    pub hosts: NamedHosts,
}

/// One weighted backend of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamShare {
    /// The backend's cluster.
    pub cluster: ClusterName,
    /// Its weight, > 0.
    pub weight: u32,
}

/// How HTTP is handled on a chain. What stands here deviates from, or must be told to, the lowering's defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpManager {
    /// Prefix of the statistics: `http-<port>` or `https-<port>`.
    pub stat_prefix: Arc<str>,
    /// The table that routes its requests.
    pub route_table: RouteTableName,
    /// Which of `filters` are guards: those that the table is for.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub guards: GuardSet,
    /// Filters that a route of the table needs, each neutral to what others carry, in the order in which a request
    /// meets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterInstance>,
    /// What clients may do.
    #[serde(default, skip_serializing_if = "ClientSettings::is_default")]
    pub client: Arc<ClientSettings>,
}

/// How TLS is terminated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownstreamTls {
    /// Server certificates, in the order of the Gateway's references; the handshake picks by key type and name.
    pub certificates: Vec<SecretSource>,
    /// Lowest version offered.
    pub min_version: TlsVersion,
    /// Highest version offered.
    pub max_version: TlsVersion,
    /// Application protocols offered (ALPN, RFC 7301), best first.
    pub alpn: Vec<Arc<str>>,
    /// Cipher suites up to TLS 1.2, by their names in OpenSSL; the proxy's own where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<Arc<str>>,
    /// Groups of the key exchange; the proxy's own where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Arc<str>>,
    /// Signature algorithms; the proxy's own where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signature_algorithms: Vec<Arc<str>>,
    /// How sessions are resumed.
    #[serde(default, skip_serializing_if = "Resumption::is_off")]
    pub resumption: Resumption,
    /// What is asked of clients about themselves; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Arc<ClientValidation>>,
}

/// How TLS sessions are resumed. A resumed session skips the choice of chain and certificate that the server name asks
/// for, so by default none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resumption {
    /// By tickets, which clients keep (RFC 5077).
    pub tickets: bool,
    /// By session ids, whose state the proxy keeps.
    pub sessions: bool,
}

impl Resumption {
    fn is_off(&self) -> bool {
        *self == Self::default()
    }
}

/// What clients must show of themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientValidation {
    /// Who is trusted to vouch for them, and what was revoked; nobody where nothing is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<SecretName>,
    /// What is done with their certificates.
    pub certificates: ClientCertificates,
    /// SHA-256 of public keys in base64; one must be that of the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_hashes: Vec<Arc<str>>,
    /// SHA-256 of certificates in hexadecimal digits; one must be that of the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificate_hashes: Vec<Arc<str>>,
    /// Names, one of which the certificate must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<CertificateName>,
    /// Whether revocation is asked of the certificate alone, and not of those that signed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revokes_leaf_alone: bool,
    /// Whether a certificate may be out of date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_expired: bool,
}

/// A name that a certificate must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateName {
    /// What kind of name.
    pub kind: CertificateNameKind,
    /// What it must be.
    pub value: TextMatcher,
}

/// Kinds of names in certificates (RFC 5280 §4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CertificateNameKind {
    /// A host.
    Dns,
    /// A mailbox.
    Email,
    /// An address.
    Ip,
    /// A URI.
    Uri,
    /// Another, by its object identifier.
    Other(Arc<str>),
}

/// What is done with the certificates of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientCertificates {
    /// A client needs one from an authority that is trusted; without, it can't connect.
    Verified,
    /// Clients are asked for one. Who has none connects all the same, who has one that isn't trusted does not.
    VerifiedIfGiven,
    /// A client needs one, from whomever.
    Required,
    /// Clients are asked for one. Who has none, or one that isn't trusted, connects all the same.
    Requested,
}

/// A TLS protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.0, RFC 2246.
    #[serde(rename = "1.0")]
    V1_0,
    /// TLS 1.1, RFC 4346.
    #[serde(rename = "1.1")]
    V1_1,
    /// TLS 1.2, RFC 5246.
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3, RFC 8446.
    #[serde(rename = "1.3")]
    V1_3,
}

/// Address family of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IpFamily {
    /// Bind `0.0.0.0`.
    #[default]
    #[serde(rename = "IPv4")]
    V4,
    /// Bind `::`, IPv6 only.
    #[serde(rename = "IPv6")]
    V6,
    /// Bind `::` and take IPv4 on the same socket.
    DualStack,
}
