//! Backend (gateway.edge): endpoints that no Service stands for.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::grants::WellKnownCa;
use crate::api::meta::{LocalObjectRef, Metadata, StatusAsRead};
use crate::api::shape::tls_settings;
use crate::api::text::{is_default, open_enum};

/// Endpoints named by address, host name or socket path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: BackendSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a Backend stands for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    /// Listed endpoints, or resolved per request.
    #[serde(default)]
    pub r#type: BackendType,
    /// The endpoints; none for DynamicResolver.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoints: Box<[BackendEndpoint]>,
    /// Protocols spoken by the endpoints.
    #[serde(default, skip_serializing_if = "is_default")]
    pub app_protocols: Box<[AppProtocol]>,
    /// Used only when the other backends fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fallback: bool,
    /// TLS towards the endpoints.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<Box<BackendTlsSettings>>,
}

open_enum! {
    /// How the endpoints of a Backend are found.
    pub enum BackendType {
        Endpoints = "Endpoints",
        DynamicResolver = "DynamicResolver",
    }
}

open_enum! {
    /// What the endpoints of a Backend speak.
    pub enum AppProtocol {
        H2c = "gateway.edge/h2c",
        Ws = "gateway.edge/ws",
        Wss = "gateway.edge/wss",
    }
}

/// One endpoint: exactly one of `fqdn`, `ip` and `unix` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendEndpoint {
    /// Name for SNI and Host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// By host name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fqdn: Option<FqdnEndpoint>,
    /// By address.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ip: Option<IpEndpoint>,
    /// By socket path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unix: Option<UnixSocket>,
    /// Zone that it is in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zone: Option<Text>,
}

impl BackendEndpoint {
    /// Its port; a path has none.
    pub fn port(&self) -> Option<u16> {
        let ip = self.ip.as_ref().map(|ip| ip.port);
        ip.or(self.fqdn.as_ref().map(|fqdn| fqdn.port))
    }
}

/// An endpoint found through DNS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FqdnEndpoint {
    /// Host name.
    pub hostname: Text,
    /// Port.
    pub port: u16,
}

impl FqdnEndpoint {
    /// The name without the dot at its end that says that resolvers should complete it with nothing: a part of how the
    /// name is looked up, and never of a host or of a name in a certificate.
    pub fn relative(&self) -> &str {
        self.hostname.strip_suffix('.').unwrap_or(&self.hostname)
    }
}

/// An endpoint with a fixed address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpEndpoint {
    /// IPv4 or IPv6 address.
    pub address: Text,
    /// Port.
    pub port: u16,
}

/// An endpoint on the same machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnixSocket {
    /// Path of the socket.
    pub path: Text,
}

tls_settings! {
    /// TLS towards the endpoints of a Backend.
    pub struct BackendTlsSettings {
        /// Trust anchors.
        #[serde(rename = "caCertificateRefs", default, skip_serializing_if = "is_default")]
        pub ca_certificate_refs: Box<[LocalObjectRef]>,
        /// Trust anchors that exist already.
        #[serde(rename = "wellKnownCACertificates", default, skip_serializing_if = "is_default")]
        pub well_known_ca_certificates: Option<WellKnownCa>,
        /// Takes any certificate.
        #[serde(default, skip_serializing_if = "is_default")]
        pub insecure_skip_verify: bool,
        /// Server name asked for.
        #[serde(default, skip_serializing_if = "is_default")]
        pub sni: Option<Text>,
        /// Asks for the endpoint's host name.
        #[serde(rename = "autoSNIFromEndpointHostname", default, skip_serializing_if = "is_default")]
        pub auto_sni_from_endpoint_hostname: bool,
    }
}
