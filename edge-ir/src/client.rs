//! How clients are treated: by a socket, by a connection, and by HTTP on it.
//!
//! The default of each part is what is served where nobody asks for anything else; only what differs is written.

use crate::{Http2Settings, TcpKeepalive, TextMatcher, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What holds for all connections of a socket, whichever chain they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SocketSettings {
    /// Bytes that a connection may buffer. Unset: 32768.
    #[serde(skip_serializing_if = "is_default")]
    pub buffer_limit: Option<u32>,
    /// Bytes that the system holds for a connection, in each direction. Unset: as it likes.
    #[serde(skip_serializing_if = "is_default")]
    pub system_buffer: Option<u32>,
    /// How many connections are accepted at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub accepts: Accepts,
    /// Keepalive probes of TCP. Unset: none.
    #[serde(skip_serializing_if = "is_default")]
    pub keepalive: Option<TcpKeepalive>,
    /// The header in front of a connection that says whose it is.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_header: ProxyHeader,
    /// Limit for finding out what a connection is. Unset: 15 s.
    #[serde(skip_serializing_if = "is_default")]
    pub inspection_timeout: Option<Timeout>,
    /// Fingerprints that are taken of TLS clients, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<Fingerprint>,
}

impl SocketSettings {
    /// Whether nobody asks for anything.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }
}

/// How many connections a socket accepts before its worker looks at others again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Accepts {
    /// So many, > 0.
    UpTo(u32),
    /// All that wait.
    All,
}

impl Default for Accepts {
    fn default() -> Self {
        Self::UpTo(1)
    }
}

/// What is done with PROXY headers of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyHeader {
    /// None is looked for.
    #[default]
    Unread,
    /// A connection without one is taken as it is.
    Optional,
    /// A connection without one is closed.
    Required,
}

/// A fingerprint of a TLS client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fingerprint {
    /// Of the ClientHello as it comes.
    #[serde(rename = "JA3")]
    Ja3,
    /// Of the ClientHello, put in order.
    #[serde(rename = "JA4")]
    Ja4,
}

/// What holds for the connections of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionSettings {
    /// How many may be open at once.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: Option<ConnectionLimit>,
    /// Limit for the TLS handshake.
    #[serde(skip_serializing_if = "is_default")]
    pub handshake_timeout: Option<Timeout>,
    /// How long a stream of bytes may be silent. Unset: 1 h.
    #[serde(skip_serializing_if = "is_default")]
    pub idle_timeout: Option<Timeout>,
}

impl ConnectionSettings {
    /// Whether nobody asks for anything.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }
}

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionLimit {
    /// So many.
    pub connections: u64,
    /// Wait before another one is closed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay: Option<Timeout>,
}

/// What clients may do over HTTP on a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientSettings {
    /// Where the address of the client is found.
    #[serde(skip_serializing_if = "is_default")]
    pub address: ClientAddress,
    /// What becomes of escaped slashes in paths.
    #[serde(skip_serializing_if = "is_default")]
    pub escaped_slashes: EscapedSlashes,
    /// What becomes of `//` in paths.
    #[serde(skip_serializing_if = "is_default")]
    pub slashes: Slashes,
    /// The scheme that backends are told.
    #[serde(skip_serializing_if = "is_default")]
    pub scheme: Scheme,
    /// Headers.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: ClientHeaders,
    /// Limits of time and number.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: ClientLimits,
    /// HTTP/1.
    #[serde(skip_serializing_if = "is_default")]
    pub http1: Http1Settings,
    /// HTTP/2. Streams at a time, unset: 100.
    #[serde(skip_serializing_if = "is_default")]
    pub http2: Http2Settings,
}

impl ClientSettings {
    /// Whether nobody asks for anything.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }
}

/// Where the address of a client is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientAddress {
    /// It is the other end of the connection.
    #[default]
    Connection,
    /// In X-Forwarded-For, behind as many proxies as are in front of us, > 0.
    Hops {
        /// Their number.
        proxies: u32,
        /// Whether the other end of the connection is added to the header.
        append: AppendsPeer,
    },
    /// In X-Forwarded-For, where the last address isn't one of these networks.
    Networks {
        /// Networks of proxies in front of us, as `address/bits`.
        trusted: Vec<Arc<str>>,
        /// Whether the other end of the connection is added to the header.
        append: AppendsPeer,
    },
    /// In a header of this name.
    Header {
        /// Its name.
        name: Arc<str>,
        /// What becomes of a request without it.
        missing: MissingAddress,
    },
}

/// Whether the other end of a connection is added to X-Forwarded-For.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppendsPeer {
    /// It is.
    Yes,
    /// The header stays as it is.
    No,
}

/// What becomes of a request that doesn't say whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MissingAddress {
    /// It is taken for one of the other end of the connection.
    Taken,
    /// It is refused with 403.
    Refused,
}

/// What becomes of escaped slashes (`%2F`, `%5C`) in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EscapedSlashes {
    /// They are unescaped, and the client is sent there.
    #[default]
    Redirected,
    /// They are unescaped.
    Unescaped,
    /// They stay.
    Kept,
    /// The request is refused with 400.
    Refused,
}

/// What becomes of `//` in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slashes {
    /// It is read as `/`.
    #[default]
    Merged,
    /// It stays.
    Kept,
}

/// The scheme that backends are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// That of the client.
    #[default]
    Client,
    /// That of the connection to the backend.
    Backend,
}

