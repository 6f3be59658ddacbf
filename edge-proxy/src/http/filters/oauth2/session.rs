//! The session of a client, which its cookies hold.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;

use super::exchange::Tokens;
use crate::config::filter::oauth2::{Cookie, Keys, Login, LoginCookies, Purpose};
use crate::cookies;
use crate::message::head::Head;

/// A session. What a client doesn't have is empty.
#[derive(Default)]
pub(super) struct Session {
    pub(super) access_token: String,
    pub(super) id_token: String,
    pub(super) refresh_token: String,
    /// When it is over, in seconds since 1970.
    expires: String,
    proof: String,
    /// The refresh token is one that the proxy has given the client, as far as it can tell.
    pub(super) may_be_renewed: bool,
}

/// A session that has begun, or has been renewed.
pub(super) struct Granted {
    pub(super) session: Session,
    /// What it is signed for.
    site: String,
    /// How long its tokens last, in seconds.
    access: u64,
    id: u64,
    refresh: u64,
}

fn text(fields: &HeaderMap, cookie: &Cookie) -> String {
    let value = cookies::value(fields, &cookie.name).and_then(|value| std::str::from_utf8(value).ok());
    value.unwrap_or_default().to_owned()
}

/// What sessions are signed for: a domain, or a host.
fn site(login: &Login, head: &Head) -> String {
    let domain = login.cookies.domain.as_deref();
    domain.unwrap_or(head.authority_text()).to_owned()
}

impl Session {
    /// Reads it; whether it is good is another question.
    pub(super) fn read(login: &Login, keys: &Keys, fields: &HeaderMap) -> Self {
        let cookies = &login.cookies;
        // As in Envoy: a token that can't be opened may be from when tokens were readable. It counts if it is signed.
        let token = |cookie: &Cookie, purpose| {
            let value = text(fields, cookie);
            match cookies.sealed.then(|| keys.open(purpose, &value)).flatten() {
                Some(token) => (token, true),
                None => (value, !cookies.sealed),
            }
        };
        let (refresh_token, may_be_renewed) = token(&cookies.refresh_token, Purpose::RefreshToken);
        Self {
            access_token: token(&cookies.access_token, Purpose::AccessToken).0,
            id_token: token(&cookies.id_token, Purpose::IdToken).0,
            refresh_token,
            expires: text(fields, &cookies.expires),
            proof: text(fields, &cookies.proof),
            may_be_renewed,
        }
    }

    fn parts<'s>(&'s self, site: &'s str) -> [&'s str; 5] {
        [
            site,
            &self.expires,
            &self.access_token,
            &self.id_token,
            &self.refresh_token,
        ]
    }

    /// Whether it was signed here for the host of this request, and isn't over yet.
    pub(super) fn is_good(&self, login: &Login, keys: &Keys, head: &Head, now: u64) -> bool {
        let lasts = self.expires.parse::<u64>().is_ok_and(|expires| expires > now);
        lasts && keys.is_session(self.parts(&site(login, head)), &self.proof)
    }

    /// Tells the backend what it is to know, and no more: of the cookies of logins it gets its tokens alone, readable.
    pub(super) fn tell(&self, login: &Login, fields: &mut HeaderMap) {
        let forwarded = &login.forwarded;
        let bearer = |token: &str| HeaderValue::try_from(format!("Bearer {token}")).ok();
        if forwarded.access_token && !self.access_token.is_empty() {
            put(fields, &header::AUTHORIZATION, bearer(&self.access_token));
        }
        if let Some(name) = &forwarded.id_token
            && !self.id_token.is_empty()
        {
            let value = match name == header::AUTHORIZATION {
                true => bearer(&self.id_token),
                false => HeaderValue::from_str(&self.id_token).ok(),
            };
            put(fields, name, value);
        }
        self.tell_cookies(&login.cookies, fields);
    }

    fn tell_cookies(&self, own: &LoginCookies, fields: &mut HeaderMap) {
        let hidden = [&own.proof, &own.expires, &own.refresh_token, &own.nonce, &own.verifier];
        let tokens = [(&own.access_token, &self.access_token), (&own.id_token, &self.id_token)];
        let is_other = |name: &[u8]| {
            let is_token = tokens.iter().any(|(cookie, _)| cookie.name.as_bytes() == name);
            !is_token && !hidden.iter().any(|cookie| cookie.is_named(name))
        };
        let mut told: Vec<Vec<u8>> = cookies::pairs(fields)
            .filter(|pair| !pair.is_empty())
            .filter(|pair| is_other(pair.split(|byte| *byte == b'=').next().unwrap_or(pair)))
            .map(<[u8]>::to_vec)
            .collect();
        for (cookie, token) in tokens.iter().filter(|(_, token)| !token.is_empty()) {
            told.push(format!("{}={token}", cookie.name).into_bytes());
        }
        fields.remove(header::COOKIE);
        if !told.is_empty() {
            put(
                fields,
                &header::COOKIE,
                HeaderValue::try_from(told.join(&b"; "[..])).ok(),
            );
        }
    }
}

