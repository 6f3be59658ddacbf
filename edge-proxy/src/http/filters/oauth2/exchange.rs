//! Tokens from the provider (RFC 6749 §4.1.3 and §6).

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use crate::calls::ask::{ServiceProtocol, ServiceRequest, ask};
use crate::config::filter::oauth2::{ClientProof, TokenEndpoint, escape};
use crate::http::Arrived;
use crate::http::filters::{Flow, within};
use crate::message::head::Head;

/// What tokens are asked for with.
#[derive(Clone, Copy)]
pub(super) enum Grant<'g> {
    /// The code that a client has come back with.
    Code {
        /// Escaped as it came.
        code: &'g str,
        /// Where it was sent back to.
        redirect: &'g str,
        /// What proves that it is for us (RFC 7636 §4.5).
        verifier: &'g str,
    },
    /// The refresh token of a session.
    RefreshToken { token: &'g str },
}

/// What the provider has given. What it hasn't is empty.
#[derive(Default, PartialEq, Eq)]
pub(in crate::http) struct Tokens {
    pub(super) access_token: String,
    pub(super) id_token: String,
    pub(super) refresh_token: String,
    /// How long the access token lasts, in seconds.
    pub(in crate::http) lifetime: u64,
}

/// Why there are no tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The provider gives none, or doesn't answer.
    Refused,
    /// Its answer can't be used.
    Unusable,
}

/// Asks the provider for tokens; an answer to the client where that takes longer than its request may.
pub(super) async fn tokens(
    endpoint: &TokenEndpoint,
    secret: &[u8],
    grant: Grant<'_>,
    arrived: &mut Arrived<'_>,
) -> Result<Result<Tokens, Failure>, Flow> {
    let Some(question) = question(endpoint, secret, grant) else {
        return Ok(Err(Failure::Unusable));
    };
    let upstreams = Rc::clone(&arrived.exchange.connection.upstreams);
    let snapshot = upstreams.worker.snapshot();
    let asking = ask(&upstreams, &snapshot, question, endpoint.retry.as_deref());
    let told = within(arrived, asking).await?;
    let why = match told {
        Ok(told) if told.status == StatusCode::OK => {
            return Ok(read(&told.body, endpoint.usual_lifetime).ok_or(Failure::Unusable));
        }
        Ok(told) => format!("the answer is {}", told.status),
        Err(fault) => format!("there is no answer: {fault}"),
    };
    let (worker, authority) = (&upstreams.worker, &endpoint.authority);
    // Clients may cause it as often as they like.
    if worker
        .told
        .is_news(format!("tokens {authority:?} {why}"), worker.clock.recent())
    {
        tracing::warn!(?authority, why, "the identity provider gave no tokens");
    }
    Ok(Err(Failure::Refused))
}

/// The request for tokens.
pub(super) fn question(endpoint: &TokenEndpoint, secret: &[u8], grant: Grant<'_>) -> Option<ServiceRequest> {
    let mut form = match grant {
        Grant::Code {
            code,
            redirect,
            verifier,
        } => {
            let redirect = escape(redirect.as_bytes());
            format!("grant_type=authorization_code&code={code}&redirect_uri={redirect}&code_verifier={verifier}")
        }
        Grant::RefreshToken { token } => {
            format!("grant_type=refresh_token&refresh_token={}", escape(token.as_bytes()))
        }
    };
    let mut head = Head::empty();
    head.method = Method::POST;
    head.authority = endpoint.authority.clone();
    head.target = endpoint.target.clone();
    let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    head.headers.insert(header::CONTENT_TYPE, form_type);
    let json = HeaderValue::from_static("application/json");
    head.headers.insert(header::ACCEPT, json);
    match endpoint.proof {
        ClientProof::Body => {
            let (client, secret) = (escape(endpoint.client.as_bytes()), escape(secret));
            form.push_str(&format!("&client_id={client}&client_secret={secret}"));
        }
        ClientProof::Certificate => {
            form.push_str(&format!("&client_id={}", escape(endpoint.client.as_bytes())));
        }
        ClientProof::Header => {
            let credentials = STANDARD.encode([endpoint.client.as_bytes(), b":", secret].concat());
            let mut proof = HeaderValue::try_from(format!("Basic {credentials}")).ok()?;
            proof.set_sensitive(true);
            head.headers.insert(header::AUTHORIZATION, proof);
        }
    }
    Some(ServiceRequest {
        cluster: endpoint.cluster,
        head,
        body: Bytes::from(form),
        timeout: endpoint.timeout,
        protocol: ServiceProtocol::Http,
    })
}

/// Whether a token can stand in a cookie and in a header: what a value of a cookie may hold (RFC 6265 §4.1.1), which
/// all bearer tokens are made of (RFC 6750 §2.1).
fn is_token(text: &str) -> bool {
    let is_octet = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    text.bytes().all(is_octet)
}

/// The tokens of an answer (RFC 6749 §5.1).
pub(in crate::http) fn read(body: &[u8], usual_lifetime: u64) -> Option<Tokens> {
    let told: Value = serde_json::from_slice(body).ok()?;
    let token = |field: &str| match told.get(field) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(token)) => is_token(token).then(|| token.clone()),
        Some(_) => None,
    };
    let lifetime = match told.get("expires_in") {
        None | Some(Value::Null) => usual_lifetime,
        // Some write it as a text.
        Some(Value::String(text)) => text.parse().ok()?,
        Some(number) => number.as_u64().or(number.as_f64().map(|seconds| seconds as u64))?,
    };
    let tokens = Tokens {
        access_token: token("access_token")?,
        id_token: token("id_token")?,
        refresh_token: token("refresh_token")?,
        lifetime,
    };
    (lifetime > 0 && !tokens.access_token.is_empty()).then_some(tokens)
}
