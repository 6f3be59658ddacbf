//! GRPCRoute, TLSRoute, TCPRoute and UDPRoute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::http_route::{MatchType, RouteBackendRef, SessionPersistence};
use crate::api::meta::{Metadata, ParentReference, StatusAsRead};
use crate::api::route_filter::RouteFilter;
use crate::api::text::is_default;

/// Rules that send gRPC calls to backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRoute {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: GrpcRouteSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a GRPCRoute asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteSpec {
    /// Gateways and ListenerSets it attaches to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_refs: Box<[Arc<ParentReference>]>,
    /// Experimental: attach to Gateways that offer themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_default_gateways: Option<Text>,
    /// Host names; none means those of the listener.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostnames: Box<[Text]>,
    /// Rules.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Box<[GrpcRouteRule]>,
}

/// Matches, filters and backends that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteRule {
    /// Name, the `sectionName` of policies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Any of them must hold; none means everything.
    #[serde(default, skip_serializing_if = "is_default")]
    pub matches: Box<[GrpcRouteMatch]>,
    /// Applied to matching calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub filters: Box<[RouteFilter]>,
    /// Where calls go, by weight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[RouteBackendRef]>,
    /// Experimental: keep a client on one endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRouteMatch {
    /// On service and method.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: Option<Box<GrpcMethodMatch>>,
    /// On metadata.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Box<[GrpcHeaderMatch]>,
}

/// A condition on service and method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMethodMatch {
    /// How they are compared.
    #[serde(default)]
    pub r#type: MatchType,
    /// Service with its package.
    #[serde(default, skip_serializing_if = "is_default")]
    pub service: Option<Text>,
    /// Method.
    #[serde(default, skip_serializing_if = "is_default")]
    pub method: Option<Text>,
}

/// A condition on metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcHeaderMatch {
    /// How the value is compared.
    #[serde(default)]
    pub r#type: MatchType,
    /// Name.
    pub name: Text,
    /// Value or expression.
    pub value: Text,
}

/// Sends TLS connections to backends by their server name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRoute {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: TlsRouteSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a TLSRoute asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRouteSpec {
    /// Gateways and ListenerSets it attaches to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_refs: Box<[Arc<ParentReference>]>,
    /// Experimental: attach to Gateways that offer themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_default_gateways: Option<Text>,
    /// Server names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hostnames: Box<[Text]>,
    /// The rule.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Box<[StreamRule]>,
}

/// Backends of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRule {
    /// Name, the `sectionName` of policies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// Where connections go, by weight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backend_refs: Box<[RouteBackendRef]>,
}

/// Sends TCP connections to backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpRoute {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: StreamRouteSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// Sends UDP datagrams to backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UdpRoute {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: StreamRouteSpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What a TCPRoute or UDPRoute asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamRouteSpec {
    /// Gateways and ListenerSets it attaches to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_refs: Box<[Arc<ParentReference>]>,
    /// Experimental: attach to Gateways that offer themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_default_gateways: Option<Text>,
    /// The rule.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Box<[StreamRule]>,
}