/// Puts a secret into a header. One that no header can hold is left out.
fn put(fields: &mut HeaderMap, name: &header::HeaderName, value: Option<HeaderValue>) {
    if let Some(mut value) = value {
        value.set_sensitive(true);
        fields.insert(name, value);
    }
}

/// When a token says that it is over (RFC 7519 §4.1.4). Nothing depends on it but the lifetime of a cookie.
fn expiry(token: &str) -> Option<u64> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let expires = claims.get("exp")?;
    let whole = expires.as_f64().filter(|expires| *expires > 0.0)? as u64;
    Some(expires.as_u64().unwrap_or(whole))
}

impl Granted {
    /// A session of what the provider has given.
    pub(super) fn of(login: &Login, tokens: Tokens, head: &Head, now: u64) -> Self {
        let (cookies, lifetimes) = (&login.cookies, &login.lifetimes);
        let access = tokens.lifetime;
        let lasts = |token: &str, usual| expiry(token).map_or(usual, |expires| expires.saturating_sub(now));
        let id = match lifetimes.id_token_as_access_token {
            true => access,
            false => lasts(&tokens.id_token, access),
        };
        let refresh = lifetimes
            .refresh_token
            .map_or(access, |usual| lasts(&tokens.refresh_token, usual));
        let kept = |cookie: &Cookie, token| if cookie.is_set { token } else { String::new() };
        let session = Session {
            access_token: kept(&cookies.access_token, tokens.access_token),
            id_token: kept(&cookies.id_token, tokens.id_token),
            refresh_token: kept(&cookies.refresh_token, tokens.refresh_token),
            expires: now.saturating_add(access).to_string(),
            ..Session::default()
        };
        Self {
            session,
            site: site(login, head),
            access,
            id,
            refresh,
        }
    }

    /// The cookies that keep it, and what deletes those of tokens that it has no longer.
    pub(super) fn cookies(&self, login: &Login, keys: &Keys, brought: &HeaderMap) -> Option<Vec<HeaderValue>> {
        let (own, session) = (&login.cookies, &self.session);
        let proof = keys.prove_session(session.parts(&self.site));
        let mut set = vec![
            own.proof.set("", &proof, self.access)?,
            own.expires.set("", &session.expires, self.access)?,
        ];
        for (cookie, token, purpose, lifetime) in [
            (
                &own.access_token,
                &session.access_token,
                Purpose::AccessToken,
                self.access,
            ),
            (&own.id_token, &session.id_token, Purpose::IdToken, self.id),
            (
                &own.refresh_token,
                &session.refresh_token,
                Purpose::RefreshToken,
                self.refresh,
            ),
        ] {
            if token.is_empty() {
                if cookies::value(brought, &cookie.name).is_some() {
                    set.push(cookie.delete("")?);
                }
            } else if own.sealed {
                set.push(cookie.set("", &keys.seal(purpose, token)?, lifetime)?);
            } else {
                set.push(cookie.set("", token, lifetime)?);
            }
        }
        Some(set)
    }
}

/// What deletes all cookies of a session, and those of logins that a client has begun.
pub(super) fn deleted(login: &Login, brought: &HeaderMap) -> Vec<HeaderValue> {
    let own = &login.cookies;
    let session = [
        &own.proof,
        &own.access_token,
        &own.id_token,
        &own.refresh_token,
        &own.expires,
    ];
    let mut deleted: Vec<_> = session.iter().filter_map(|cookie| cookie.delete("")).collect();
    for pair in cookies::pairs(brought) {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or(pair);
        for cookie in [&own.nonce, &own.verifier] {
            let behind = name.strip_prefix(cookie.name.as_bytes());
            let behind = behind.filter(|_| cookie.is_named(name));
            let behind = behind.and_then(|behind| std::str::from_utf8(behind).ok());
            deleted.extend(behind.and_then(|behind| cookie.delete(behind)));
        }
    }
    deleted
}
