//! Logins at an identity provider.

use super::{Guards, credentials::permitted, header, signing};
use crate::{
    api::{
        Text,
        security::{
            PolicyRef,
            jwt::{Jwt, JwtProvider},
            oidc::{CookieSameSite, Oidc, OidcCookieNames, OidcDenyRedirect, OidcDenyRedirectHeader},
        },
        string_match::StringMatch,
    },
    engine::reader::Reader,
    name::{PolicyInstance, SecretForm, SecretKey},
    phase::{
        policies::{secret_text, text_match::text_match, traffic::Problems},
        routes::is_token,
    },
};
use edge_ir::{
    Bearers, CookieTokens, FilterEffect, FilterId, FilterInstance, FilterKind, FilterSettings, ForwardedTokens, Login,
    LoginCookies, Renewal, SameSite, TextMatch,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

pub(crate) mod provider;
mod redirect;

pub(super) const AREA: &str = "OIDC";
/// The scope that makes a request for tokens one for a login (OpenID Connect Core §3.1.2.1).
const OPENID: &str = "openid";

/// Asks clients to log in.
pub(super) fn login(
    reader: &Reader<'_>,
    owner: &Arc<str>,
    spec: &Oidc,
    tokens: Option<&Jwt>,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) {
    let client = client(reader, spec, problems);
    let secret = secret(reader, &spec.client_secret, CLIENT_SECRET, problems);
    let shared = signing::shared(reader)
        .map_err(|missing| problems.add(AREA, format_args!("HMAC secret {missing} not found")))
        .ok();
    let redirect = redirect::redirect(spec, problems);
    let cookies = cookies(owner, spec, problems);
    let forwarded = forwarded(spec, problems);
    let refused = spec.deny_redirect.as_ref().map(|spec| refused(spec, problems));
    let resources = spec.resources.iter();
    let resources = resources.map(|one| problems.text(AREA, "resource", one)).collect();
    let scopes = scopes(spec, problems);
    let bearers = bearers(spec, tokens, problems);
    let token_lifetime = problems.millis(AREA, "DefaultTokenTTL", spec.default_token_ttl.as_ref());
    let login_time = problems.positive(AREA, "CSRFTokenTTL", spec.csrf_token_ttl.as_ref());
    let kept = problems.positive(AREA, "DefaultRefreshTokenTTL", spec.default_refresh_token_ttl.as_ref());
    let provider = provider::provider(reader, &spec.provider, guards, problems);
    let (Some(client), Some(secret), Some(shared), Some(redirect), Some((provider, outside))) =
        (client, secret, shared, redirect, provider)
    else {
        return;
    };
    let signing = signing::own(shared, owner, &spec.provider.issuer, &provider, &client);
    let login = Login {
        provider,
        client,
        secret: secret_text::name(reader, secret),
        signing: secret_text::name(reader, signing),
        redirect: redirect.url,
        callback: redirect.callback,
        logout: redirect.logout,
        scopes,
        resources,
        cookies,
        forwarded,
        renewal: match spec.refresh_token {
            Some(false) => Renewal::Never,
            Some(true) | None => Renewal::ByToken(kept),
        },
        token_lifetime,
        login_time,
        refused: refused.unwrap_or_default(),
        bearers,
    };
    let instance = FilterInstance {
        id: FilterId {
            kind: FilterKind::Oauth2,
            owner: Arc::clone(owner),
        },
        settings: FilterSettings::Login(Arc::new(login)),
    };
    let asked = PolicyInstance {
        instance,
        outside: outside.into_iter().collect(),
        secrets: vec![secret, signing],
    };
    guards.filters.prepared(asked, FilterEffect::On);
}

/// What is wanted of a Secret that a policy names.
#[derive(Clone, Copy)]
struct SecretEntry {
    key: &'static str,
    /// What messages call it.
    what: &'static str,
}

const CLIENT_SECRET: SecretEntry = SecretEntry {
    key: "client-secret",
    what: "client secret",
};
const CLIENT_ID: SecretEntry = SecretEntry {
    key: "client-id",
    what: "client ID",
};

/// The name of the client, as it is written or in a Secret.
fn client(reader: &Reader<'_>, spec: &Oidc, problems: &mut Problems) -> Option<Arc<str>> {
    let name: Arc<str> = match (&spec.client_id, &spec.client_id_ref) {
        (Some(id), None) => (&**id).into(),
        (None, Some(reference)) => {
            let named = secret(reader, reference, CLIENT_ID, problems)?;
            let text = secret_text::text(reader, named)?;
            // Checked to be printable ASCII.
            std::str::from_utf8(text).unwrap_or_default().into()
        }
        _ => {
            problems.add(AREA, "only one of clientID or clientIDRef must be set");
            return None;
        }
    };
    if name.is_empty() || !name.bytes().all(is_visible) {
        problems.add(
            AREA,
            format_args!("client ID {name:?} is empty or holds what no client ID may"),
        );
    }
    Some(name)
}

/// Whether an identity or secret of a client may hold this (RFC 6749 appendix A).
fn is_visible(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// A line of a Secret that the policy names.
fn secret(
    reader: &Reader<'_>,
    reference: &PolicyRef,
    wanted: SecretEntry,
    problems: &mut Problems,
) -> Option<SecretKey> {
    let id = permitted(reader, AREA, reference, problems)?;
    let (namespace, name) = (reader.text(id.namespace), reader.text(id.name));
    let named = SecretKey {
        id,
        key: wanted.key,
        form: SecretForm::Line,
    };
    let what = wanted.what;
    match secret_text::text(reader, named) {
        Some(text) if text.iter().copied().all(is_visible) => Some(named),
        Some(_) => {
            problems.add(
                AREA,
                format_args!(
                    "{what} in secret {namespace}/{name} holds what none may: only printable ASCII is allowed"
                ),
            );
            None
        }
        None => {
            problems.add(AREA, format_args!("{what} not found in secret {namespace}/{name}"));
            None
        }
    }
}

fn scopes(spec: &Oidc, problems: &mut Problems) -> Vec<Arc<str>> {
    let is_scope =
        |scope: &str| !scope.is_empty() && scope.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
    let mut scopes: Vec<Arc<str>> = Vec::new();
    if !spec.scopes.iter().any(|scope| **scope == *OPENID) {
        scopes.push(OPENID.into());
    }
    for scope in &spec.scopes {
        if !is_scope(scope) {
            problems.add(AREA, format_args!("{scope:?} is no scope"));
        }
        scopes.push((&**scope).into());
    }
    scopes
}

/// The cookies. What stands behind their names tells policies apart that serve one host.
fn cookies(owner: &str, spec: &Oidc, problems: &mut Problems) -> LoginCookies {
    let suffix: Arc<str> = format!("{:.8x}", Sha256::digest(owner)).into();
    let OidcCookieNames { access_token, id_token } = spec.cookie_names.clone().unwrap_or_default();
    let mut named = |own: Option<Text>, usual: &str| match own {
        Some(name) => problems.token(AREA, "name of a cookie", &name),
        None => format!("{usual}-{suffix}").into(),
    };
    let (access_token, id_token) = (named(access_token, "AccessToken"), named(id_token, "IdToken"));
    if access_token == id_token {
        problems.add(AREA, format_args!("both tokens can't be in the cookie {id_token}"));
    }
    let domain: Option<Arc<str>> = spec.cookie_domain.as_deref().map(Into::into);
    let is_host = |host: &str| {
        let is_label = |label: &str| {
            let inner = label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
        };
        host.split('.').all(is_label)
    };
    if let Some(domain) = domain.as_deref().filter(|domain| !is_host(domain)) {
        problems.add(AREA, format_args!("cookieDomain {domain:?} is no domain"));
    }
    LoginCookies {
        access_token,
        id_token,
        suffix,
        domain,
        same_site: spec
            .cookie_config
            .as_ref()
            .and_then(|config| same_site(config.same_site.as_ref()?, problems)),
        tokens: match spec.disable_token_encryption {
            Some(true) => CookieTokens::Readable,
            Some(false) | None => CookieTokens::Encrypted,
        },
    }
}

fn same_site(spec: &CookieSameSite, problems: &mut Problems) -> Option<SameSite> {
    match spec {
        CookieSameSite::Lax => Some(SameSite::Lax),
        CookieSameSite::Strict => Some(SameSite::Strict),
        CookieSameSite::None => Some(SameSite::None),
        CookieSameSite::Other(other) => {
            problems.add(AREA, format_args!("sameSite {other} is not Lax, Strict or None"));
            None
        }
    }
}

fn forwarded(spec: &Oidc, problems: &mut Problems) -> ForwardedTokens {
    let named = spec.forward_id_token.as_ref().map(|forwarding| &*forwarding.header);
    let access_token = spec.forward_access_token == Some(true);
    if access_token && named.is_some_and(|name| name.eq_ignore_ascii_case("authorization")) {
        problems.add(
            AREA,
            "forwardAccessToken cannot be true when forwardIDToken.header is Authorization",
        );
    }
    ForwardedTokens {
        access_token,
        id_token: header(AREA, "forwardIDToken", named, problems),
    }
}

fn refused(spec: &OidcDenyRedirect, problems: &mut Problems) -> Vec<TextMatch> {
    if spec.headers.is_empty() {
        problems.add(AREA, "denyRedirect needs a header");
    }
    let headers = spec.headers.iter();
    headers.filter_map(|header| condition(header, problems)).collect()
}

fn condition(header: &OidcDenyRedirectHeader, problems: &mut Problems) -> Option<TextMatch> {
    let name = &*header.name;
    // What HTTP/2 keeps apart from headers is one too, for a proxy.
    if !is_token(name.strip_prefix(':').unwrap_or(name)) {
        problems.add(AREA, format_args!("denyRedirect header {name:?} is not a valid name"));
    }
    let text = StringMatch {
        r#type: header.r#type.clone(),
        value: header.value.clone(),
    };
    Some(TextMatch {
        name: name.to_ascii_lowercase().into(),
        text: text_match(AREA, &text, problems)?,
    })
}

/// Whether requests with a bearer token pass. They do only where a token that isn't valid ends them.
fn bearers(spec: &Oidc, tokens: Option<&Jwt>, problems: &mut Problems) -> Bearers {
    if spec.pass_through_auth_header != Some(true) {
        return Bearers::LogIn;
    }
    match tokens {
        None => problems.add(
            AREA,
            "the OIDC.PassThroughAuthHeader setting must be used in conjunction with JWT settings",
        ),
        Some(tokens) if !tokens.providers.iter().any(reads_bearers) => problems.add(
            AREA,
            "the OIDC.PassThroughAuthHeader setting needs a JWT provider that takes the token from the Authorization \
             header",
        ),
        Some(tokens) if tokens.fail_open == Some(true) => problems.add(
            AREA,
            "the OIDC.PassThroughAuthHeader setting would let every request with an Authorization header through, as \
             jwt.failOpen is set",
        ),
        Some(_) => {}
    }
    Bearers::Pass
}

/// Whether a provider looks for a token where bearers have it.
fn reads_bearers(provider: &JwtProvider) -> bool {
    let Some(from) = provider.extract_from.as_deref() else {
        return true;
    };
    let is_usual = from.headers.is_empty() && from.cookies.is_empty() && from.params.is_empty();
    let is_bearer = |prefix: Option<&str>| prefix.is_some_and(|prefix| prefix.trim_end() == "Bearer");
    is_usual
        || from.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case("authorization") && is_bearer(header.value_prefix.as_deref())
        })
}
