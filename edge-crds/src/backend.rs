//! Backend: endpoints that no Service stands for.

use crate::reference::LocalObjectReference;
use crate::status::BackendStatus;
use crate::text::{PreciseHostname, WellKnownCaCertificates};
use crate::tls::BackendTlsConfig;
use crate::values::values;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Endpoints that no Service stands for.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "Backend",
    plural = "backends",
    shortname = "be",
    category = "edge-gateway",
    namespaced,
    doc = "Endpoints that no Service stands for.",
    status = "BackendStatus",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'DynamicResolver' || !has(self.endpoints)", "DynamicResolver type cannot have endpoints specified"))]
#[x_kube(validation = ("self.type != 'DynamicResolver' || !has(self.tls) || !has(self.tls.autoSNIFromEndpointHostname) || !self.tls.autoSNIFromEndpointHostname", "DynamicResolver type cannot use autoSNIFromEndpointHostname"))]
#[x_kube(validation = ("!has(self.tls) || !has(self.tls.autoSNIFromEndpointHostname) || !self.tls.autoSNIFromEndpointHostname || !has(self.endpoints) || self.endpoints.all(e, (!has(e.ip) && !has(e.unix)) || has(e.hostname))", "when autoSNIFromEndpointHostname is enabled, IP and Unix endpoints must define a hostname"))]
pub struct BackendSpec {
    /// Listed endpoints, or resolved for each request.
    #[schemars(extend("default" = "Endpoints"))]
    pub r#type: Option<BackendType>,
    /// The endpoints; none for DynamicResolver.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = ("self.all(f, has(f.fqdn)) || !self.exists(f, has(f.fqdn))", "fqdn addresses cannot be mixed with other address types"))]
    pub endpoints: Option<Vec<BackendEndpoint>>,
    /// Protocols that the endpoints speak.
    pub app_protocols: Option<Vec<AppProtocolType>>,
    /// Used only while too few endpoints of the other backends are healthy.
    pub fallback: Option<bool>,
    /// TLS towards the endpoints.
    pub tls: Option<BackendTlsSettings>,
}

/// One endpoint; exactly one of `fqdn`, `ip` and `unix` is set.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.fqdn) || has(self.ip) || has(self.unix))", "one of fqdn, ip or unix must be specified"))]
#[x_kube(validation = ("!(has(self.fqdn) && has(self.ip)) && !(has(self.fqdn) && has(self.unix)) && !(has(self.ip) && has(self.unix))", "only one of fqdn, ip or unix can be specified"))]
pub struct BackendEndpoint {
    /// Name for server name indication and the Host header.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub hostname: Option<String>,
    /// By host name.
    pub fqdn: Option<FqdnEndpoint>,
    /// By address.
    pub ip: Option<IpEndpoint>,
    /// By the path of a socket.
    pub unix: Option<UnixSocket>,
    /// Zone that it is in.
    pub zone: Option<String>,
}

/// An endpoint found through DNS.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FqdnEndpoint {
    /// Host name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\.?$")
    )]
    pub hostname: String,
    /// Port.
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

/// An endpoint with a fixed address.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpEndpoint {
    /// IPv4 or IPv6 address.
    #[schemars(
        length(min = 3, max = 45),
        regex(
            pattern = r"^((25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$|^(([0-9a-fA-F]{1,4}:){1,7}[0-9a-fA-F]{1,4}|::|(([0-9a-fA-F]{1,4}:){0,5})?(:[0-9a-fA-F]{1,4}){1,2})$"
        )
    )]
    pub address: String,
    /// Port.
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

/// An endpoint on the same machine.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnixSocket {
    /// Path of the socket; for services that the proxy itself uses, not for routes.
    #[x_kube(validation = ("self.size() <= 108", "unix domain socket path must not exceed 108 characters"))]
    pub path: String,
}

/// TLS towards the endpoints of a Backend.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.caCertificateRefs) && self.caCertificateRefs.size() > 0 && has(self.wellKnownCACertificates))", "must not contain both CACertificateRefs and WellKnownCACertificates"))]
#[x_kube(validation = ("!has(self.insecureSkipVerify) || !self.insecureSkipVerify || !((has(self.caCertificateRefs) && self.caCertificateRefs.size() > 0) || has(self.wellKnownCACertificates))", "must not contain either CACertificateRefs or WellKnownCACertificates when InsecureSkipVerify is enabled"))]
#[x_kube(validation = ("!(has(self.sni) && has(self.autoSNIFromEndpointHostname) && has(self.autoSNIFromEndpointHostname) && self.autoSNIFromEndpointHostname)", "sni and autoSNIFromEndpointHostname are mutually exclusive"))]
pub struct BackendTlsSettings {
    /// Trust anchors: ConfigMaps or Secrets with `ca.crt`, or ClusterTrustBundles.
    #[schemars(length(max = 8))]
    pub ca_certificate_refs: Option<Vec<LocalObjectReference>>,
    /// Trust anchors that exist already.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<WellKnownCaCertificates>,
    /// Takes any certificate.
    #[schemars(extend("default" = false))]
    pub insecure_skip_verify: Option<bool>,
    /// Server name that is asked for; when absent and no policy names one, the host of the request.
    pub sni: Option<PreciseHostname>,
    /// Asks for the host name of the endpoint; a BackendTLSPolicy wins.
    #[serde(rename = "autoSNIFromEndpointHostname")]
    pub auto_sni_from_endpoint_hostname: Option<bool>,
    /// Parameters of the connections.
    #[serde(flatten)]
    pub backend_tls_config: BackendTlsConfig,
}

values! {
    /// Values of `BackendType`.
    pub enum BackendType {
        Endpoints = "Endpoints",
        DynamicResolver = "DynamicResolver",
    }
}

values! {
    /// Values of `AppProtocolType`.
    pub enum AppProtocolType {
        H2c = "gateway.edge/h2c",
        Ws = "gateway.edge/ws",
        Wss = "gateway.edge/wss",
    }
}
