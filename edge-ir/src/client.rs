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
    /// Bytes that a connection may buffer. Unset: [`USUAL_BUFFER`](Self::USUAL_BUFFER).
    #[serde(skip_serializing_if = "is_default")]
    pub buffer_limit: Option<u32>,
    /// Bytes that the system holds for a connection, in each direction. Unset: as it likes.
    #[serde(skip_serializing_if = "is_default")]
    pub system_buffer: Option<u32>,
    /// How many connections are accepted before the worker looks at other sockets again.
    #[serde(skip_serializing_if = "is_default")]
    pub accepts: Accepts,
    /// Keepalive probes of TCP. Unset: none.
    #[serde(skip_serializing_if = "is_default")]
    pub keepalive: Option<TcpKeepalive>,
    /// Whether connections begin with a header of the PROXY protocol, which says whose they are.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_header: ProxyHeader,
    /// Limit for finding out what a connection is. Unset: [`USUAL_INSPECTION`](Self::USUAL_INSPECTION).
    #[serde(skip_serializing_if = "is_default")]
    pub inspection_timeout: Option<Timeout>,
    /// Fingerprints that are taken of TLS clients, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<Fingerprint>,
}

impl SocketSettings {
    /// Bytes that a connection may buffer where nobody says anything.
    pub const USUAL_BUFFER: u32 = 32_768;
    /// How long finding out what a connection is may take then.
    pub const USUAL_INSPECTION: Timeout = Timeout(15_000);

    /// Whether nobody asks for anything.
    pub fn is_default(&self) -> bool {
        is_default(self)
    }
}

/// How many connections a socket accepts before its worker looks at others again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Accepts {
    /// At most this many, > 0.
    UpTo(u32),
    /// All connections that wait.
    All,
}

impl Default for Accepts {
    fn default() -> Self {
        Self::UpTo(1)
    }
}

/// Whether connections begin with a header of the PROXY protocol (versions 1 and 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyHeader {
    /// No header is looked for: one that comes is taken for content.
    #[default]
    Unread,
    /// A header is read where there is one; a connection without is taken as it is.
    Optional,
    /// A header is read; a connection without is closed.
    Required,
}

/// A fingerprint of a TLS client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fingerprint {
    /// JA3, of the ClientHello as it comes.
    #[serde(rename = "JA3")]
    Ja3,
    /// JA4, of the ClientHello with its lists put in order.
    #[serde(rename = "JA4")]
    Ja4,
}

/// What holds for the connections of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionSettings {
    /// How many connections may be open at once. Unset: as many as come.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: Option<ConnectionLimit>,
    /// Time for the TLS handshake; then the connection is closed. Unset: as long as it takes.
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
    /// The most connections that are open at a time.
    pub connections: u64,
    /// How long a connection above the limit stays open before it is closed. Unset: not at all.
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
    /// How headers of requests are treated.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: ClientHeaders,
    /// How long requests and connections may take, and how many requests a connection may carry.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: ClientLimits,
    /// Settings of HTTP/1.
    #[serde(skip_serializing_if = "is_default")]
    pub http1: Http1Settings,
    /// Settings of HTTP/2. Streams at a time, unset: 100.
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
    /// The client is the other end of the connection.
    #[default]
    Connection,
    /// X-Forwarded-For names it, that many addresses from the end as there are proxies in front of us.
    Hops {
        /// The number of proxies in front of us, > 0.
        proxies: u32,
        /// Whether the other end of the connection is added to the header.
        append: AppendsPeer,
    },
    /// X-Forwarded-For names it: the last address that isn't in one of these networks.
    Networks {
        /// Networks of proxies in front of us, as `address/bits`.
        trusted: Vec<Arc<str>>,
        /// Whether the other end of the connection is added to the header.
        append: AppendsPeer,
    },
    /// A header of the request names it.
    Header {
        /// The header's name.
        name: Arc<str>,
        /// What becomes of a request without that header, or without an address in it.
        missing: MissingAddress,
    },
}

/// Whether the other end of a connection is added to X-Forwarded-For.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppendsPeer {
    /// The address is added.
    Yes,
    /// The header stays as it is.
    No,
}

/// What becomes of a request without the header that names its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MissingAddress {
    /// The client is the other end of the connection.
    Taken,
    /// The request is refused with 403.
    Refused,
}

/// What becomes of escaped slashes (`%2F`, `%5C`) in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EscapedSlashes {
    /// Escaped slashes are unescaped, and the client is redirected to the path that this gives.
    #[default]
    Redirected,
    /// Escaped slashes are unescaped.
    Unescaped,
    /// Escaped slashes stay.
    Kept,
    /// The request is refused with 400.
    Refused,
}

/// What becomes of `//` in paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slashes {
    /// Several slashes behind each other are read as one.
    #[default]
    Merged,
    /// They stay as they came.
    Kept,
}

/// The scheme that backends are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// The scheme of the client's request.
    #[default]
    Client,
    /// The scheme of the connection to the backend: `https` with TLS.
    Backend,
}

