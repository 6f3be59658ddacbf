//! The way of a client to the provider and back.
//!
//! A login begins with a nonce, which names two cookies: one proves that it has begun here, for the page that the
//! client wants (RFC 6749 §10.12: another one must not be able to end it), the other holds the code verifier of PKCE
//! (RFC 7636). The state that the provider gives back tells nonce and page. Several logins of one client, a page in
//! each of its tabs, don't disturb each other.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use http::uri::Uri;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::config::filter::oauth2::{Keys, Login, Purpose, escape, random};
use crate::connection::Connection;
use crate::cookies;
use crate::http::edits::{self, Scene};
use crate::http::filters::query;
use crate::message::head::Head;

/// Random bytes of a nonce, and of a code verifier (RFC 7636 §7.1).
const NONCE: usize = 16;
const VERIFIER: usize = 32;

/// What a provider has sent a client back with.
#[derive(PartialEq, Eq)]
pub(super) struct Callback {
    /// Good for tokens, once; escaped as it came.
    pub(super) code: String,
    /// Where the client wanted to go.
    pub(super) url: String,
    /// Names the login.
    pub(super) nonce: String,
}

/// A code is nobody's business.
impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// Why a client has come back in vain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) why: &'static str,
    /// The login that is over with it.
    pub(super) nonce: Option<String>,
}

/// A login that has begun.
struct Begun {
    nonce: String,
    url: String,
}

impl Begun {
    /// As it goes through the provider.
    fn state(&self) -> String {
        let state = json!({ "url": self.url, "flow_id": self.nonce });
        URL_SAFE_NO_PAD.encode(state.to_string())
    }

    /// The login that a state tells of, if it has begun with this client.
    fn find(login: &Login, keys: &Keys, state: &str, head: &Head) -> Option<Self> {
        let state: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(state).ok()?).ok()?;
        let text = |field: &str| state.get(field)?.as_str().map(str::to_owned);
        let begun = Self {
            nonce: text("flow_id")?,
            url: text("url")?,
        };
        let name = format!("{}.{}", login.cookies.nonce.name, begun.nonce);
        let proof = std::str::from_utf8(cookies::value(&head.headers, &name)?).ok()?;
        keys.is_login(&begun.nonce, &begun.url, proof).then_some(begun)
    }
}

/// Begins a login: where the client goes, and the cookies that it gets.
pub(super) fn begin(
    login: &Login,
    keys: &Keys,
    head: &Head,
    connection: &Connection,
) -> Option<(String, Vec<HeaderValue>)> {
    start(login, keys, head, &redirect(login, head, connection))
}

/// The same for a known way back.
pub(super) fn start(login: &Login, keys: &Keys, head: &Head, redirect: &str) -> Option<(String, Vec<HeaderValue>)> {
    let begun = Begun {
        nonce: random::<NONCE>()?,
        url: format!("{}://{}{}", head.scheme, head.authority_text(), head.target.as_str()),
    };
    let verifier = random::<VERIFIER>()?;
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    let (own, behind) = (&login.authorization, format!(".{}", begun.nonce));
    let location = format!(
        "{}&redirect_uri={}&state={}&code_challenge={challenge}&code_challenge_method=S256{}",
        own.endpoint,
        escape(redirect.as_bytes()),
        begun.state(),
        own.resources,
    );
    let (nonce, lifetimes) = (&login.cookies.nonce, &login.lifetimes);
    let proof = keys.prove_login(&begun.nonce, &begun.url);
    let sealed = keys.seal(Purpose::Verifier, &verifier)?;
    let set = [
        nonce.set(&behind, &proof, lifetimes.nonce)?,
        login.cookies.verifier.set(&behind, &sealed, lifetimes.verifier)?,
    ];
    Some((location, set.into()))
}

/// What deletes the cookies of a login.
pub(super) fn end(login: &Login, nonce: &str) -> Vec<HeaderValue> {
    let behind = format!(".{nonce}");
    let cookies = [&login.cookies.nonce, &login.cookies.verifier];
    cookies.iter().filter_map(|cookie| cookie.delete(&behind)).collect()
}

/// Where the provider sends the client back to.
pub(super) fn redirect(login: &Login, head: &Head, connection: &Connection) -> String {
    let value = edits::value(&login.authorization.redirect, Scene::of(connection), head);
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The code verifier of a login.
pub(super) fn verifier(login: &Login, keys: &Keys, nonce: &str, head: &Head) -> Option<String> {
    let name = format!("{}.{nonce}", login.cookies.verifier.name);
    let sealed = std::str::from_utf8(cookies::value(&head.headers, &name)?).ok()?;
    keys.open(Purpose::Verifier, sealed)
}

impl Callback {
    /// Reads it from the request of a client that has come back.
    pub(super) fn read(login: &Login, keys: &Keys, head: &Head) -> Result<Self, Rejected> {
        let target = head.target.as_str();
        let rejected = |why, nonce| Rejected { why, nonce };
        let begun = query::value(target, "state").and_then(|state| Begun::find(login, keys, &state, head));
        if query::raw(target, "error").is_some() {
            return Err(rejected("oauth2_provider_error", begun.map(|begun| begun.nonce)));
        }
        let Some(Begun { nonce, url }) = begun else {
            return Err(rejected("oauth2_invalid_state", None));
        };
        let Some(code) = query::raw(target, "code").filter(|code| !code.is_empty()) else {
            return Err(rejected("oauth2_no_code", Some(nonce)));
        };
        // Else it would come here again and again.
        let page = url.parse::<Uri>().ok();
        if page.is_none_or(|page| login.callback.matches(page.path())) {
            return Err(rejected("oauth2_leads_back", Some(nonce)));
        }
        Ok(Self {
            code: code.to_owned(),
            url,
            nonce,
        })
    }
}
