//! Requests with a token.

use crate::cluster_settings::BackendCluster;
use crate::reference::LocalObjectReference;
use crate::rule;
use crate::text::DurationText;
use crate::values::values;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests carry a token.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.optional) && has(self.failOpen))", "optional and failOpen cannot both be set; failOpen already tolerates a missing JWT"))]
pub struct Jwt {
    /// Takes requests without a token; one that is there must be valid.
    pub optional: Option<bool>,
    /// Takes requests with a missing or invalid token.
    pub fail_open: Option<bool>,
    /// Who issues tokens; one of them accepts the token.
    #[schemars(length(min = 1, max = 16))]
    pub providers: Vec<JwtProvider>,
}

/// Who issues tokens, and where they are.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.recomputeRoute) || !self.recomputeRoute || (has(self.claimToHeaders) && self.claimToHeaders.size() > 0)", "claimToHeaders must be specified if recomputeRoute is enabled."))]
#[x_kube(validation = ("has(self.remoteJWKS) || has(self.localJWKS)", "either remoteJWKS or localJWKS must be specified."))]
#[x_kube(validation = ("!(has(self.remoteJWKS) && has(self.localJWKS))", "remoteJWKS and localJWKS cannot both be specified."))]
pub struct JwtProvider {
    /// Name of the provider in this policy.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Issuer of the token; any when absent.
    #[schemars(length(max = 253))]
    pub issuer: Option<String>,
    /// Audiences, one of which the token is for; any when absent.
    #[schemars(length(max = 8))]
    pub audiences: Option<Vec<String>>,
    /// Keys that are fetched.
    #[serde(rename = "remoteJWKS")]
    pub remote_jwks: Option<RemoteJwks>,
    /// Keys in the policy or in a ConfigMap.
    #[serde(rename = "localJWKS")]
    pub local_jwks: Option<LocalJwks>,
    /// Claims that become headers.
    pub claim_to_headers: Option<Vec<ClaimToHeader>>,
    /// Looks for the route again with these headers. Filters before this one have run by the first route's settings:
    /// where the route that is found then asks for more (users, tokens, authorization), stock Envoy doesn't ask, and
    /// edge-proxy answers 403.
    pub recompute_route: Option<bool>,
    /// Where the token is; a bearer token or query parameter `access_token` when absent.
    pub extract_from: Option<JwtExtractor>,
}

/// Keys that are fetched.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::no_timeout_of_retries())]
#[x_kube(validation = rule::no_statuses_of_retries())]
pub struct RemoteJwks {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// URL of the keys.
    #[schemars(length(min = 1, max = 253))]
    pub uri: String,
    /// How long the keys are kept.
    #[schemars(extend("default" = "300s"))]
    pub cache_duration: Option<DurationText>,
    /// Pause after a failure; 1s when absent.
    pub failed_refetch_duration: Option<DurationText>,
}

/// Keys in the policy or in a ConfigMap.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(self.type == 'Inline' && has(self.inline) && !has(self.valueRef)) || (self.type == 'ValueRef' && !has(self.inline) && has(self.valueRef))", "Exactly one of inline or valueRef must be set with correct type."))]
pub struct LocalJwks {
    /// Which member is set.
    #[schemars(extend("default" = "Inline"))]
    pub r#type: LocalJwksType,
    /// The keys as text.
    pub inline: Option<String>,
    /// ConfigMap that holds them under `jwks`, else under its first key.
    pub value_ref: Option<LocalObjectReference>,
}

/// A claim that becomes a header.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimToHeader {
    /// Name of the header.
    pub header: String,
    /// Name of the claim, with dots between levels.
    pub claim: String,
}

/// Where tokens are.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtExtractor {
    /// Headers.
    pub headers: Option<Vec<JwtHeaderExtractor>>,
    /// Cookies.
    pub cookies: Option<Vec<String>>,
    /// Query parameters.
    pub params: Option<Vec<String>>,
}

/// A header that holds a token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JwtHeaderExtractor {
    /// Name of the header.
    pub name: String,
    /// What stands before the token.
    pub value_prefix: Option<String>,
}

values! {
    /// Values of `LocalJWKSType`.
    pub enum LocalJwksType {
        Inline = "Inline",
        ValueRef = "ValueRef",
    }
}
