//! Logins at an identity provider (OpenID Connect).

use crate::{ClusterName, RetryPolicy, SecretName, TextMatch, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Clients log in at an identity provider, and their tokens are kept in cookies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// The provider.
    pub provider: LoginProvider,
    /// Name of the client there.
    pub client: Arc<str>,
    /// Secret of the client, a [`SecretContent::Generic`](crate::SecretContent).
    pub secret: SecretName,
    /// What cookies are signed with, in the same form.
    pub signing: SecretName,
    /// Where the provider sends clients back to; command operators are filled in.
    pub redirect: Arc<str>,
    /// The path of that.
    pub callback: Arc<str>,
    /// Path that ends the session.
    pub logout: Arc<str>,
    /// What is asked for.
    pub scopes: Vec<Arc<str>>,
    /// Resources that it is asked for (RFC 8707).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Arc<str>>,
    /// The cookies.
    pub cookies: LoginCookies,
    /// What the backend is told of the tokens.
    #[serde(default)]
    pub forwarded: ForwardedTokens,
    /// Whether tokens are renewed, and for how long where they don't say it.
    pub renewal: Renewal,
    /// Lifetime of a token that tells none; without, the provider has to tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_lifetime: Option<Timeout>,
    /// Longest time of a login; 10 minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_time: Option<Timeout>,
    /// Requests that are answered 401 where others are sent to the provider: those that match one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<TextMatch>,
    /// What becomes of requests that carry a bearer token.
    #[serde(default)]
    pub bearers: Bearers,
}

/// An identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginProvider {
    /// URL that clients log in at.
    pub authorization: Arc<str>,
    /// URL that gives tokens.
    pub token: Arc<str>,
    /// URL that ends the session at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_session: Option<Arc<str>>,
    /// Through which cluster tokens are asked for.
    pub cluster: ClusterName,
    /// When they are asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How the client proves who it is.
    #[serde(default)]
    pub proof: ClientProof,
}

/// How a client proves to a provider who it is (RFC 6749 §2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientProof {
    /// In the header for that, which every provider knows that says nothing else.
    #[default]
    Header,
    /// In the body of the request.
    Body,
}

/// Cookies of a login.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginCookies {
    /// Name of that with the access token.
    pub access_token: Arc<str>,
    /// Name of that with the ID token.
    pub id_token: Arc<str>,
    /// What stands behind the names of all others.
    pub suffix: Arc<str>,
    /// Hosts below this see them too; the host of the request alone when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Arc<str>>,
    /// Whether requests that other sites cause bring them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_site: Option<SameSite>,
    /// Whether who has the cookies can read the tokens.
    #[serde(default)]
    pub tokens: CookieTokens,
}

/// Whether requests that other sites cause bring a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SameSite {
    /// Those that lead the user here.
    Lax,
    /// None. The provider leads users here too, so cookies that a login needs on its way are Lax.
    Strict,
    /// All.
    None,
}

/// Whether who has a cookie can read the token in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CookieTokens {
    /// Nobody but the proxies can.
    #[default]
    Encrypted,
    /// Everybody can.
    Readable,
}

/// What the backend is told of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedTokens {
    /// Whether it gets the access token, as a bearer token.
    #[serde(default)]
    pub access_token: bool,
    /// Header that it gets the ID token in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Arc<str>>,
}

/// Whether tokens are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Renewal {
    /// The client logs in again.
    Never,
    /// By the token for that, which is kept for so long where it doesn't tell; a week when absent.
    ByToken(Option<Timeout>),
}

/// What becomes of requests that carry a bearer token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Bearers {
    /// The same as of others.
    #[default]
    LogIn,
    /// They pass: another filter asks for the token.
    Pass,
}
