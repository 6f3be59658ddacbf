//! ClientTrafficPolicy: how listeners treat clients.

pub mod tls;

use crate::client_traffic::tls::ClientTlsSettings;
use crate::cluster_settings::{Http2Settings, TcpKeepalive};
use crate::free::Empty;
use crate::number::ByteQuantity;
use crate::rule;
use crate::shape::{HttpHeaderFilter, StringMatch};
use crate::status::PolicyStatus;
use crate::target::PolicyTargetReferences;
use crate::text::{Cidr, DurationText};
use crate::values::values;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the listeners of Gateways treat clients.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "ClientTrafficPolicy",
    plural = "clienttrafficpolicies",
    shortname = "ctp",
    category = "edge-gateway",
    namespaced,
    doc = "How the listeners of Gateways treat clients.",
    status = "PolicyStatus",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::one_form_of_target())]
#[x_kube(validation = rule::group_of_target())]
#[x_kube(validation = rule::kind_of_target("this policy can only have a targetRef.kind of Gateway or ListenerSet", &["Gateway", "ListenerSet"]))]
#[x_kube(validation = rule::group_of_targets())]
#[x_kube(validation = rule::kinds_of_targets("this policy can only have a targetRefs[*].kind of Gateway or ListenerSet", &["Gateway", "ListenerSet"]))]
pub struct ClientTrafficPolicySpec {
    /// What the policy is for.
    #[serde(flatten)]
    pub policy_target_references: PolicyTargetReferences,
    /// Keepalive probes of TCP connections; none when absent.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// Older form of `proxyProtocol`.
    pub enable_proxy_protocol: Option<bool>,
    /// Takes connections that open with a PROXY header.
    pub proxy_protocol: Option<ProxyProtocolSettings>,
    /// Where the address of the client is found.
    #[serde(rename = "clientIPDetection")]
    pub client_ip_detection: Option<ClientIpDetectionSettings>,
    /// TLS towards clients.
    pub tls: Option<ClientTlsSettings>,
    /// How paths are made plain.
    pub path: Option<PathSettings>,
    /// How headers are treated.
    pub headers: Option<HeaderSettings>,
    /// Longest times.
    pub timeout: Option<ClientTimeout>,
    /// Bounds and buffers of connections.
    pub connection: Option<ClientConnection>,
    /// Settings of HTTP/1.
    pub http1: Option<Http1Settings>,
    /// Settings of HTTP/2.
    pub http2: Option<Http2Settings>,
    /// Offers HTTP/3 on HTTPS listeners, even when empty.
    pub http3: Option<Empty>,
    /// Settings of gRPC.
    pub grpc: Option<GrpcSettings>,
    /// A path that the proxy answers itself.
    pub health_check: Option<HealthCheckSettings>,
    /// Scheme towards the backend; that of the client when absent.
    pub scheme: Option<SchemeHeaderTransform>,
}

/// The PROXY header of clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocolSettings {
    /// Takes connections without the header too.
    pub optional: Option<bool>,
}

/// Where the address of a client is found.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.xForwardedFor) && !has(self.customHeader) && !has(self.directSourceIP)) || (!has(self.xForwardedFor) && has(self.customHeader) && !has(self.directSourceIP)) || (!has(self.xForwardedFor) && !has(self.customHeader) && has(self.directSourceIP))", "exactly one of xForwardedFor, customHeader, or directSourceIP must be set"))]
pub struct ClientIpDetectionSettings {
    /// In X-Forwarded-For.
    pub x_forwarded_for: Option<XForwardedForSettings>,
    /// In a header that only trusted senders set.
    pub custom_header: Option<CustomHeaderExtensionSettings>,
    /// It is that of the connection.
    #[serde(rename = "directSourceIP")]
    pub direct_source_ip: Option<Empty>,
}

