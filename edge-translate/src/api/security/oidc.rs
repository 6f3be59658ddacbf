//! Logins at an identity provider.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::security::{PolicyRef, service};
use crate::api::string_match::StringMatchType;
use crate::api::text::{DurationText, is_default, open_enum};

/// Clients log in at an identity provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Oidc {
    /// The identity provider.
    pub provider: OidcProvider,
    /// Name of the client at the provider.
    #[serde(default, rename = "clientID", skip_serializing_if = "is_default")]
    pub client_id: Option<Text>,
    /// Secret that holds the name of the client under `client-id`.
    #[serde(default, rename = "clientIDRef", skip_serializing_if = "is_default")]
    pub client_id_ref: Option<PolicyRef>,
    /// Secret that holds the secret of the client under `client-secret`.
    pub client_secret: PolicyRef,
    /// Names of the cookies; made from the policy when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie_names: Option<OidcCookieNames>,
    /// Attributes of the cookies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie_config: Option<OidcCookieConfig>,
    /// Domain of the cookies; the host of the request when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cookie_domain: Option<Text>,
    /// Scopes that are asked for; `openid` always is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scopes: Box<[Text]>,
    /// Resources that are asked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: Box<[Text]>,
    /// Where the provider sends clients back to; `/oauth2/callback` of the host of the request when absent.
    #[serde(default, rename = "redirectURL", skip_serializing_if = "is_default")]
    pub redirect_url: Option<Text>,
    /// Which requests are answered 401 where others are sent to the provider.
    #[serde(default, skip_serializing_if = "is_default")]
    pub deny_redirect: Option<OidcDenyRedirect>,
    /// Path that ends the session; `/logout` when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logout_path: Option<Text>,
    /// Sends the access token to the backend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forward_access_token: Option<bool>,
    /// Sends the ID token to the backend.
    #[serde(default, rename = "forwardIDToken", skip_serializing_if = "is_default")]
    pub forward_id_token: Option<OidcTokenForwarding>,
    /// Lifetime of a token that tells none.
    #[serde(default, rename = "defaultTokenTTL", skip_serializing_if = "is_default")]
    pub default_token_ttl: Option<DurationText>,
    /// Renews tokens; it does when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refresh_token: Option<bool>,
    /// Lifetime of a refresh token that tells none; 604800s when absent.
    #[serde(default, rename = "defaultRefreshTokenTTL", skip_serializing_if = "is_default")]
    pub default_refresh_token_ttl: Option<DurationText>,
    /// Longest time of a login; 10m when absent.
    #[serde(default, rename = "csrfTokenTTL", skip_serializing_if = "is_default")]
    pub csrf_token_ttl: Option<DurationText>,
    /// Leaves tokens in cookies readable.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_token_encryption: Option<bool>,
    /// Takes requests that carry a bearer token as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pass_through_auth_header: Option<bool>,
}

service! {
    /// The identity provider.
    pub struct OidcProvider {
        /// URL of the issuer.
        pub issuer: Text,
        /// URL of the login; asked of the issuer when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub authorization_endpoint: Option<Text>,
        /// URL of tokens; asked of the issuer when absent.
        #[serde(default, skip_serializing_if = "is_default")]
        pub token_endpoint: Option<Text>,
        /// URL that ends the session at the provider.
        #[serde(default, skip_serializing_if = "is_default")]
        pub end_session_endpoint: Option<Text>,
    }
}

/// Names of cookies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcCookieNames {
    /// Cookie of the access token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub access_token: Option<Text>,
    /// Cookie of the ID token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id_token: Option<Text>,
}

/// Attributes of cookies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcCookieConfig {
    /// Attribute SameSite.
    #[serde(default, skip_serializing_if = "is_default")]
    pub same_site: Option<CookieSameSite>,
}

open_enum! {
    /// Attribute SameSite of a cookie.
    pub enum CookieSameSite {
        Lax = "Lax",
        Strict = "Strict",
        None = "None",
    }
}

/// Which requests are answered 401 where others are sent to the provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcDenyRedirect {
    /// Headers, one of which matches.
    pub headers: Box<[OidcDenyRedirectHeader]>,
}

/// A header of such requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcDenyRedirectHeader {
    /// Name of the header.
    pub name: Text,
    /// How its value is compared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: StringMatchType,
    /// Text or expression.
    pub value: Text,
}

/// Where the ID token goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcTokenForwarding {
    /// Name of the header.
    pub header: Text,
}
