//! Tokens that say who a client is (RFC 7519; Envoy's `jwt_authn`).

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use rustc_hash::FxHashMap;

mod keys;
mod remote;

pub use keys::{Algorithm, Key, KeySet, Material};
pub use remote::{Due, FetchMode, RemoteKeys};

/// What a chain says.
#[derive(Debug, Default)]
pub struct Tokens {
    /// What routes may ask for, by name.
    pub requirements: FxHashMap<Box<str>, Requirement>,
    /// Headers in which backends are told what tokens say, of all issuers.
    pub telling: Box<[HeaderName]>,
}

impl Tokens {
    /// The keys that servers have.
    pub fn remote(&self) -> impl Iterator<Item = &Arc<RemoteKeys>> {
        let issuers = self.requirements.values().flat_map(Requirement::issuers);
        issuers.filter_map(|issuer| match &issuer.keys {
            KeySource::Remote(remote) => Some(remote),
            KeySource::Local(_) => None,
        })
    }
}

/// For whom a token is, as Envoy compares it: without the scheme and the slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience(Box<str>);

impl Audience {
    /// What the configuration calls it.
    pub fn of(text: &str) -> Self {
        Self(Self::bare(text).into())
    }

    /// Whether a token means it.
    pub fn is(&self, said: &str) -> bool {
        *self.0 == *Self::bare(said)
    }

    fn bare(text: &str) -> &str {
        let bare = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let bare = bare.unwrap_or(text);
        bare.strip_suffix('/').unwrap_or(bare)
    }
}

/// What a route asks for.
#[derive(Debug)]
pub enum RouteRequirement {
    /// Nothing.
    Nothing,
    /// What the chain knows by this name.
    Named(Box<str>),
}

/// Which tokens a request must have.
#[derive(Debug)]
pub enum Requirement {
    /// One of this issuer.
    Issuer(Arc<Issuer>),
    /// Of some requirements, one must be met.
    OneOf(Box<[Requirement]>),
    /// All must be met.
    All(Box<[Requirement]>),
    /// A request without a token is let through.
    Missing,
    /// A request without a good token is let through.
    MissingOrFailed,
}

/// Who issues tokens, and what becomes of good ones.
#[derive(Debug)]
pub struct Issuer {
    /// What tokens call it; empty is anything.
    pub name: Box<str>,
    /// For whom a token must be; empty is anybody.
    pub audiences: Box<[Audience]>,
    /// Where a request has its token.
    pub places: Box<[TokenPlace]>,
    /// Its keys.
    pub keys: KeySource,
    /// How far clocks may be apart.
    pub skew: Duration,
    /// Tokens must say until when they are good.
    pub must_expire: bool,
    /// The backend gets the token.
    pub forwarded: bool,
    /// The header that tells the backend what the token says.
    pub payload: Option<PayloadHeader>,
    /// Under this name filters find what the token says; empty is not at all.
    pub metadata: Box<str>,
    /// Claims that hold several words in one text, which are cut for filters.
    pub spaced: Box<[Box<str>]>,
    /// Headers that tell the backend claims.
    pub claims: Box<[Claim]>,
    /// The routes are looked at again when a token is good.
    pub reroutes: bool,
}

impl Issuer {
    /// Headers in which backends are told what its tokens say.
    pub fn telling(&self) -> impl Iterator<Item = &HeaderName> {
        let payload = self.payload.iter().map(|payload| &payload.name);
        payload.chain(self.claims.iter().map(|claim| &claim.header))
    }
}

/// A header that tells the backend all that a token says, in base64.
#[derive(Debug)]
pub struct PayloadHeader {
    /// Its name.
    pub name: HeaderName,
    /// How the end is written.
    pub padding: Padding,
}

/// How base64 ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// With as many `=` as it takes.
    Padded,
    /// Without.
    Unpadded,
}

/// A header that tells the backend a claim.
#[derive(Debug)]
pub struct Claim {
    /// The header.
    pub header: HeaderName,
    /// The claim: a name of the token's, and of what is within.
    pub path: Box<[Box<str>]>,
}

/// Where a request has its token.
#[derive(Debug)]
pub enum TokenPlace {
    /// In a header, behind a text.
    Header(HeaderName, Box<str>),
    /// In a parameter of the query.
    Query(Box<str>),
    /// In a cookie.
    Cookie(Box<str>),
}

/// Where the keys of an issuer are from.
#[derive(Debug)]
pub enum KeySource {
    /// The configuration.
    Local(Arc<KeySet>),
    /// A server.
    Remote(Arc<RemoteKeys>),
}

impl KeySource {
    /// The keys that are known.
    pub fn known(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::Local(keys) => Some(Arc::clone(keys)),
            Self::Remote(remote) => remote.keys(),
        }
    }
}

impl Requirement {
    /// The issuers that it is about.
    pub fn issuers(&self) -> Vec<&Arc<Issuer>> {
        match self {
            Self::Issuer(issuer) => vec![issuer],
            Self::OneOf(list) | Self::All(list) => list.iter().flat_map(Self::issuers).collect(),
            Self::Missing | Self::MissingOrFailed => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_are_compared_without_scheme_and_slash() {
        let audience = Audience::of("https://api.example/");
        for said in ["https://api.example", "http://api.example/", "api.example"] {
            assert!(audience.is(said), "{said}");
        }
        for said in ["https://api.example//", "ftp://api.example", "api.example/a"] {
            assert!(!audience.is(said), "{said}");
        }
    }
}