/// What becomes of headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientHeaders {
    /// Kibibytes that the headers of a request may have. Unset: 60.
    #[serde(skip_serializing_if = "is_default")]
    pub max_request_kib: Option<u32>,
    /// Names with underscores.
    #[serde(skip_serializing_if = "is_default")]
    pub underscores: Underscores,
    /// X-Request-Id.
    #[serde(skip_serializing_if = "is_default")]
    pub request_id: RequestId,
    /// Headers of the proxy's own.
    #[serde(skip_serializing_if = "is_default")]
    pub own: OwnHeaders,
    /// X-Forwarded-Client-Cert.
    #[serde(skip_serializing_if = "is_default")]
    pub client_certificate: ForwardedCertificate,
    /// A dot at the end of Host.
    #[serde(skip_serializing_if = "is_default")]
    pub trailing_host_dot: TrailingDot,
    /// Edits to requests before they are routed, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub early_request: Vec<HeaderMutation>,
}

/// What becomes of headers with an underscore in their name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Underscores {
    /// The request is refused with 400.
    #[default]
    Refused,
    /// The header is dropped.
    Dropped,
    /// It passes.
    Allowed,
}

/// Where X-Request-Id comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestId {
    /// From the proxy; what a client sends is replaced.
    #[default]
    Generated,
    /// From the client, else from the proxy.
    KeptOrGenerated,
    /// From the client alone.
    Kept,
    /// The proxy doesn't make any.
    Disabled,
}

/// Headers by which the proxy tells of itself (`x-edge-…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OwnHeaders {
    /// They are added.
    #[default]
    Added,
    /// They are not.
    Suppressed,
}

/// What becomes of a dot at the end of Host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrailingDot {
    /// It stays.
    #[default]
    Kept,
    /// It is taken off before the request is routed.
    Stripped,
}

/// What backends are told of the certificate of a client, in X-Forwarded-Client-Cert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardedCertificate {
    /// What becomes of the header.
    pub mode: ForwardedCertificateMode,
    /// What of the certificate is put into it, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<CertificateDetail>,
}

/// What becomes of X-Forwarded-Client-Cert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ForwardedCertificateMode {
    /// It is removed.
    #[default]
    Removed,
    /// It passes where the client has a certificate.
    Forwarded,
    /// The same, and the client's certificate is added.
    Appended,
    /// The client's certificate alone stands there.
    Replaced,
    /// It passes, whoever sends it.
    AlwaysForwarded,
}

/// What is told of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CertificateDetail {
    /// Its subject.
    Subject,
    /// All of it, PEM.
    Certificate,
    /// All of its chain, PEM.
    Chain,
    /// Its DNS names.
    Dns,
    /// Its URIs.
    Uri,
}

/// An edit to the headers of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderMutation {
    /// The header has this value.
    Set {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// The header has this value besides others.
    Add {
        /// Its name.
        name: Arc<str>,
        /// The value.
        value: Arc<str>,
    },
    /// The header has this value where it would be missing.
    AddIfAbsent {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// The header goes.
    Remove(Arc<str>),
    /// Headers with such a name go.
    RemoveMatching(TextMatcher),
}

/// Limits of time and number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientLimits {
    /// Until a whole request has come.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Option<Timeout>,
    /// Until the headers of a request have come.
    #[serde(skip_serializing_if = "is_default")]
    pub request_headers: Option<Timeout>,
    /// How long a connection may be idle. Unset: 1 h.
    #[serde(skip_serializing_if = "is_default")]
    pub idle: Option<Timeout>,
    /// How long a stream may be silent. Unset: 5 min.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_idle: Option<Timeout>,
    /// Age at which a connection drains.
    #[serde(skip_serializing_if = "is_default")]
    pub connection: Option<Timeout>,
    /// Age at which a stream ends.
    #[serde(skip_serializing_if = "is_default")]
    pub stream: Option<Timeout>,
    /// Requests of one connection.
    #[serde(skip_serializing_if = "is_default")]
    pub requests_per_connection: Option<u32>,
}

/// HTTP/1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Http1Settings {
    /// Trailers.
    #[serde(skip_serializing_if = "is_default")]
    pub trailers: Trailers,
    /// The case of header names.
    #[serde(skip_serializing_if = "is_default")]
    pub header_case: HeaderCase,
    /// Requests of HTTP/1.0.
    #[serde(skip_serializing_if = "is_default")]
    pub http10: Http10,
    /// How a connection that is too old ends.
    #[serde(skip_serializing_if = "is_default")]
    pub aged: AgedConnection,
    /// Upgrades that are ignored, where they would be refused with 403.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_upgrades: Vec<TextMatcher>,
}

/// What becomes of trailers in HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trailers {
    /// They are dropped.
    #[default]
    Dropped,
    /// They pass.
    Passed,
}

/// The case of header names in HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderCase {
    /// All of them are written small.
    #[default]
    Lower,
    /// As they came.
    Kept,
}

/// What becomes of requests of HTTP/1.0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Http10 {
    /// They are refused.
    #[default]
    Refused,
    /// They are taken; without Host they are refused.
    Taken,
    /// They are taken; without Host, for this one.
    TakenFor(Arc<str>),
}

/// How a connection of HTTP/1 that is too old ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AgedConnection {
    /// With its next response, so that no request is lost.
    #[default]
    AfterResponse,
    /// Once its drain time is over.
    Soon,
}
