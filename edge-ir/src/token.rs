//! Tokens that requests carry (JWT, RFC 7519): who issues them, and which a route asks for.

use crate::{ClusterName, RetryPolicy, Timeout};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the routes of a listener ask of tokens. Routes name requirements, requirements name issuers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Issuers, sorted by name.
    pub issuers: Vec<Arc<TokenIssuer>>,
    /// Requirements, sorted by name.
    pub requirements: Vec<TokenRequirement>,
}

impl Tokens {
    /// Takes in what others ask for. A name stands for what is named: equal names say the same.
    pub fn join(&mut self, other: &Self) {
        self.issuers.extend(other.issuers.iter().cloned());
        self.issuers.sort_by(|a, b| a.name.cmp(&b.name));
        self.issuers.dedup_by(|a, b| a.name == b.name);
        self.requirements.extend(other.requirements.iter().cloned());
        self.requirements.sort_by(|a, b| a.name.cmp(&b.name));
        self.requirements.dedup_by(|a, b| a.name == b.name);
    }
}

/// Who issues tokens, and where requests carry them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenIssuer {
    /// Named for what it says, so that policies which say the same share it and its keys.
    pub name: Arc<str>,
    /// The name in its policy, under which rules find the claims.
    pub claims: Arc<str>,
    /// Issuer that a token must name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Arc<str>>,
    /// Audiences, one of which a token must be for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<Arc<str>>,
    /// What signatures are checked with.
    pub keys: KeySet,
    /// Where requests carry the token; a bearer token or the query parameter `access_token` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<TokenPlace>,
    /// Claims that become headers, as header and claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// What such headers mean for the choice of a route.
    #[serde(default)]
    pub routing: Rerouting,
}

/// Whether a route is looked for again once headers were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rerouting {
    /// The route stays.
    #[default]
    Never,
    /// It is looked for again.
    Again,
}

/// Keys of an issuer (JWKS, RFC 7517 §5).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeySet {
    /// As text.
    Local(Arc<str>),
    /// Fetched by the proxy.
    Remote {
        /// From where.
        uri: Arc<str>,
        /// Through which cluster.
        cluster: ClusterName,
        /// How long they are kept.
        kept: Timeout,
        /// Pause after a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: Option<Timeout>,
        /// When they are asked for again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<RetryPolicy>,
    },
}

/// Where a request carries a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TokenPlace {
    /// In a header, behind a prefix.
    Header {
        /// Its name.
        name: Arc<str>,
        /// What stands before the token.
        prefix: Arc<str>,
    },
    /// In a cookie.
    Cookie(Arc<str>),
    /// In a query parameter.
    Query(Arc<str>),
}

/// What a route asks of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRequirement {
    /// Named for what it says.
    pub name: Arc<str>,
    /// Issuers, one of which must have issued it.
    pub issuers: Vec<Arc<str>>,
    /// Requests that are let through without.
    pub without: WithoutToken,
}

/// Which requests are let through without a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WithoutToken {
    /// None: they are answered 401.
    None,
    /// Those that carry none.
    Missing,
    /// Those that carry none, or one that isn't valid.
    MissingOrFailed,
}
