//! What cookies of logins look like: as the policy says, and of one form on either data plane.

use super::{
    Guarded, HOST, get,
    logins::{Browser, location, secret, told},
    provider::{ACCESS, CLIENT, Provider, SECRET},
};
use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{http::Response, stack::DataPlane};
use sha2::{Digest as _, Sha256};
use std::fs;

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |byte: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ byte).collect() };
    let inner = Sha256::digest([&padded(0x36), message].concat());
    Sha256::digest([&padded(0x5c)[..], &inner].concat()).into()
}

/// Whether a response sets a cookie of a name with these attributes.
fn is_set(answer: &Response, name: &str, attributes: &str) -> Result<()> {
    let set = answer.headers.iter().filter(|(header, _)| header == "set-cookie");
    let mut named = set.map(|(_, cookie)| cookie).filter(|cookie| cookie.starts_with(name));
    let cookie = named.next().with_context(|| format!("no {name} in {answer:?}"))?;
    let (_, found) = cookie.split_once(';').context("no attributes")?;
    ensure!(found == attributes, "{name}: {found}");
    Ok(())
}

pub(crate) fn cookies_of_logins_are_of_one_form(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    www.stack.put("client.yaml", &secret(SECRET))?;
    let issuer = provider.issuer();
    www.guard(&format!(
        "  oidc:
    provider:
      issuer: '{issuer}'
      authorizationEndpoint: '{issuer}/auth'
      tokenEndpoint: '{issuer}/token'
      endSessionEndpoint: '{issuer}/end'
    clientID: {CLIENT}
    clientSecret: {{ name: client }}
    forwardAccessToken: true
    cookieNames: {{ accessToken: At, idToken: It }}
    cookieConfig: {{ sameSite: Strict }}
    cookieDomain: example.com
    logoutPath: /leave
    csrfTokenTTL: 5m
    defaultRefreshTokenTTL: 1h
    disableTokenEncryption: true
"
    ))?;
    let sent = www.answers(&get(&[]), 302)?;
    let attributes = "domain=example.com;path=/;Max-Age=300;secure;HttpOnly;SameSite=Lax";
    is_set(&sent, "OauthNonce-", attributes)?;
    is_set(&sent, "CodeVerifier-", attributes)?;

    // Whom the provider lets in gets a session with these cookies.
    let mut ann = Browser::default();
    let back = ann.logs_in(&www, &provider)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    let kept = |age: u32| format!("domain=example.com;path=/;Max-Age={age};secure;HttpOnly;SameSite=Strict");
    for name in ["At=", "OauthHMAC-", "OauthExpires-"] {
        is_set(&back, name, &kept(3600))?;
    }
    is_set(&back, "RefreshToken-", &kept(3600))?;
    let seen = told(&ann.asks(&www, "/")?, "Authorization")?;
    ensure!(seen == format!("Bearer {ACCESS}"), "{seen}");

    // It is signed over what Envoy signs, so that either proxy knows the sessions of both, with a key of the policy's
    // own.
    let key = fs::read(www.stack.site.path("config/certs/edge-oidc-hmac/hmac-secret"))?;
    let identity = [
        "securitypolicy/default/guard",
        &issuer,
        &format!("{issuer}/auth"),
        &format!("{issuer}/token"),
        CLIENT,
    ];
    let key = hmac(&key, &Sha256::digest(identity.join("\n"))[..16]);
    let value = |browser: &Browser, name: &str| browser.cookie(name).map(str::to_owned);
    let sign = |browser: &Browser, access: &str| -> Result<String> {
        let parts = ["OauthExpires", "It", "RefreshToken"].map(|name| value(browser, name));
        let [expires, id, refresh] = parts;
        let message = format!("example.com\n{}\n{access}\n{}\n{}", expires?, id?, refresh?);
        Ok(STANDARD.encode(hmac(&key, message.as_bytes())))
    };
    ensure!(
        value(&ann, "OauthHMAC")? == sign(&ann, ACCESS)?,
        "signed in another form"
    );
    let made = ann.with("At", "another")?.with("OauthHMAC", &sign(&ann, "another")?)?;
    let seen = told(&{ made }.asks(&www, "/")?, "Authorization")?;
    ensure!(seen == "Bearer another", "{seen}");

    // Who leaves is led to where the provider ends its session too, and has none here.
    let left = ann.asks(&www, "/leave")?;
    let led = location(&left)?.to_owned();
    ensure!(led.starts_with(&format!("{issuer}/end?")), "{led}");
    let parameters = super::provider::form(led.split_once('?').unwrap_or_default().1);
    ensure!(
        parameters.get("client_id").is_some_and(|client| client == CLIENT),
        "{led}"
    );
    let home = parameters.get("post_logout_redirect_uri");
    ensure!(home.is_some_and(|home| *home == format!("http://{HOST}/")), "{led}");
    let hint = parameters.get("id_token_hint");
    ensure!(hint.is_some_and(|hint| hint.split('.').count() == 3), "{led}");
    ensure!(ann.asks(&www, "/")?.status == 302, "the session is over");
    www.open()
}
