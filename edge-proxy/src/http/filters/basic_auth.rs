//! Requests with the name and the password of a user (RFC 7617), as Envoy's filter lets them through.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderValue, StatusCode, header};
use sha1::{Digest, Sha1};

use crate::config::filter::basic_auth::{BasicAuth, Users};
use crate::http::Arrived;
use crate::http::filters::{Flow, realm};
use crate::lines::joined;

/// With padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Lets a user through.
pub(super) fn request(filter: &BasicAuth, users: Option<&Users>, arrived: &mut Arrived<'_>) -> Flow {
    let users = users.unwrap_or(&filter.users);
    let name = match user(filter, users, arrived) {
        Ok(name) => name,
        Err((why, details)) => return deny(arrived, why, details),
    };
    if let Some(user_header) = &filter.user_header {
        match HeaderValue::from_str(&name) {
            Ok(name) => drop(arrived.head.headers.insert(user_header, name)),
            // The backend must not believe what the client says of itself.
            Err(_) => drop(arrived.head.headers.remove(user_header)),
        }
    }
    Flow::Continue
}

/// The user of a request, or why there is none.
fn user(filter: &BasicAuth, users: &Users, arrived: &Arrived<'_>) -> Result<String, (&'static str, &'static str)> {
    // Of several lines a backend could choose another one: together they are no credentials.
    let Some(value) = joined(&arrived.head.headers, &filter.carrier) else {
        return Err((
            "User authentication failed. Missing username and password.",
            "no_credential_for_basic_auth",
        ));
    };
    // Envoy knows the scheme by these letters alone, though its case means nothing (RFC 9110 §11.1).
    let Some(encoded) = value.strip_prefix("Basic ") else {
        return Err((
            "User authentication failed. Expected 'Basic' authentication scheme.",
            "invalid_scheme_for_basic_auth",
        ));
    };
    let decoded = BASE64.decode(encoded).unwrap_or_default();
    let colon = decoded.iter().position(|byte| *byte == b':');
    let Some((name, password)) = colon.map(|at| (&decoded[..at], &decoded[at + 1..])) else {
        return Err((
            "User authentication failed. Invalid basic credential format.",
            "invalid_format_for_basic_auth",
        ));
    };
    let name = std::str::from_utf8(name).ok();
    let known = name.and_then(|name| users.get(name));
    match (name, known) {
        (Some(name), Some(hash)) if *hash == <[u8; 20]>::from(Sha1::digest(password)) => Ok(name.to_owned()),
        _ => Err((
            "User authentication failed. Invalid username/password combination.",
            "invalid_credential_for_basic_auth",
        )),
    }
}

fn deny(arrived: &Arrived<'_>, why: &'static str, details: &'static str) -> Flow {
    let mut answer = Flow::refuse(arrived, StatusCode::UNAUTHORIZED, why, details);
    if let Flow::Answer(response) = &mut answer
        && let Ok(challenge) = HeaderValue::try_from(format!("Basic realm=\"{}\"", realm(&arrived.head)))
    {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}
