//! An identity provider: the code flow of OpenID Connect with PKCE (RFC 7636), for one client and one user who always
//! agrees. It gives nothing to those who can't prove what they must.

use super::{
    peers::{Answer, HttpPeer, Received},
    signer::{LATER, Signer},
};
use anyhow::{Context as _, Result};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::sync::Mutex;

/// The client.
pub(super) const CLIENT: &str = "www";
/// Its secret.
pub(super) const SECRET: &str = "s3cret";
/// Where it may send users back to.
pub(super) const REDIRECT: &str = "http://www.example.com/oauth2/callback";

/// The access token that it gives for a code.
pub(super) const ACCESS: &str = "for-the-backend";
/// The access token that it gives for a refresh token.
pub(super) const RENEWED: &str = "renewed-for-the-backend";
/// The refresh token.
const REFRESH: &str = "good-for-another";

/// A running provider.
pub(super) struct Provider {
    server: HttpPeer,
    tells: Arc<AtomicBool>,
    terms: Arc<Terms>,
}

/// For how long it gives what.
struct Terms {
    /// How many seconds access tokens last.
    lifetime: AtomicU64,
    /// Whether it renews them.
    renews: AtomicBool,
    /// So many requests for tokens fail before one is looked at.
    failures: AtomicU64,
}

/// What it knows of a login that began.
struct Login {
    challenge: String,
}

/// What it is.
struct State {
    signer: Signer,
    /// Whether it tells of itself.
    tells: Arc<AtomicBool>,
    terms: Arc<Terms>,
    /// Logins by the code that was given for them: each counts once.
    codes: Mutex<BTreeMap<String, Login>>,
}

impl Provider {
    /// Starts one that doesn't tell of itself yet.
    pub(super) fn start() -> Result<Self> {
        let tells = Arc::new(AtomicBool::new(false));
        let terms = Arc::new(Terms {
            lifetime: AtomicU64::new(3600),
            renews: AtomicBool::new(true),
            failures: AtomicU64::new(0),
        });
        let state = State {
            signer: Signer::new()?,
            tells: Arc::clone(&tells),
            terms: Arc::clone(&terms),
            codes: Mutex::default(),
        };
        let server =
            HttpPeer::start(move |request| state.answer(request).unwrap_or_else(|| refused("invalid_request")))?;
        Ok(Self { server, tells, terms })
    }

    /// Its name, which is its URL.
    pub(super) fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.server.port
    }

    /// From now on access tokens last so many seconds.
    pub(super) fn give_for(&self, seconds: u64) {
        self.terms.lifetime.store(seconds, Ordering::Relaxed);
    }

    /// It fails so many requests for tokens.
    pub(super) fn fail(&self, requests: u64) {
        self.terms.failures.store(requests, Ordering::Relaxed);
    }

    /// From now on it renews no token.
    pub(super) fn renew_nothing(&self) {
        self.terms.renews.store(false, Ordering::Relaxed);
    }

    /// From now on it tells of itself.
    pub(super) fn tell(&self) {
        self.tells.store(true, Ordering::Relaxed);
    }

    /// It tells of itself no more.
    pub(super) fn hush(&self) {
        self.tells.store(false, Ordering::Relaxed);
    }
}

fn refused(error: &str) -> Answer {
    (400, Vec::new(), json!({ "error": error }).to_string())
}

impl State {
    /// Answers a request; none where it isn't as it must be.
    fn answer(&self, request: &Received) -> Option<Answer> {
        let (method, target) = request.line.split_once(' ')?;
        let target = target.split(' ').next()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (method, path) {
            ("GET", "/.well-known/openid-configuration") if self.tells.load(Ordering::Relaxed) => {
                Some(self.configuration(&format!("http://{}", request.header("host")?)))
            }
            ("GET", "/auth") => self.authorize(&form(query)),
            ("POST", "/token") => {
                let body = String::from_utf8(request.body.clone()).ok()?;
                self.token(request.header("authorization")?, &form(&body))
            }
            _ => Some((404, Vec::new(), String::new())),
        }
    }