/// How headers of requests are treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientHeaders {
    /// Kibibytes that the headers of a request may have. Unset: 60.
    #[serde(skip_serializing_if = "is_default")]
    pub max_request_kib: Option<u32>,
    /// What becomes of headers with an underscore in their name.
    #[serde(skip_serializing_if = "is_default")]
    pub underscores: Underscores,
    /// Where X-Request-Id comes from.
    #[serde(skip_serializing_if = "is_default")]
    pub request_id: RequestId,
    /// Whether headers by which the proxy tells of itself (`x-edge-…`) are added.
    #[serde(skip_serializing_if = "is_default")]
    pub own: OwnHeaders,
    /// What backends are told of the client's certificate, in X-Forwarded-Client-Cert.
    #[serde(skip_serializing_if = "is_default")]
    pub client_certificate: ForwardedCertificate,
    /// What becomes of a dot at the end of Host.
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
    /// The header passes.
    Allowed,
}

/// Where X-Request-Id comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestId {
    /// The proxy makes one; what a client sends is replaced.
    #[default]
    Generated,
    /// What a client sends is kept; the proxy makes one where there is none.
    KeptOrGenerated,
    /// What a client sends is kept where the proxy would replace it; the proxy makes none.
    Kept,
    /// The proxy makes none.
    Disabled,
}

/// Headers by which the proxy tells of itself (`x-edge-…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OwnHeaders {
    /// They are added to requests and responses.
    #[default]
    Added,
    /// None is added.
    Suppressed,
}

/// What becomes of a dot at the end of Host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TrailingDot {
    /// The dot stays.
    #[default]
    Kept,
    /// The dot is taken off before the request is routed.
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
    /// The header is removed.
    #[default]
    Removed,
    /// The header passes where the client has a certificate, and is removed elsewhere.
    Forwarded,
    /// The same, and the client's certificate is added to it.
    Appended,
    /// The header tells of the client's certificate alone.
    Replaced,
    /// The header passes, whoever sends it.
    AlwaysForwarded,
}

/// What X-Forwarded-Client-Cert tells of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CertificateDetail {
    /// The certificate's subject (`Subject`).
    Subject,
    /// The certificate itself, as PEM (`Cert`).
    Certificate,
    /// The certificate with its chain, as PEM (`Chain`).
    Chain,
    /// The DNS names of the certificate (`DNS`).
    Dns,
    /// The URIs of the certificate (`URI`).
    Uri,
}

/// An edit to the headers of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderMutation {
    /// The header gets this value, in place of those it has.
    Set {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// The header gets this value besides those it has.
    Add {
        /// Its name.
        name: Arc<str>,
        /// The value.
        value: Arc<str>,
    },
    /// The header gets this value where there is no such header.
    AddIfAbsent {
        /// Its name.
        name: Arc<str>,
        /// Its value.
        value: Arc<str>,
    },
    /// The header of this name is removed.
    Remove(Arc<str>),
    /// All headers are removed whose name matches.
    RemoveMatching(TextMatcher),
}

/// How long requests and connections may take, and how many requests a connection may carry. Unset: without limit,
/// where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientLimits {
    /// Time in which a whole request must have come; then it is answered 408.
    #[serde(skip_serializing_if = "is_default")]
    pub request: Option<Timeout>,
    /// Time in which the head of a request must have come; then it is answered 408.
    #[serde(skip_serializing_if = "is_default")]
    pub request_headers: Option<Timeout>,
    /// How long a connection may be without requests before it is closed. Unset: 1 h.
    #[serde(skip_serializing_if = "is_default")]
    pub idle: Option<Timeout>,
    /// How long nothing may move in a request or its response before it is ended. Unset: 5 min.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_idle: Option<Timeout>,
    /// Age at which a connection is drained and closed.
    #[serde(skip_serializing_if = "is_default")]
    pub connection: Option<Timeout>,
    /// Age at which a request is ended, whatever it does.
    #[serde(skip_serializing_if = "is_default")]
    pub stream: Option<Timeout>,
    /// How many requests one connection may carry before it is closed.
    #[serde(skip_serializing_if = "is_default")]
    pub requests_per_connection: Option<u32>,
}

/// Settings of HTTP/1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Http1Settings {
    /// What becomes of trailers.
    #[serde(skip_serializing_if = "is_default")]
    pub trailers: Trailers,
    /// In which case header names are written.
    #[serde(skip_serializing_if = "is_default")]
    pub header_case: HeaderCase,
    /// What becomes of requests of HTTP/1.0.
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
    /// Trailers are dropped.
    #[default]
    Dropped,
    /// Trailers pass.
    Passed,
}

/// The case of header names in HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeaderCase {
    /// Header names are written in lower case.
    #[default]
    Lower,
    /// Header names are written as they came.
    Kept,
}

/// What becomes of requests of HTTP/1.0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Http10 {
    /// Requests of HTTP/1.0 are refused.
    #[default]
    Refused,
    /// Requests of HTTP/1.0 are served; those without Host are refused.
    Taken,
    /// Requests of HTTP/1.0 are served; those without Host are taken for this host.
    TakenFor(Arc<str>),
}

/// How a connection of HTTP/1 that is too old ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AgedConnection {
    /// It ends with its next response, so that no request is lost.
    #[default]
    AfterResponse,
    /// It ends once its drain time is over, with what is under way.
    Soon,
}
