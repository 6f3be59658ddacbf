//! ClientTrafficPolicy: how listeners treat clients.
//!
//! The object is kept as it was written, as a SecurityPolicy is: it may validate clients, and what can't be read must
//! not let them in. These types know every field, and one that they don't know is a fault.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::client_headers::HeaderSettings;
use crate::api::client_tls::ClientTlsSettings;
use crate::api::cluster_settings::{Http2Settings, TcpKeepalive};
use crate::api::string_match::StringMatch;
use crate::api::text::{DurationText, Quantity, is_default, open_enum};

/// What a ClientTrafficPolicy says, besides what it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTrafficPolicySpec {
    /// TCP keepalive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp_keepalive: Option<Box<TcpKeepalive>>,
    /// Older form of `proxyProtocol`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_proxy_protocol: Option<bool>,
    /// Takes connections that open with a PROXY header.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxy_protocol: Option<ClientProxyProtocol>,
    /// Where the address of a client is found.
    #[serde(rename = "clientIPDetection", default, skip_serializing_if = "is_default")]
    pub client_ip_detection: Option<Box<ClientIpDetection>>,
    /// TLS towards clients.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<Box<ClientTlsSettings>>,
    /// How paths are made plain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<PathSettings>,
    /// How headers are treated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Option<Box<HeaderSettings>>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeout: Option<Box<ClientTimeout>>,
    /// Limits and buffers of connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection: Option<Box<ClientConnection>>,
    /// HTTP/1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http1: Option<Box<Http1Settings>>,
    /// HTTP/2.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http2: Option<Box<Http2Settings>>,
    /// Offers HTTP/3 on HTTPS listeners.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http3: Option<Http3Settings>,
    /// gRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grpc: Option<GrpcSettings>,
    /// A path that the proxy answers itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health_check: Option<ProbeSettings>,
    /// The scheme that backends are told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheme: Option<SchemeHeaderTransform>,
}

/// The PROXY header of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientProxyProtocol {
    /// Takes connections without the header too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// Where the address of a client is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientIpDetection {
    /// In X-Forwarded-For.
    #[serde(default, skip_serializing_if = "is_default")]
    pub x_forwarded_for: Option<XForwardedFor>,
    /// In a header that only trusted senders set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub custom_header: Option<ClientIpHeader>,
    /// It is that of the connection.
    #[serde(rename = "directSourceIP", default, skip_serializing_if = "is_default")]
    pub direct_source_ip: Option<DirectSourceIp>,
}

/// The address of a client is that of the connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DirectSourceIp {}

/// HTTP/3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http3Settings {}

/// The address of a client is in X-Forwarded-For.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XForwardedFor {
    /// Trusted proxies in front.
    #[serde(default, skip_serializing_if = "is_default")]
    pub num_trusted_hops: Option<u32>,
    /// Networks of trusted proxies.
    #[serde(rename = "trustedCIDRs", default, skip_serializing_if = "is_default")]
    pub trusted_cidrs: Option<Box<[Text]>>,
    /// Does not append the address of the connection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_x_forwarded_for_append: bool,
}

/// The address of a client is in another header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientIpHeader {
    /// Its name.
    pub name: Text,
    /// Answers 403 where the header is missing or holds no address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_closed: bool,
}

/// How paths are made plain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathSettings {
    /// What becomes of `%2F` and the like.
    #[serde(default, skip_serializing_if = "is_default")]
    pub escaped_slashes_action: Option<PathEscapedSlashAction>,
    /// Leaves `//` as it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_merge_slashes: bool,
}

open_enum! {
    /// What becomes of escaped slashes.
    pub enum PathEscapedSlashAction {
        UnescapeAndRedirect = "UnescapeAndRedirect",
        UnescapeAndForward = "UnescapeAndForward",
        KeepUnchanged = "KeepUnchanged",
        RejectRequest = "RejectRequest",
    }
}

open_enum! {
    /// The scheme that backends are told.
    pub enum SchemeHeaderTransform {
        Preserve = "Preserve",
        MatchBackend = "MatchBackend",
    }
}

/// Time limits towards clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTimeout {
    /// Of connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: Option<ClientTcpTimeout>,
    /// Of requests.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: Option<ClientHttpTimeout>,
}

/// Time limits of connections of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTcpTimeout {
    /// Idle connection; 1 h when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_timeout: Option<DurationText>,
    /// TLS handshake.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls_handshake_timeout: Option<DurationText>,
    /// Finding out what a connection is; 15 s when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection_inspection_timeout: Option<DurationText>,
}

/// Time limits of requests of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientHttpTimeout {
    /// Until a whole request has come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_received_timeout: Option<DurationText>,
    /// Until its headers have come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request_headers_received_timeout: Option<DurationText>,
    /// Idle connection; 1 h when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle_timeout: Option<DurationText>,
    /// Silent stream; 5 min when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stream_idle_timeout: Option<DurationText>,
}

/// Limits and buffers of connections of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConnection {
    /// Limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection_limit: Option<Box<ClientConnectionLimit>>,
    /// Soft limit of buffers; 32 KiB when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub buffer_limit: Option<Quantity>,
    /// Limit of socket buffers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub socket_buffer_limit: Option<Quantity>,
    /// Connections accepted at a time; 1 when absent, all for 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_accept_per_socket_event: Option<u32>,
}

/// Limits of connections of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConnectionLimit {
    /// Open connections of a listener.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Option<i64>,
    /// Wait before one too many is closed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub close_delay: Option<DurationText>,
    /// Age at which one drains.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_connection_duration: Option<DurationText>,
    /// Requests of one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_requests_per_connection: Option<u32>,
    /// Age at which a stream ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_stream_duration: Option<DurationText>,
}

/// HTTP/1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http1Settings {
    /// Passes trailers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_trailers: bool,
    /// Keeps the case of header names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preserve_header_case: bool,
    /// Takes HTTP/1.0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http10: Option<Http10Settings>,
    /// Ends a connection that is too old soon, and not with its next response.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_safe_max_connection_duration: bool,
    /// Upgrades that are ignored, and not refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignored_upgrade_types: Box<[StringMatch]>,
}

/// HTTP/1.0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http10Settings {
    /// Takes requests without Host for the one host of the listener.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_default_host: bool,
}

/// gRPC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcSettings {
    /// Takes gRPC-Web on all routes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enable_web: bool,
}

/// A path that the proxy answers itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeSettings {
    /// The path; the answer is 200.
    pub path: Text,
}