    fn configuration(&self, own: &str) -> Answer {
        let told = json!({
            "issuer": own,
            "authorization_endpoint": format!("{own}/auth"),
            "token_endpoint": format!("{own}/token"),
        });
        (
            200,
            vec![("content-type", "application/json".to_owned())],
            told.to_string(),
        )
    }

    /// The user agrees, and is sent back with a code.
    fn authorize(&self, asked: &BTreeMap<String, String>) -> Option<Answer> {
        let is = |name: &str, value: &str| asked.get(name).is_some_and(|found| found == value);
        let is_right = is("client_id", CLIENT)
            && is("response_type", "code")
            && is("redirect_uri", REDIRECT)
            && is("code_challenge_method", "S256")
            && asked.get("scope")?.split(' ').any(|scope| scope == "openid");
        let (challenge, state) = (asked.get("code_challenge")?.clone(), asked.get("state")?);
        if !is_right {
            return None;
        }
        let mut codes = self.codes.blocking_lock();
        let code = format!("code-{}", codes.len());
        codes.insert(code.clone(), Login { challenge });
        let back = format!("{REDIRECT}?code={code}&state={}", escaped(state));
        Some((302, vec![("location", back)], String::new()))
    }

    /// Tokens for a code, once, and for the client that it was given for.
    fn token(&self, proof: &str, asked: &BTreeMap<String, String>) -> Option<Answer> {
        let credentials = STANDARD.decode(proof.strip_prefix("Basic ")?).ok()?;
        if credentials != format!("{CLIENT}:{SECRET}").as_bytes() {
            return Some((401, Vec::new(), json!({"error": "invalid_client"}).to_string()));
        }
        let failures = &self.terms.failures;
        let failed = failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if failed.is_ok() {
            return Some((503, Vec::new(), String::new()));
        }
        if asked.get("grant_type")? == "refresh_token" {
            let is_good = asked.get("refresh_token")? == REFRESH && self.terms.renews.load(Ordering::Relaxed);
            return match is_good {
                true => self.give(RENEWED),
                false => Some(refused("invalid_grant")),
            };
        }
        let login = self.codes.blocking_lock().remove(asked.get("code")?)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(asked.get("code_verifier")?));
        let is_right = asked.get("grant_type")? == "authorization_code"
            && asked.get("redirect_uri")? == REDIRECT
            && challenge == login.challenge;
        if !is_right {
            return Some(refused("invalid_grant"));
        }
        self.give(ACCESS)
    }

    /// Gives tokens.
    fn give(&self, access: &str) -> Option<Answer> {
        let claims = json!({"iss": "idp", "aud": CLIENT, "sub": "ann", "exp": LATER});
        let token = self.signer.bearer(&claims).ok()?;
        let token = token.strip_prefix("Bearer ")?;
        let told = json!({
            "access_token": access, "id_token": token, "refresh_token": REFRESH, "token_type": "Bearer",
            "expires_in": self.terms.lifetime.load(Ordering::Relaxed),
        });
        Some((
            200,
            vec![("content-type", "application/json".to_owned())],
            told.to_string(),
        ))
    }
}

/// The fields of a form, as a query or a body has them.
pub(super) fn form(text: &str) -> BTreeMap<String, String> {
    let fields = text.split('&').filter_map(|field| field.split_once('='));
    fields
        .map(|(name, value)| (unescaped(name), unescaped(value)))
        .collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(match first {
            b'+' => b' ',
            other => *other,
        }));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escaped(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    escaped.collect()
}

/// The path and query of a URL.
pub(super) fn target(url: &str) -> Result<&str> {
    let (_, rest) = url.split_once("://").with_context(|| format!("{url} is no URL"))?;
    let at = rest.find('/').with_context(|| format!("{url} has no path"))?;
    Ok(&rest[at..])
}
