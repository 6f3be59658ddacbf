//! Users and their passwords (RFC 7617; Envoy's `basic_auth`).

use http::HeaderName;
use rustc_hash::FxHashMap;

/// What a password is known by: its SHA-1, as `htpasswd -s` writes it.
pub type PasswordHash = [u8; 20];

/// Users by name.
pub type Users = FxHashMap<Box<str>, PasswordHash>;

/// What a chain says.
#[derive(Debug)]
pub struct BasicAuth {
    /// Who is let through where a route names nobody.
    pub users: Users,
    /// The header that tells the backend who it is.
    pub user_header: Option<HeaderName>,
    /// The header that carries the credentials.
    pub carrier: HeaderName,
}
