//! Where the address of a client is.

use crate::api::Text;
use crate::api::text::is_default;
use serde::{Deserialize, Serialize};

/// A place: all that is set must be so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientGeoLocation {
    /// Country, by its two letters (ISO 3166-1).
    #[serde(default, skip_serializing_if = "is_default")]
    pub country: Option<Text>,
    /// Region, by its code (ISO 3166-2).
    #[serde(default, skip_serializing_if = "is_default")]
    pub region: Option<Text>,
    /// City.
    #[serde(default, skip_serializing_if = "is_default")]
    pub city: Option<Text>,
    /// Number of the autonomous system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asn: Option<u32>,
    /// Provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isp: Option<Text>,
    /// Whether and how the address hides who uses it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub anonymous: Option<AnonymousAddress>,
}

/// How an address hides who uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousAddress {
    /// By any means.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_anonymous: Option<bool>,
    /// By a virtual private network.
    #[serde(default, rename = "isVPN", skip_serializing_if = "is_default")]
    pub is_vpn: Option<bool>,
    /// By a hosting provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_hosting: Option<bool>,
    /// By Tor.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_tor: Option<bool>,
    /// By a public proxy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_proxy: Option<bool>,
}
