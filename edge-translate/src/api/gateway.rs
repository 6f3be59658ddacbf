//! GatewayClass, Gateway and ListenerSet (gateway.networking.k8s.io).
//!
//! Statuses are kept as read, because foreign conditions must survive our writing; everything else is typed.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::{LabelSelector, Metadata, ObjectRef, SecretRef, StatusAsRead};
use crate::api::route_filter::RouteFilter;
use crate::api::string_map::StringMap;
use crate::api::text::{Symbol, is_default, open_enum};

/// A class of Gateways and the controller that serves it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClass {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: GatewayClassSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// The finalizer by which a GatewayClass stays while there are Gateways of it.
pub const CLASS_IN_USE: &str = "gateway-exists-finalizer.gateway.networking.k8s.io";

/// What a GatewayClass asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller that owns the class.
    pub controller_name: Text,
    /// Settings of the class, an EdgeProxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameters_ref: Option<Box<ParametersRef>>,
    /// Text for people.
    #[serde(default, skip_serializing_if = "is_default")]
    pub description: Option<Text>,
}

/// A reference to the settings of a GatewayClass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParametersRef {
    /// API group.
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace, required for namespaced kinds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
}

/// Listeners on addresses, served by one fleet of proxies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: GatewaySpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a Gateway asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// The class, which names the controller.
    pub gateway_class_name: Text,
    /// Ports to serve and what may attach to them.
    #[serde(default)]
    pub listeners: Box<[Listener]>,
    /// Addresses wanted; none lets the controller choose.
    #[serde(default, skip_serializing_if = "is_default")]
    pub addresses: Box<[GatewayAddress]>,
    /// Labels, annotations and settings of the generated objects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub infrastructure: Option<Box<GatewayInfrastructure>>,
    /// Which ListenerSets may add listeners; absent means none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed_listeners: Option<Box<AllowedListeners>>,
    /// TLS towards clients (validation) and backends (client certificate).
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<Box<GatewayTls>>,
    /// Experimental: which routes attach without naming the Gateway.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_scope: Option<Text>,
}

/// One port with a protocol, and what may attach to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Unique name, the `sectionName` of routes and policies; validation asks for one.
    #[serde(default)]
    pub name: Text,
    /// Host name served; absent means all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostname: Option<Text>,
    /// Port that clients see.
    pub port: u16,
    /// Application protocol.
    pub protocol: Protocol,
    /// TLS settings for HTTPS and TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Option<Box<ListenerTls>>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
    /// Experimental: filters that run before route matching.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filters: Option<Box<ListenerFilters>>,
}

/// Filters of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerFilters {
    /// Filters for requests, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: Box<[RouteFilter]>,
}

open_enum! {
    /// The protocol of a listener.
    pub enum Protocol {
        Http = "HTTP",
        Https = "HTTPS",
        Tls = "TLS",
        Tcp = "TCP",
        Udp = "UDP",
    }
}

/// How a listener treats TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// Terminate or pass through.
    #[serde(default)]
    pub mode: TlsMode,
    /// Server certificates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub certificate_refs: Box<[SecretRef]>,
    /// Implementation-specific settings.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: StringMap,
}

open_enum! {
    /// What happens to TLS at a listener.
    pub enum TlsMode {
        Terminate = "Terminate",
        Passthrough = "Passthrough",
    }
}

/// Which routes may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// Namespaces that routes may come from.
    #[serde(default)]
    pub namespaces: RouteNamespaces,
    /// Kinds that may attach; empty means all of the protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kinds: Box<[RouteGroupKind]>,
}

/// Namespaces that routes may come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteNamespaces {
    /// How they are chosen.
    #[serde(default)]
    pub from: FromNamespaces,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: Option<Box<LabelSelector>>,
}

open_enum! {
    /// How namespaces are chosen.
    pub enum FromNamespaces {
        Same = "Same",
        All = "All",
        Selector = "Selector",
        None = "None",
    }
}

