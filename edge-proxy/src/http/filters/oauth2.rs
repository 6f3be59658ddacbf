//! Logins at an identity provider, as Envoy's `oauth2` filter does them.
//!
//! A client without a session is led to the provider ([`flow`]), comes back with a code, for which the proxy gets
//! tokens ([`exchange`]), and keeps its session in cookies that the proxy has signed ([`session`]). A session that is
//! over is renewed by its refresh token, if it has one. What the cookies hold nobody else can read or change; a request
//! reaches a backend only with a session that is good, and without the cookies that are the proxy's alone.
//! The law: tokens, codes and secrets are in no log, and in no detail of a response.

pub(in crate::http) mod exchange;
mod flow;
mod session;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::config::filter::oauth2::{Keys, Login, escape};
use crate::config::header::HeaderCondition;
use crate::http::Arrived;
use crate::http::filters::Flow;
use crate::http::local_reply::{self, Audience};
use crate::message::head::Head;
use exchange::{Failure, Grant};
use flow::Callback;
use session::{Granted, Session};

/// What Envoy tells backends of logins that have failed: nobody else may say it.
const STATUS: [HeaderName; 2] = [
    HeaderName::from_static("x-envoy-oauth-status"),
    HeaderName::from_static("x-envoy-oauth-failure-reason"),
];

/// Logins at work on one request.
pub(super) struct LoggingIn<'a> {
    login: &'a Login,
    /// Cookies of a session that was renewed, for the response.
    cookies: Vec<HeaderValue>,
}

/// The secrets of logins.
struct Secrets {
    keys: Arc<Keys>,
    client: Arc<[u8]>,
}

impl<'a> LoggingIn<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(login: &'a Login) -> Self {
        Self {
            login,
            cookies: Vec::new(),
        }
    }

    /// Lets a request through that has a session.
    pub(super) async fn request(&mut self, arrived: &mut Arrived<'_>) -> Flow {
        let login = self.login;
        for name in STATUS {
            arrived.head.headers.remove(name);
        }
        if meets(&login.passed, &arrived.head) {
            return Flow::Continue;
        }
        let (Some(keys), Some(client)) = (login.keys.get(), login.tokens.secret.get()) else {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Flow::refuse(arrived, status, "Service Unavailable", "oauth2_secrets_not_ready");
        };
        let session = Session::read(login, &keys, &arrived.head.headers);
        self.strip(&mut arrived.head.headers);
        let path = arrived.head.target.path();
        if login.sign_out.matches(path) {
            return sign_out(login, &session, arrived);
        }
        let is_callback = login.callback.matches(path);
        let secrets = Secrets { keys, client };
        match (session.is_good(login, &secrets.keys, &arrived.head, now()), is_callback) {
            (true, false) => {
                session.tell(login, &mut arrived.head.headers);
                Flow::Continue
            }
            // Another page of the same client was faster: the code isn't needed.
            (true, true) => match Callback::read(login, &secrets.keys, &arrived.head) {
                Ok(callback) => moved(
                    arrived,
                    &callback.url,
                    flow::end(login, &callback.nonce),
                    "oauth.race_redirect",
                ),
                Err(rejected) => fail(login, arrived, rejected.why, rejected.nonce.as_deref()),
            },
            // Boxed: few requests come here.
            (false, true) => Box::pin(complete(login, &secrets, arrived)).await,
            (false, false) => Box::pin(self.renew(&secrets, session, arrived)).await,
        }
    }

    /// Sets the cookies of a session that was renewed.
    pub(super) fn response(&mut self, fields: &mut HeaderMap) {
        for cookie in self.cookies.drain(..) {
            fields.append(header::SET_COOKIE, cookie);
        }
    }

    /// Takes off what would tell the backend something that nobody has verified.
    fn strip(&self, fields: &mut HeaderMap) {
        let forwarded = &self.login.forwarded;
        if !forwarded.authorization {
            fields.remove(header::AUTHORIZATION);
        }
        if let Some(name) = &forwarded.id_token {
            fields.remove(name);
        }
    }

    /// Renews a session, or leads the client to a new one.
    async fn renew(&mut self, secrets: &Secrets, session: Session, arrived: &mut Arrived<'_>) -> Flow {
        let login = self.login;
        let token = session.refresh_token.as_str();
        if login.lifetimes.refresh_token.is_none() || token.is_empty() || !session.may_be_renewed {
            return lead_away(login, &secrets.keys, arrived);
        }
        let grant = Grant::RefreshToken { token };
        match exchange::tokens(&login.tokens, &secrets.client, grant, arrived).await {
            Err(answer) => answer,
            Ok(Err(Failure::Refused)) => lead_away(login, &secrets.keys, arrived),
            Ok(Err(Failure::Unusable)) => fail(login, arrived, "oauth2_unusable_tokens", None),
            Ok(Ok(mut tokens)) => {
                if tokens.refresh_token.is_empty() {
                    tokens.refresh_token = session.refresh_token;
                }
                let granted = Granted::of(login, tokens, &arrived.head, now());
                let Some(cookies) = granted.cookies(login, &secrets.keys, &arrived.head.headers) else {
                    return broken(arrived);
                };
                self.cookies = cookies;
                granted.session.tell(login, &mut arrived.head.headers);
                Flow::Continue
            }
        }
    }
}

