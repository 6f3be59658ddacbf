//! What of a request decides about its host, where the cluster balances by hash.

use http::HeaderName;

use crate::config::route::RegexRewrite;

/// One policy of a route's list.
#[derive(Debug)]
pub struct HashPolicy {
    /// What is hashed.
    pub source: HashSource,
    /// Once there is a hash, what follows in the list is left out.
    pub terminal: bool,
}

/// What is hashed.
#[derive(Debug)]
pub enum HashSource {
    /// All values of a header, in the order of the alphabet.
    Header(HeaderName, Option<Box<RegexRewrite>>),
    /// A cookie, given to clients that have none if it has a lifetime.
    Cookie(HashCookie),
    /// The address of the client.
    Address,
    /// The first value of a parameter of the query.
    Query(Box<str>),
}

/// A cookie that keeps a client at its host.
#[derive(Debug)]
pub struct HashCookie {
    /// Its name.
    pub name: Box<str>,
    /// What stands behind the value of a new one, from the first semicolon on; `None` where the proxy makes none.
    pub attributes: Option<Box<str>>,
}
