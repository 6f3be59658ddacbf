//! EdgeProxy (gateway.edge): settings of a fleet of proxies.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::meta::Metadata;
use crate::api::text::{is_default, open_enum};

/// Settings of the proxies of a GatewayClass or Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxy {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: EdgeProxySpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status: Option<Box<Value>>,
}

/// What an EdgeProxy asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeProxySpec {
    /// Whether requests go to pods or to the Service address; absent means Endpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub routing_type: Option<RoutingType>,
    /// One fleet for all Gateways of the class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_gateways: bool,
    /// Address families of listeners and Services; absent means IPv4.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ip_family: Option<IpFamily>,
}

open_enum! {
    /// Where requests to a Service go.
    pub enum RoutingType {
        Endpoint = "Endpoint",
        Service = "Service",
    }
}

open_enum! {
    /// Address families.
    pub enum IpFamily {
        Ipv4 = "IPv4",
        Ipv6 = "IPv6",
        DualStack = "DualStack",
    }
}
