//! Rules of who may do what.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::http_route::PathMatchType;
use crate::api::security::geoip::ClientGeoLocation;
use crate::api::text::{is_default, open_enum};

/// Rules of who may do what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorization {
    /// The rules; the first that matches decides.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rules: Box<[AuthorizationRule]>,
    /// What becomes of requests that no rule matches; Deny when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default_action: Option<AuthorizationAction>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationRule {
    /// Name of the rule, for messages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
    /// What becomes of requests that match.
    pub action: AuthorizationAction,
    /// What the request does; anything when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub operation: Option<Box<Operation>>,
    /// Who sent it; every member that is set must match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub principal: Option<Box<Principal>>,
    /// Expression in CEL over the request, which must be true. It isn't where it reads what a request doesn't have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cel: Option<Text>,
}

open_enum! {
    /// What becomes of requests.
    pub enum AuthorizationAction {
        Deny = "Deny",
        Allow = "Allow",
    }
}

/// What a request does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Operation {
    /// Methods, one of which matches.
    #[serde(default, skip_serializing_if = "is_default")]
    pub methods: Box<[Text]>,
    /// The path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub path: Option<OperationPath>,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationPath {
    /// How it is compared.
    #[serde(default = "prefix")]
    pub r#type: PathMatchType,
    /// The path.
    #[serde(default = "slash")]
    pub value: Text,
    /// Any other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invert: bool,
}

fn prefix() -> PathMatchType {
    PathMatchType::PathPrefix
}

fn slash() -> Text {
    "/".into()
}

/// Who sent a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Principal {
    /// Addresses of clients, one of which matches.
    #[serde(default, rename = "clientCIDRs", skip_serializing_if = "is_default")]
    pub client_cidrs: Option<Box<[Text]>>,
    /// Claims and scopes of a token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jwt: Option<Box<JwtPrincipal>>,
    /// Headers, all of which match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Option<Box<[AuthorizationHeader]>>,
    /// Places, one of which matches.
    #[serde(default, rename = "clientIPGeoLocations", skip_serializing_if = "is_default")]
    pub client_ip_geo_locations: Option<Box<[ClientGeoLocation]>>,
}

/// Who sent a request, by its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtPrincipal {
    /// A provider of `jwt` of this policy.
    pub provider: Text,
    /// Claims, all of which match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claims: Box<[JwtClaim]>,
    /// Scopes, all of which the token has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scopes: Box<[Text]>,
}

/// A claim of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtClaim {
    /// Name of the claim, with dots between levels.
    pub name: Text,
    /// Whether the claim is one text or a list.
    #[serde(default)]
    pub value_type: ClaimType,
    /// Values, one of which it has.
    pub values: Box<[Text]>,
}

open_enum! {
    /// Whether a claim is one text or a list.
    pub enum ClaimType {
        String = "String",
        StringArray = "StringArray",
    }
}

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationHeader {
    /// Name of the header.
    pub name: Text,
    /// Values, one of which it has.
    pub values: Box<[Text]>,
}
