//! The core kinds that translation reads: Service, EndpointSlice, Namespace, Secret, ConfigMap, and ServiceImport.
//!
//! Only what is read is kept; fields that belong to these kinds and are not listed here (a Service's `sessionAffinity`,
//! say) are dropped silently, because they are somebody else's contract: see `load::LENIENT`.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::Metadata;
use crate::api::string_map::StringMap;
use crate::api::text::{IntOrText, is_default, open_enum};

/// A name and ports for a set of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its ports and addresses.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// The ports and addresses of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Ports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ports: Box<[ServicePort]>,
    /// Labels of the pods behind it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: StringMap,
    /// First cluster address; `None` for headless.
    #[serde(rename = "clusterIP", default, skip_serializing_if = "is_default")]
    pub cluster_ip: Option<Text>,
    /// Every cluster address.
    #[serde(rename = "clusterIPs", default, skip_serializing_if = "is_default")]
    pub cluster_ips: Box<[Text]>,
    /// How it is published.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: ServiceType,
    /// Preference for near endpoints.
    #[serde(default, skip_serializing_if = "is_default")]
    pub traffic_distribution: Option<Text>,
}

open_enum! {
    /// How a Service is published.
    pub enum ServiceType {
        ClusterIp = "ClusterIP",
        NodePort = "NodePort",
        LoadBalancer = "LoadBalancer",
        ExternalName = "ExternalName",
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Transport protocol.
    #[serde(default)]
    pub protocol: IpProtocol,
    /// Application protocol, such as `kubernetes.io/h2c`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub app_protocol: Option<Text>,
    /// Port that clients use.
    pub port: u16,
    /// Port of the pods; absent means the same. Translation goes by EndpointSlices, and who makes up missing ones by
    /// this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target_port: Option<IntOrText>,
}

open_enum! {
    /// A transport protocol.
    pub enum IpProtocol {
        Tcp = "TCP",
        Udp = "UDP",
        Sctp = "SCTP",
    }
}

/// Some of the endpoints behind a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Name, and the label that names the Service.
    #[serde(default)]
    pub metadata: Metadata,
    /// What the addresses are.
    #[serde(default)]
    pub address_type: AddressFamily,
    /// The endpoints.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoints: Box<[Endpoint]>,
    /// The ports of every endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ports: Box<[EndpointPort]>,
}

open_enum! {
    /// What addresses are.
    pub enum AddressFamily {
        Ipv4 = "IPv4",
        Ipv6 = "IPv6",
        Fqdn = "FQDN",
    }
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Its addresses, of which the first is used.
    #[serde(default)]
    pub addresses: Box<[Text]>,
    /// Whether it serves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: EndpointConditions,
    /// Zone that it runs in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zone: Option<Text>,
    /// Zones that should prefer it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Whether an endpoint serves; an absent value says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointConditions {
    /// Takes new connections.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ready: Option<bool>,
    /// Would answer, even while terminating.
    #[serde(default, skip_serializing_if = "is_default")]
    pub serving: Option<bool>,
    /// Is being taken away.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terminating: Option<bool>,
}

/// Who should prefer an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointHints {
    /// Zones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub for_zones: Box<[NamedHint]>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedHint {
    /// Its name.
    pub name: Text,
}

/// A port of the endpoints in a slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPort {
    /// Name, that of the Service's port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Number; absent means all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
    /// Transport protocol.
    #[serde(default)]
    pub protocol: IpProtocol,
    /// Application protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub app_protocol: Option<Text>,
}

/// A namespace; its labels decide what may attach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Namespace {
    /// Name and labels.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Texts, such as trust anchors in `ca.crt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// Texts by key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: StringMap,
    /// Bytes by key, base64 as written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub binary_data: StringMap,
}

/// A Service of another cluster (multicluster.x-k8s.io).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImport {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its ports and addresses.
    #[serde(default)]
    pub spec: ServiceImportSpec,
}

/// The ports and addresses of a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceImportSpec {
    /// Whether it has addresses of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: ServiceImportType,
    /// Ports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ports: Box<[ServicePort]>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ips: Box<[Text]>,
}

open_enum! {
    /// Whether a ServiceImport has addresses of its own.
    pub enum ServiceImportType {
        ClusterSetIp = "ClusterSetIP",
        Headless = "Headless",
    }
}

/// Trust anchors for the whole cluster (certificates.k8s.io).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrustBundle {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// The anchors.
    #[serde(default)]
    pub spec: ClusterTrustBundleSpec,
}

/// Trust anchors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrustBundleSpec {
    /// Certificates as PEM.
    #[serde(default)]
    pub trust_bundle: Text,
}
