//! Readers of what clients and identity providers send, each by itself.
//!
//! For those who try them with any bytes (the fuzz targets); all else of a filter needs a connection around it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::config::filter::session::SessionCookie;
use crate::cookies;
use crate::http::filters::grpc_web::decode;
use crate::http::filters::jwt::token::{Failure, Token};
use crate::http::filters::oauth2::exchange;
use crate::http::filters::{query, session};
use crate::http::ingress::forwarded;

/// The value of a cookie.
pub fn cookie<'f>(fields: &'f HeaderMap, name: &str) -> Option<&'f [u8]> {
    cookies::value(fields, name)
}

/// All cookies but those of a name, if there are others.
pub fn without_cookie(fields: &HeaderMap, name: &str) -> Option<HeaderValue> {
    cookies::without(fields, name)
}

/// The address of the host that a client's session is at.
pub fn session_host(fields: &HeaderMap, cookie: &SessionCookie) -> Option<String> {
    session::in_cookie(cookie, fields)
}

/// The address of a client behind so many proxies.
pub fn forwarded_client(fields: &HeaderMap, skip: usize) -> Option<IpAddr> {
    forwarded(fields, skip)
}

/// The value of a parameter in the query of a target.
pub fn parameter<'t>(target: &'t str, name: &str) -> Option<Cow<'t, str>> {
    query::value(target, name)
}

/// A target without a parameter that it has.
pub fn without_parameter(target: &str, name: &str) -> Option<String> {
    query::without(target, name)
}

/// What a token claims (JWT), verified or not; else what its client is told.
pub fn claims(token: &str) -> Result<Value, &'static str> {
    Token::read(token).map(|token| token.claims).map_err(Failure::text)
}

/// For how many seconds the tokens of a provider's answer last, if it can be used.
pub fn token_lifetime(answer: &[u8], usual: u64) -> Option<u64> {
    exchange::read(answer, usual).map(|tokens| tokens.lifetime)
}

/// What content is that a script sends in base64, in pieces.
pub fn content_of_base64(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    decode::decoded(pieces)
}
