//! Cross-origin rules of a route (Fetch standard, "CORS protocol"; Envoy's `CorsPolicy`).

use http::HeaderValue;

use crate::config::header::StringCondition;

/// Which other origins may let their scripts use a route, and what they are told.
#[derive(Debug)]
pub struct CorsPolicy {
    /// An origin that meets one of them is allowed.
    pub origins: Box<[StringCondition]>,
    /// `access-control-allow-methods`
    pub methods: Granted,
    /// `access-control-allow-headers`
    pub headers: Granted,
    /// `access-control-expose-headers`
    pub exposed_headers: Option<HeaderValue>,
    /// `access-control-max-age`
    pub max_age: Option<HeaderValue>,
    /// `access-control-allow-credentials: true`
    pub credentials: bool,
    /// What happens to a preflight from an origin that isn't allowed.
    pub others: OtherPreflights,
}

/// What a preflight is told that it may use.
#[derive(Debug, PartialEq, Eq)]
pub enum Granted {
    /// Nothing is said.
    Unsaid,
    /// Whatever it asks for (`*`).
    Requested,
    /// This.
    Listed(HeaderValue),
}

/// What happens to a preflight from an origin that isn't allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherPreflights {
    /// The backend answers it.
    Forward,
    /// It is answered here, without leave.
    Answer,
}