/// The address of a client is in X-Forwarded-For.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.numTrustedHops) && !has(self.trustedCIDRs)) || (!has(self.numTrustedHops) && has(self.trustedCIDRs))", "only one of numTrustedHops or trustedCIDRs must be set"))]
pub struct XForwardedForSettings {
    /// How many trusted proxies are in front.
    pub num_trusted_hops: Option<u32>,
    /// Addresses of trusted proxies.
    #[serde(rename = "trustedCIDRs")]
    #[schemars(length(min = 1))]
    pub trusted_cid_rs: Option<Vec<Cidr>>,
    /// Does not append the address of the connection.
    pub disable_x_forwarded_for_append: Option<bool>,
}

/// The address of a client is in another header.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomHeaderExtensionSettings {
    /// Name of the header.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub name: String,
    /// Answers 403 where the header is missing or holds no address.
    pub fail_closed: Option<bool>,
}

/// How paths are made plain.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathSettings {
    /// What becomes of `%2F` and the like; UnescapeAndRedirect when absent.
    pub escaped_slashes_action: Option<PathEscapedSlashAction>,
    /// Leaves `//` in paths as it is.
    pub disable_merge_slashes: Option<bool>,
}

/// How headers of clients are treated.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.preserveXRequestID) && has(self.requestID))", "preserveXRequestID and requestID cannot both be set."))]
pub struct HeaderSettings {
    /// Adds the x-edge-* headers; true when absent.
    pub enable_envoy_headers: Option<bool>,
    /// Another name of `enableEnvoyHeaders`, which counts where both are set.
    pub enable_edge_headers: Option<bool>,
    /// Sends no X-RateLimit headers.
    pub disable_rate_limit_headers: Option<bool>,
    /// What becomes of X-Forwarded-Client-Cert; removed when absent.
    pub x_forwarded_client_cert: Option<XForwardedClientCert>,
    /// What becomes of headers with underscores; RejectRequest when absent.
    pub with_underscores_action: Option<WithUnderscoresAction>,
    /// Older form of `requestID`: keeps the id of the client.
    #[serde(rename = "preserveXRequestID")]
    pub preserve_x_request_id: Option<bool>,
    /// Where X-Request-Id comes from; Generate when absent.
    #[serde(rename = "requestID")]
    pub request_id: Option<RequestIdAction>,
    /// Changes of request headers, before routes are matched.
    pub early_request_headers: Option<HttpHeaderFilter>,
    /// Changes of response headers, just before they are sent.
    pub late_response_headers: Option<HttpHeaderFilter>,
    /// Changes of the Host header.
    pub host: Option<HostSettings>,
    /// Most bytes of request headers, 1Ki to 8192Ki, rounded up to whole Ki.
    pub max_request_header_limit: Option<ByteQuantity>,
}

/// What becomes of X-Forwarded-Client-Cert.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.certDetailsToAdd) || self.certDetailsToAdd.size() == 0 || (has(self.mode) && self.mode in ['AppendForward', 'SanitizeSet'])", "certDetailsToAdd can only be set when mode is AppendForward or SanitizeSet"))]
pub struct XForwardedClientCert {
    /// What becomes of the header; Sanitize when absent.
    pub mode: Option<XfccForwardMode>,
    /// What of the certificate is told, for AppendForward and SanitizeSet.
    #[schemars(length(max = 5))]
    pub cert_details_to_add: Option<Vec<XfccCertData>>,
}

/// Changes of the Host header.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostSettings {
    /// Takes the dot off `example.com.`.
    pub strip_trailing_host_dot: Option<bool>,
}

/// Longest times towards clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientTimeout {
    /// Of connections.
    pub tcp: Option<TcpClientTimeout>,
    /// Of requests.
    pub http: Option<HttpClientTimeout>,
}

/// Longest times of connections of clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpClientTimeout {
    /// After which an idle connection is closed; 1h when absent.
    pub idle_timeout: Option<DurationText>,
    /// Of the TLS handshake.
    pub tls_handshake_timeout: Option<DurationText>,
    /// Of finding out what a connection is; 15s when absent.
    pub connection_inspection_timeout: Option<DurationText>,
}

