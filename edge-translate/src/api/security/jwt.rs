//! Requests with a token.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::security::{LocalRef, TextSource, service};
use crate::api::text::{DurationText, is_default};

/// Requests carry a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    /// Takes requests without a token; one that is there must be valid.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: Option<bool>,
    /// Takes requests with a missing or invalid token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fail_open: Option<bool>,
    /// Who issues tokens; one of them accepts the token.
    pub providers: Box<[JwtProvider]>,
}

/// Who issues tokens, and where they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtProvider {
    /// Name of the provider in this policy.
    pub name: Text,
    /// Issuer of the token; any when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub issuer: Option<Text>,
    /// Audiences, one of which the token is for; any when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audiences: Box<[Text]>,
    /// Keys that are fetched.
    #[serde(default, rename = "remoteJWKS", skip_serializing_if = "is_default")]
    pub remote_jwks: Option<Box<RemoteJwks>>,
    /// Keys in the policy or in a ConfigMap.
    #[serde(default, rename = "localJWKS", skip_serializing_if = "is_default")]
    pub local_jwks: Option<Box<LocalJwks>>,
    /// Claims that become headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim_to_headers: Box<[ClaimToHeader]>,
    /// Looks for the route again with these headers. Filters before this one have run by the first route's settings:
    /// where the route that is found then asks for more (users, tokens, authorization), stock Envoy doesn't ask, and
    /// edge-proxy answers 403.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recompute_route: Option<bool>,
    /// Where the token is; a bearer token or query parameter `access_token` when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub extract_from: Option<Box<JwtExtractor>>,
}

service! {
    /// Keys that are fetched.
    pub struct RemoteJwks {
        /// URL of the keys.
        pub uri: Text,
        /// How long the keys are kept.
        #[serde(default = "five_minutes")]
        pub cache_duration: DurationText,
        /// Pause after a failure; 1s when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub failed_refetch_duration: Option<DurationText>,
    }
}

fn five_minutes() -> DurationText {
    DurationText::from("300s")
}

/// Keys in the policy or in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalJwks {
    /// Which member is set.
    #[serde(default)]
    pub r#type: TextSource,
    /// The keys as text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inline: Option<Text>,
    /// ConfigMap that holds them under `jwks`, else under its first key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_ref: Option<LocalRef>,
}

/// A claim that becomes a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimToHeader {
    /// Name of the header.
    pub header: Text,
    /// Name of the claim, with dots between levels.
    pub claim: Text,
}

/// Where tokens are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtExtractor {
    /// Headers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub headers: Box<[JwtHeaderExtractor]>,
    /// Cookies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookies: Box<[Text]>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub params: Box<[Text]>,
}

/// A header that holds a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtHeaderExtractor {
    /// Name of the header.
    pub name: Text,
    /// What stands before the token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub value_prefix: Option<Text>,
}