/// A kind of route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteGroupKind {
    /// API group.
    #[serde(default = "gateway_group")]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
}

/// An address that a Gateway asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayAddress {
    /// What the value is.
    #[serde(default = "ip_address")]
    pub r#type: AddressType,
    /// The address; empty lets the controller assign one of the type.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value: Text,
    /// Experimental: from where the address must be reachable.
    #[serde(default, skip_serializing_if = "is_default")]
    pub routability: Option<Text>,
}

open_enum! {
    /// What kind of address a value is.
    pub enum AddressType {
        IpAddress = "IPAddress",
        Hostname = "Hostname",
        NamedAddress = "NamedAddress",
    }
}

/// What the generated objects of a Gateway carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfrastructure {
    /// Labels for every generated object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: StringMap,
    /// Annotations for every generated object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: StringMap,
    /// Settings of this Gateway, an EdgeProxy in its namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parameters_ref: Option<ObjectRef>,
}

/// Which ListenerSets may attach to a Gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedListeners {
    /// Namespaces that they may come from.
    #[serde(default = "no_listeners")]
    pub namespaces: ListenerNamespaces,
}

/// Namespaces that ListenerSets may come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerNamespaces {
    /// How they are chosen; absent means none.
    #[serde(default = "from_none")]
    pub from: FromNamespaces,
    /// Labels of the namespaces, for `Selector`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: Option<Box<LabelSelector>>,
}

/// TLS settings of a whole Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTls {
    /// Towards backends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend: Option<BackendTls>,
    /// Towards clients.
    #[serde(default, skip_serializing_if = "is_default")]
    pub frontend: Option<FrontendTls>,
}

/// TLS towards backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// Client certificate presented to backends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_certificate_ref: Option<SecretRef>,
}

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// For every HTTPS listener without an entry of its own.
    #[serde(default)]
    pub default: FrontendTlsConfig,
    /// Entries that replace the default on a port.
    #[serde(default, skip_serializing_if = "is_default")]
    pub per_port: Box<[FrontendTlsPort]>,
}

/// Client validation on one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsPort {
    /// Port of the listeners.
    pub port: u16,
    /// Their settings.
    #[serde(default)]
    pub tls: FrontendTlsConfig,
}

/// How clients are validated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsConfig {
    /// Absent means no client certificates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub validation: Option<FrontendTlsValidation>,
}

/// Which client certificates are trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTlsValidation {
    /// Trust anchors, usually ConfigMaps with `ca.crt`.
    #[serde(default)]
    pub ca_certificate_refs: Box<[ObjectRef]>,
    /// What happens to clients without a valid certificate.
    #[serde(default)]
    pub mode: FrontendValidationMode,
}

open_enum! {
    /// What happens to clients without a valid certificate.
    pub enum FrontendValidationMode {
        AllowValidOnly = "AllowValidOnly",
        AllowInsecureFallback = "AllowInsecureFallback",
    }
}

/// Listeners added to a Gateway by somebody else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSet {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: ListenerSetSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a ListenerSet asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway.
    pub parent_ref: ListenerSetParentRef,
    /// The listeners.
    #[serde(default)]
    pub listeners: Box<[Listener]>,
}

/// The Gateway that a ListenerSet belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetParentRef {
    /// API group.
    #[serde(default = "gateway_group")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "gateway_kind")]
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace; absent means the ListenerSet's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
}

fn gateway_group() -> Symbol {
    Symbol::new("gateway.networking.k8s.io")
}

fn gateway_kind() -> Symbol {
    Symbol::new("Gateway")
}

fn ip_address() -> AddressType {
    AddressType::IpAddress
}

fn from_none() -> FromNamespaces {
    FromNamespaces::None
}

fn no_listeners() -> ListenerNamespaces {
    ListenerNamespaces {
        from: FromNamespaces::None,
        selector: None,
    }
}