/// Longest times of requests of clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpClientTimeout {
    /// Until a whole request has come.
    pub request_received_timeout: Option<DurationText>,
    /// Until the headers of a request have come; no bound when 0 or absent.
    pub request_headers_received_timeout: Option<DurationText>,
    /// After which an idle connection is closed; 1h when absent.
    pub idle_timeout: Option<DurationText>,
    /// Longest silence of a stream; 5m when absent.
    pub stream_idle_timeout: Option<DurationText>,
}

/// Connections of clients.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConnection {
    /// Bounds of connections.
    pub connection_limit: Option<ConnectionLimit>,
    /// Bytes held for a connection, up to 4294967295; 32768 when absent.
    pub buffer_limit: Option<ByteQuantity>,
    /// Size of the buffers of the socket.
    pub socket_buffer_limit: Option<ByteQuantity>,
    /// Connections that are accepted at a time; 0 means all that wait.
    #[schemars(extend("default" = 1))]
    pub max_accept_per_socket_event: Option<u32>,
}

/// Bounds of connections of clients.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.closeDelay) || has(self.value)", "closeDelay can only be configured when value is set"))]
pub struct ConnectionLimit {
    /// Open connections of a listener. A TLS listener counts for each of its routes by itself, and HTTP/3 counts apart.
    #[schemars(range(min = 1))]
    pub value: Option<i64>,
    /// Wait before a refused connection is closed.
    pub close_delay: Option<DurationText>,
    /// Age at which a connection drains.
    pub max_connection_duration: Option<DurationText>,
    /// Requests of one connection.
    pub max_requests_per_connection: Option<u32>,
    /// Age at which a stream ends.
    pub max_stream_duration: Option<DurationText>,
}

/// Settings of HTTP/1 connections.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Http1Settings {
    /// Passes trailers on.
    pub enable_trailers: Option<bool>,
    /// Keeps the case of header names.
    pub preserve_header_case: Option<bool>,
    /// Takes HTTP/1.0.
    pub http10: Option<Http10Settings>,
    /// Closes a connection that is too old at once, and not with its next response.
    pub disable_safe_max_connection_duration: Option<bool>,
    /// Upgrades that are ignored, and not answered with 403.
    pub ignored_upgrade_types: Option<Vec<StringMatch>>,
}

/// What HTTP/1.0 may do.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Http10Settings {
    /// Requests without Host are taken for the one host of the listener.
    pub use_default_host: Option<bool>,
}

/// Settings of gRPC.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcSettings {
    /// Takes gRPC-Web on routes other than GRPCRoutes too.
    pub enable_web: Option<bool>,
}

/// A path that the proxy answers itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckSettings {
    /// The path; the answer is 200.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
}

values! {
    /// Values of `SchemeHeaderTransform`.
    pub enum SchemeHeaderTransform {
        Preserve = "Preserve",
        MatchBackend = "MatchBackend",
    }
}

values! {
    /// Values of `PathEscapedSlashAction`.
    pub enum PathEscapedSlashAction {
        KeepUnchanged = "KeepUnchanged",
        RejectRequest = "RejectRequest",
        UnescapeAndForward = "UnescapeAndForward",
        UnescapeAndRedirect = "UnescapeAndRedirect",
    }
}

values! {
    /// Values of `WithUnderscoresAction`.
    pub enum WithUnderscoresAction {
        Allow = "Allow",
        RejectRequest = "RejectRequest",
        DropHeader = "DropHeader",
    }
}

values! {
    /// Values of `RequestIDAction`.
    pub enum RequestIdAction {
        PreserveOrGenerate = "PreserveOrGenerate",
        Preserve = "Preserve",
        Generate = "Generate",
        Disable = "Disable",
    }
}

values! {
    /// Values of `XFCCForwardMode`.
    pub enum XfccForwardMode {
        Sanitize = "Sanitize",
        ForwardOnly = "ForwardOnly",
        AppendForward = "AppendForward",
        SanitizeSet = "SanitizeSet",
        AlwaysForwardOnly = "AlwaysForwardOnly",
    }
}

values! {
    /// Values of `XFCCCertData`.
    pub enum XfccCertData {
        Subject = "Subject",
        Cert = "Cert",
        Chain = "Chain",
        Dns = "DNS",
        Uri = "URI",
    }
}
