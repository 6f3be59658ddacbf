//! Keys of clients (Envoy's `api_key_auth`).

use std::fmt;

use http::HeaderName;
use rustc_hash::{FxHashMap, FxHashSet};

/// Clients by their keys.
#[derive(Default)]
pub struct Keys(pub FxHashMap<Box<str>, Box<str>>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// What a chain or a route says. Of a route what is unset is the chain's.
#[derive(Debug, Default)]
pub struct ApiKeyAuth {
    /// Who has which key.
    pub keys: Option<Keys>,
    /// Where a request has its key: the first that has one counts.
    pub sources: Vec<KeySource>,
    /// What the backend is told.
    pub forwarding: Option<Forwarding>,
    /// Of a route: only these clients; empty is all.
    pub clients: FxHashSet<Box<str>>,
}

/// Where a request has its key.
#[derive(Debug)]
pub enum KeySource {
    /// In a header, behind `Bearer ` if that is there.
    Header(HeaderName),
    /// In a parameter of the query.
    Query(Box<str>),
    /// In a cookie.
    Cookie(Box<str>),
}

/// What the backend is told.
#[derive(Debug)]
pub struct Forwarding {
    /// Whose key it is.
    pub client: Option<HeaderName>,
    /// Not the key.
    pub hides_key: bool,
}
