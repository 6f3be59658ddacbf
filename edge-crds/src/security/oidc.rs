//! Logins at an identity provider.

use crate::cluster_settings::BackendCluster;
use crate::reference::SecretObjectReference;
use crate::rule;
use crate::shape::StringMatch;
use crate::text::DurationText;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Clients log in at an identity provider.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(has(self.clientID) && !has(self.clientIDRef)) || (!has(self.clientID) && has(self.clientIDRef))", "only one of clientID or clientIDRef must be set"))]
#[x_kube(validation = ("!(has(self.forwardAccessToken) && self.forwardAccessToken && has(self.forwardIDToken) && self.forwardIDToken.header.lowerAscii() == 'authorization')", "forwardAccessToken cannot be true when forwardIDToken.header is Authorization"))]
pub struct Oidc {
    /// The identity provider.
    pub provider: OidcProvider,
    /// Name of the client at the provider.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1))]
    pub client_id: Option<String>,
    /// Secret that holds the name of the client under `client-id`.
    #[serde(rename = "clientIDRef")]
    pub client_id_ref: Option<SecretObjectReference>,
    /// Secret that holds the secret of the client under `client-secret`.
    pub client_secret: SecretObjectReference,
    /// Names of the cookies; made from the policy when absent.
    pub cookie_names: Option<OidcCookieNames>,
    /// Attributes of the cookies.
    pub cookie_config: Option<OidcCookieConfig>,
    /// Domain of the cookies; the host of the request when absent.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
    pub cookie_domain: Option<String>,
    /// Scopes that are asked for; `openid` always is.
    pub scopes: Option<Vec<String>>,
    /// Resources that are asked for.
    pub resources: Option<Vec<String>>,
    /// Where the provider sends clients back to; `%REQ(x-forwarded-proto)%://%REQ(:authority)%/oauth2/callback` when
    /// absent.
    #[serde(rename = "redirectURL")]
    pub redirect_url: Option<String>,
    /// Which requests are answered with 401 instead of a redirect.
    pub deny_redirect: Option<OidcDenyRedirect>,
    /// Path that ends the session; `/logout` when absent.
    pub logout_path: Option<String>,
    /// Sends the access token to the backend.
    pub forward_access_token: Option<bool>,
    /// Sends the id token to the backend.
    #[serde(rename = "forwardIDToken")]
    pub forward_id_token: Option<OidcTokenForwarding>,
    /// Lifetime of a token that tells none.
    #[serde(rename = "defaultTokenTTL")]
    pub default_token_ttl: Option<DurationText>,
    /// Renews tokens.
    #[schemars(extend("default" = true))]
    pub refresh_token: Option<bool>,
    /// Lifetime of a refresh token that tells none; 604800s when absent.
    #[serde(rename = "defaultRefreshTokenTTL")]
    pub default_refresh_token_ttl: Option<DurationText>,
    /// Longest time of a login; 10m when absent.
    #[serde(rename = "csrfTokenTTL")]
    pub csrf_token_ttl: Option<DurationText>,
    /// Leaves tokens in cookies readable.
    pub disable_token_encryption: Option<bool>,
    /// Takes requests that carry a bearer token as they are.
    pub pass_through_auth_header: Option<bool>,
}

/// The identity provider.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule::no_single_backend())]
#[x_kube(validation = rule::no_timeout_of_retries())]
#[x_kube(validation = rule::no_statuses_of_retries())]
pub struct OidcProvider {
    /// The service.
    #[serde(flatten)]
    pub backend_cluster: BackendCluster,
    /// URL of the issuer.
    #[schemars(length(min = 1))]
    pub issuer: String,
    /// URL of the login; asked of the issuer when absent.
    pub authorization_endpoint: Option<String>,
    /// URL of tokens; asked of the issuer when absent.
    pub token_endpoint: Option<String>,
    /// URL that ends the session at the provider.
    pub end_session_endpoint: Option<String>,
}

/// Names of cookies.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcCookieNames {
    /// Cookie of the access token.
    pub access_token: Option<String>,
    /// Cookie of the id token.
    pub id_token: Option<String>,
}

/// Attributes of cookies.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcCookieConfig {
    /// Attribute SameSite.
    #[schemars(extend("enum" = ["Lax", "Strict", "None"]))]
    pub same_site: Option<String>,
}

/// Which requests are answered with 401 instead of a redirect.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcDenyRedirect {
    /// Headers, one of which matches.
    #[schemars(length(min = 1, max = 16))]
    pub headers: Vec<OidcDenyRedirectHeader>,
}

/// A header of such requests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcDenyRedirectHeader {
    /// Name of the header.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What it holds.
    #[serde(flatten)]
    pub string_match: StringMatch,
}

/// Where the id token goes.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcTokenForwarding {
    /// Name of the header.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$"))]
    #[x_kube(validation = ("self.lowerAscii() != 'host'", "header cannot be the Host header"))]
    pub header: String,
}
