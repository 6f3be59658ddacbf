//! Logins at an identity provider (Envoy's `oauth2`): the code flow of RFC 6749 §4.1 with PKCE (RFC 7636).

mod cookie;
mod escape;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};

pub use cookie::Cookie;
pub use escape::escape;
pub use keys::{Keys, Purpose, random};

use crate::config::ClusterId;
use crate::config::filter::credential_injector::Slot;
use crate::config::header::{HeaderCondition, HeaderTemplate, StringCondition};
use crate::config::route::RetryPolicy;

/// Leads clients without a session to an identity provider, and keeps their sessions in cookies.
#[derive(Debug)]
pub struct Login {
    /// Where clients are led.
    pub authorization: Authorization,
    /// Where tokens are had.
    pub tokens: TokenEndpoint,
    /// The path that the provider sends clients back to.
    pub callback: StringCondition,
    /// The path that ends a session.
    pub sign_out: StringCondition,
    /// Where the provider ends its own session: a URL to which parameters can be added.
    pub end_session: Option<Box<str>>,
    /// Requests that meet one of these pass as they are.
    pub passed: Box<[HeaderCondition]>,
    /// Requests that meet one of these are answered 401 and not led away.
    pub refused: Box<[HeaderCondition]>,
    /// What a backend is told.
    pub forwarded: Forwarded,
    /// How long things last.
    pub lifetimes: Lifetimes,
    /// Where a client keeps its session.
    pub cookies: LoginCookies,
    /// What sessions are signed with.
    pub keys: Arc<Slot<Arc<Keys>>>,
}

/// Where clients are led.
#[derive(Debug)]
pub struct Authorization {
    /// A URL to which parameters can be added.
    pub endpoint: Box<str>,
    /// The last parameters: what tokens are for (RFC 8707), with the `&` before each.
    pub resources: Box<str>,
    /// Where the provider sends them back to.
    pub redirect: HeaderTemplate,
}

/// Where tokens are had.
#[derive(Debug)]
pub struct TokenEndpoint {
    /// Whom to ask.
    pub cluster: ClusterId,
    /// What it is called.
    pub authority: HeaderValue,
    /// What to ask for.
    pub target: PathAndQuery,
    /// How long that may take.
    pub timeout: Option<Duration>,
    /// Whether it is asked again.
    pub retry: Option<Box<RetryPolicy>>,
    /// How the proxy proves to be the client.
    pub proof: ClientProof,
    /// The name of the client.
    pub client: Box<str>,
    /// How many seconds an access token lasts that doesn't say it; 0 is that it must.
    pub usual_lifetime: u64,
    /// Its secret; empty where it has none.
    pub secret: Arc<Slot<Arc<[u8]>>>,
}

/// How a client proves who it is (RFC 6749 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProof {
    /// By its secret in the content.
    Body,
    /// By its secret in a header.
    Header,
    /// By the certificate that the endpoint's cluster shows (RFC 8705 §2).
    Certificate,
}

/// What a backend is told.
#[derive(Debug)]
pub struct Forwarded {
    /// The access token, as a bearer token.
    pub access_token: bool,
    /// The id token, in this header; behind `Bearer ` in `authorization`.
    pub id_token: Option<HeaderName>,
    /// What the client says in `authorization`. Else nobody has verified it, and it goes.
    pub authorization: bool,
}

/// How long things last, in seconds.
#[derive(Debug)]
pub struct Lifetimes {
    /// A refresh token that doesn't say it; unset: tokens aren't renewed.
    pub refresh_token: Option<u64>,
    /// The cookie of an id token lasts as long as the access token, whatever the id token says.
    pub id_token_as_access_token: bool,
    /// A login that has begun.
    pub nonce: u64,
    /// What proves that it ends where it began.
    pub verifier: u64,
}

/// The cookies of sessions and logins.
#[derive(Debug)]
pub struct LoginCookies {
    /// The access token.
    pub access_token: Cookie,
    /// The id token.
    pub id_token: Cookie,
    /// The refresh token.
    pub refresh_token: Cookie,
    /// The signature of the session.
    pub proof: Cookie,
    /// When the session is over.
    pub expires: Cookie,
    /// The signature of a login that has begun.
    pub nonce: Cookie,
    /// The code verifier of that login (RFC 7636 §4.1).
    pub verifier: Cookie,
    /// What their signature is about in place of the host of a request.
    pub domain: Option<Box<str>>,
    /// Tokens can be read by nobody but the proxy.
    pub sealed: bool,
}