/// Whether a request meets one of some conditions.
fn meets(conditions: &[HeaderCondition], head: &Head) -> bool {
    let view = head.view();
    conditions.iter().any(|condition| condition.holds(&view))
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Leads a client to the provider, unless it wants none of that.
fn lead_away(login: &Login, keys: &Keys, arrived: &mut Arrived<'_>) -> Flow {
    if meets(&login.refused, &arrived.head) {
        return fail(login, arrived, "oauth2_redirect_denied", None);
    }
    let connection = Rc::clone(&arrived.exchange.connection);
    match flow::begin(login, keys, &arrived.head, &connection) {
        Some((location, cookies)) => moved(arrived, &location, cookies, "oauth.missing_credentials"),
        None => broken(arrived),
    }
}

/// Gets tokens for the code that a client has come back with.
async fn complete(login: &Login, secrets: &Secrets, arrived: &mut Arrived<'_>) -> Flow {
    let callback = match Callback::read(login, &secrets.keys, &arrived.head) {
        Ok(callback) => callback,
        Err(rejected) => return fail(login, arrived, rejected.why, rejected.nonce.as_deref()),
    };
    let Some(verifier) = flow::verifier(login, &secrets.keys, &callback.nonce, &arrived.head) else {
        return fail(login, arrived, "oauth2_no_code_verifier", Some(&callback.nonce));
    };
    let redirect = flow::redirect(login, &arrived.head, &arrived.exchange.connection);
    let grant = Grant::Code {
        code: &callback.code,
        redirect: &redirect,
        verifier: &verifier,
    };
    match exchange::tokens(&login.tokens, &secrets.client, grant, arrived).await {
        Err(answer) => answer,
        Ok(Err(Failure::Refused)) => fail(login, arrived, "oauth2_no_tokens", Some(&callback.nonce)),
        Ok(Err(Failure::Unusable)) => fail(login, arrived, "oauth2_unusable_tokens", Some(&callback.nonce)),
        Ok(Ok(tokens)) => {
            let granted = Granted::of(login, tokens, &arrived.head, now());
            let Some(mut cookies) = granted.cookies(login, &secrets.keys, &arrived.head.headers) else {
                return broken(arrived);
            };
            cookies.extend(flow::end(login, &callback.nonce));
            moved(arrived, &callback.url, cookies, "oauth.logged_in")
        }
    }
}

/// Ends a session, and that at the provider.
fn sign_out(login: &Login, session: &Session, arrived: &Arrived<'_>) -> Flow {
    let head = &arrived.head;
    let home = format!("{}://{}/", head.scheme, head.authority_text());
    let location = match &login.end_session {
        None => home,
        Some(url) => {
            let mut location = format!("{url}&post_logout_redirect_uri={}", escape(home.as_bytes()));
            if !session.id_token.is_empty() {
                location.push_str("&id_token_hint=");
                location.push_str(&escape(session.id_token.as_bytes()));
            }
            location
        }
    };
    moved(
        arrived,
        &location,
        session::deleted(login, &head.headers),
        "oauth.sign_out",
    )
}

/// Sends a client elsewhere.
fn moved(arrived: &Arrived<'_>, location: &str, cookies: Vec<HeaderValue>, details: &'static str) -> Flow {
    let Ok(location) = HeaderValue::from_bytes(location.as_bytes()) else {
        return broken(arrived);
    };
    arrived.exchange.note(|record| record.details = details.into());
    let mut response = local_reply::text(StatusCode::FOUND, Bytes::new(), None, Audience::Http);
    let fields = response.headers_mut();
    fields.insert(header::LOCATION, location);
    for cookie in cookies {
        fields.append(header::SET_COOKIE, cookie);
    }
    Flow::answer_itself(response)
}

/// Refuses a request. The cookies of the login that it ends, if that was begun here, go.
fn fail(login: &Login, arrived: &Arrived<'_>, why: &'static str, nonce: Option<&str>) -> Flow {
    let mut answer = Flow::refuse(arrived, StatusCode::UNAUTHORIZED, "OAuth flow failed.", why);
    if let (Flow::Answer(response), Some(nonce)) = (&mut answer, nonce) {
        for cookie in flow::end(login, nonce) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    answer
}

/// The proxy can't do its part: there are no random numbers, or a location that no header can hold.
fn broken(arrived: &Arrived<'_>) -> Flow {
    Flow::refuse(arrived, StatusCode::INTERNAL_SERVER_ERROR, "", "oauth2_internal_error")
}
