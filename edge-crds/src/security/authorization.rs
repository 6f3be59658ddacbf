//! Rules of who may do what.

use crate::shape::PathMatch;
use crate::text::{CelExpression, Cidr, HttpMethod, JwtScope};
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules of who may do what.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// The rules; the first that matches decides.
    pub rules: Option<Vec<AuthorizationRule>>,
    /// What becomes of requests that no rule matches; Deny when absent.
    pub default_action: Option<AuthorizationAction>,
}

/// One rule.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.principal) || has(self.cel)", "at least one of principal or cel must be specified"))]
pub struct AuthorizationRule {
    /// Name of the rule, for messages.
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// What becomes of requests that match.
    pub action: AuthorizationAction,
    /// What the request does; anything when absent.
    pub operation: Option<Operation>,
    /// Who sent it; every member that is set must match.
    pub principal: Option<Principal>,
    /// Expression in CEL over the request, which must be true. It isn't where it reads what a request doesn't have.
    pub cel: Option<CelExpression>,
}

/// What a request does.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.methods) || has(self.path)", "at least one of methods or path must be specified"))]
pub struct Operation {
    /// Methods, one of which matches.
    #[schemars(length(min = 1, max = 16))]
    pub methods: Option<Vec<HttpMethod>>,
    /// The path.
    pub path: Option<PathMatch>,
}

/// Who sent a request.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.clientCIDRs) || has(self.jwt) || has(self.headers) || has(self.clientIPGeoLocations))", "at least one of clientCIDRs, jwt, headers, or clientIPGeoLocations must be specified"))]
pub struct Principal {
    /// Addresses of clients, one of which matches.
    #[serde(rename = "clientCIDRs")]
    #[schemars(length(min = 1))]
    pub client_cid_rs: Option<Vec<Cidr>>,
    /// Claims and scopes of a token.
    pub jwt: Option<JwtPrincipal>,
    /// Headers, all of which match.
    #[schemars(length(min = 1, max = 256))]
    pub headers: Option<Vec<AuthorizationHeaderMatch>>,
    /// Places, one of which matches; needs `geoIP` of the EdgeProxy.
    #[serde(rename = "clientIPGeoLocations")]
    #[schemars(length(min = 1))]
    pub client_ip_geo_locations: Option<Vec<ClientIpGeoLocation>>,
}

/// Who sent a request, by its token.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.claims) || has(self.scopes))", "at least one of claims or scopes must be specified"))]
pub struct JwtPrincipal {
    /// A provider of `jwt` of this policy.
    #[schemars(length(min = 1, max = 253))]
    pub provider: String,
    /// Claims, all of which match.
    #[schemars(length(min = 1, max = 16))]
    pub claims: Option<Vec<JwtClaim>>,
    /// Scopes, all of which the token has.
    #[schemars(length(min = 1, max = 16))]
    pub scopes: Option<Vec<JwtScope>>,
}

/// A claim of a token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaim {
    /// Name of the claim.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Whether the claim is one text or a list.
    #[schemars(extend("default" = "String"))]
    pub value_type: Option<JwtClaimValueType>,
    /// Values, one of which it has.
    #[schemars(length(min = 1, max = 128))]
    pub values: Vec<String>,
}

/// A header of a request.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationHeaderMatch {
    /// Name of the header.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Values, one of which it has.
    #[schemars(length(min = 1, max = 256))]
    pub values: Vec<String>,
}

/// Where a client is.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.country) || has(self.region) || has(self.city) || has(self.asn) || has(self.isp) || has(self.anonymous)", "at least one of country, region, city, asn, isp, or anonymous must be specified"))]
pub struct ClientIpGeoLocation {
    /// Country, by its two letters (ISO 3166-1).
    #[schemars(length(min = 2, max = 2), regex(pattern = r"^[A-Za-z]{2}$"))]
    pub country: Option<String>,
    /// Region, by its code (ISO 3166-2).
    #[schemars(length(min = 1, max = 16), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub region: Option<String>,
    /// City.
    #[schemars(length(min = 1, max = 128))]
    pub city: Option<String>,
    /// Number of the autonomous system.
    #[schemars(range(min = 1))]
    pub asn: Option<u32>,
    /// Provider.
    #[schemars(length(min = 1, max = 256))]
    pub isp: Option<String>,
    /// Whether and how the address hides who uses it.
    pub anonymous: Option<GeoIpAnonymousMatch>,
}

/// How an address hides who uses it.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.isAnonymous) || has(self.isVPN) || has(self.isHosting) || has(self.isTor) || has(self.isProxy)", "at least one of isAnonymous, isVPN, isHosting, isTor, or isProxy must be specified"))]
pub struct GeoIpAnonymousMatch {
    /// By any means.
    pub is_anonymous: Option<bool>,
    /// By a virtual private network.
    #[serde(rename = "isVPN")]
    pub is_vpn: Option<bool>,
    /// By a hosting provider.
    pub is_hosting: Option<bool>,
    /// By Tor.
    pub is_tor: Option<bool>,
    /// By a public proxy.
    pub is_proxy: Option<bool>,
}

values! {
    /// Values of `AuthorizationAction`.
    pub enum AuthorizationAction {
        Allow = "Allow",
        Deny = "Deny",
    }
}

values! {
    /// Values of `JWTClaimValueType`.
    pub enum JwtClaimValueType {
        String = "String",
        StringArray = "StringArray",
    }
}
