//! OAuth2 → [`Login`]; its secrets come with the listener's others.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::HttpUri;
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::route::v3::HeaderMatcher;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::o_auth2_config::AuthType;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::o_auth2_credentials::{CookieNames, TokenFormation};
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::{
    CookieConfig, CookieConfigs, OAuth2, OAuth2Config, OAuth2Credentials, OAuth2TokenForwarding,
    cookie_config::SameSite,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::PathMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::path_matcher::Rule;
use envoy_types::pb::google::protobuf::{Any, Duration as ProtoDuration};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, header};

use crate::compile::Context;
use crate::compile::credential::CredentialUse;
use crate::compile::field::{At, Rejection, deadline, duration, fields, unpack};
use crate::compile::header::{header_condition, string_condition};
use crate::compile::retry;
use crate::compile::secret::SecretKey;
use crate::compile::template::{header_name, template};
use crate::config::ClusterId;
use crate::config::filter::FilterKind;
use crate::config::filter::credential_injector::Slot;
use crate::config::filter::oauth2::{
    Authorization, ClientProof, Cookie, Forwarded, Keys, Lifetimes, Login, LoginCookies, TokenEndpoint, escape,
};
use crate::config::header::{HeaderCondition, HeaderTemplate, StringCondition};

/// The parameters of a request for authorization (RFC 6749 §4.1.1, RFC 7636 §4.3).
const PARAMETERS: [&str; 7] = [
    "client_id",
    "response_type",
    "scope",
    "state",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
];

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: OAuth2 = unpack(at, config)?;
    fields!(at, &message => OAuth2 { config; ignore; refuse });
    let at = at.field("config");
    match config {
        Some(config) => Ok(FilterKind::Login(Box::new(login(&at, config, context)?))),
        None => Err(at.error("is required")),
    }
}

fn login(at: &At<'_>, message: &OAuth2Config, context: &mut Context) -> Result<Login, Rejection> {
    fields!(at, message => OAuth2Config {
        token_endpoint, retry_policy, authorization_endpoint, end_session_endpoint, credentials, redirect_uri,
        redirect_path_matcher, signout_path, forward_bearer_token, forward_id_token, preserve_authorization_header,
        pass_through_matcher, auth_scopes, resources, auth_type, use_refresh_token, default_expires_in,
        deny_redirect_matcher, default_refresh_token_expires_in, disable_id_token_set_cookie,
        disable_access_token_set_cookie, disable_refresh_token_set_cookie, cookie_configs, csrf_token_expires_in,
        code_verifier_token_expires_in, disable_token_encryption, use_access_token_expiry_for_id_token_cookie;
        // Statistics.
        ignore stat_prefix;
        refuse post_logout_redirect_uri, allow_failed_matcher, original_request_uri, allowed_redirect_domains,
               private_key_jwt_config
    });
    let proof = match AuthType::try_from(*auth_type) {
        Ok(AuthType::UrlEncodedBody) => ClientProof::Body,
        Ok(AuthType::BasicAuth) => ClientProof::Header,
        Ok(AuthType::TlsClientAuth) => ClientProof::Certificate,
        _ => return Err(at.unsupported("auth_type")),
    };
    let client = client(&at.field("credentials"), credentials.as_ref(), proof, context)?;
    let (name, scopes) = (client.name.clone(), auth_scopes);
    let mut cookies = cookies(at, &client, cookie_configs.as_ref())?;
    let renews = use_refresh_token.as_ref().is_none_or(|renews| renews.value);
    cookies.access_token.is_set = !disable_access_token_set_cookie;
    cookies.id_token.is_set = !disable_id_token_set_cookie;
    cookies.refresh_token.is_set = !disable_refresh_token_set_cookie && renews;
    cookies.sealed = !disable_token_encryption;
    let keys = Arc::clone(&client.keys);
    let mut tokens = tokens(&at.field("token_endpoint"), token_endpoint.as_ref(), client, context)?;
    tokens.proof = proof;
    let authorized = match (*forward_bearer_token, *preserve_authorization_header) {
        (true, true) => return Err(at.unsupported("preserve_authorization_header")),
        (true, false) => Authorized::AccessToken,
        (false, true) => Authorized::Client,
        (false, false) => Authorized::Nobody,
    };
    tokens.retry = retry::of_service(context, at, retry_policy.as_ref(), Some(retry::FIXED_WORDS))?;
    let seconds = |field: &str, value: &Option<ProtoDuration>, usual| seconds(&at.field(field), value.as_ref(), usual);
    // Envoy's times where none are said.
    tokens.usual_lifetime = seconds("default_expires_in", default_expires_in, 0)?;
    let kept = seconds(
        "default_refresh_token_expires_in",
        default_refresh_token_expires_in,
        604_800,
    )?;
    Ok(Login {
        authorization: Authorization {
            endpoint: authorization(
                &at.field("authorization_endpoint"),
                authorization_endpoint,
                &name,
                scopes,
            )?,
            resources: resources
                .iter()
                .map(|resource| format!("&resource={}", escape(resource.as_bytes())))
                .collect::<String>()
                .into(),
            redirect: redirect(&at.field("redirect_uri"), redirect_uri)?,
        },
        tokens,
        callback: path(&at.field("redirect_path_matcher"), redirect_path_matcher.as_ref())?,
        sign_out: path(&at.field("signout_path"), signout_path.as_ref())?,
        end_session: end_session(&at.field("end_session_endpoint"), end_session_endpoint, &name, scopes)?,
        passed: conditions(&at.field("pass_through_matcher"), pass_through_matcher)?,
        refused: conditions(&at.field("deny_redirect_matcher"), deny_redirect_matcher)?,
        forwarded: forwarded(at, forward_id_token.as_ref(), authorized)?,
        lifetimes: Lifetimes {
            refresh_token: renews.then_some(kept),
            id_token_as_access_token: *use_access_token_expiry_for_id_token_cookie,
            nonce: seconds("csrf_token_expires_in", csrf_token_expires_in, 600)?,
            verifier: seconds("code_verifier_token_expires_in", code_verifier_token_expires_in, 600)?,
        },
        cookies,
        keys,
    })
}

/// Who speaks in `authorization` to backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Authorized {
    /// Nobody, or the id token.
    Nobody,
    /// The client itself.
    Client,
    /// The access token.
    AccessToken,
}

/// What the proxy is to the provider, and what it keeps sessions with.
struct Client<'m> {
    name: Box<str>,
    secret: Arc<Slot<Arc<[u8]>>>,
    keys: Arc<Slot<Arc<Keys>>>,
    cookies: Option<&'m CookieNames>,
    domain: Option<&'m str>,
}

fn client<'m>(
    at: &At<'_>,
    message: Option<&'m OAuth2Credentials>,
    proof: ClientProof,
    context: &mut Context,
) -> Result<Client<'m>, Rejection> {
    let Some(message) = message else {
        return Err(at.error("is required"));
    };
    fields!(at, message => OAuth2Credentials {
        client_id, token_secret, cookie_names, cookie_domain, token_formation; ignore; refuse
    });
    if client_id.is_empty() {
        return Err(at.field("client_id").error("is required"));
    }
    let signing = token_formation
        .as_ref()
        .map(|TokenFormation::HmacSecret(secret)| secret);
    let (keys, secret): (Arc<Slot<_>>, Arc<Slot<_>>) = Default::default();
    let key = self::secret(&at.field("hmac_secret"), signing)?;
    context.credentials.push(CredentialUse::Keys(key, Arc::clone(&keys)));
    match proof {
        // Nobody is told it, if there is one.
        ClientProof::Certificate => secret.set(Arc::default()),
        ClientProof::Body | ClientProof::Header => {
            let key = self::secret(&at.field("token_secret"), token_secret.as_ref())?;
            context.credentials.push(CredentialUse::Bytes(key, Arc::clone(&secret)));
        }
    }
    Ok(Client {
        name: client_id.as_str().into(),
        secret,
        keys,
        cookies: cookie_names.as_ref(),
        domain: Some(cookie_domain.as_str()).filter(|domain| !domain.is_empty()),
    })
}

fn secret(at: &At<'_>, reference: Option<&SdsSecretConfig>) -> Result<SecretKey, Rejection> {
    match reference {
        Some(reference) => SecretKey::of(at, reference),
        None => Err(at.error("is required")),
    }
}

fn tokens(
    at: &At<'_>,
    message: Option<&HttpUri>,
    client: Client<'_>,
    context: &mut Context,
) -> Result<TokenEndpoint, Rejection> {
    let Some(message) = message else {
        return Err(at.error("is required"));
    };
    fields!(at, message => HttpUri { uri, timeout, http_upstream_type; ignore; refuse });
    let Some(HttpUpstreamType::Cluster(cluster)) = http_upstream_type else {
        return Err(at.field("cluster").error("is required"));
    };
    let parsed = url(&at.field("uri"), uri)?;
    let authority = parsed.authority().map_or("", |authority| authority.as_str());
    Ok(TokenEndpoint {
        cluster: ClusterId(context.clusters.intern(cluster)),
        authority: HeaderValue::from_str(authority).map_err(|_| at.field("uri").error("has no host"))?,
        target: parsed
            .path_and_query()
            .cloned()
            .unwrap_or(PathAndQuery::from_static("/")),
        timeout: deadline(&at.field("timeout"), timeout.as_ref(), None)?,
        retry: None,
        proof: ClientProof::Body,
        client: client.name,
        usual_lifetime: 0,
        secret: client.secret,
    })
}

/// A URL of HTTP with a host.
fn url(at: &At<'_>, text: &str) -> Result<Uri, Rejection> {
    let parsed = text.parse::<Uri>().ok();
    let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https")) && url.authority().is_some();
    parsed
        .filter(is_http)
        .ok_or_else(|| at.error(format!("{text:?} is not a URL of HTTP")))
}

/// A URL and a `?` or `&` behind it, with what it says itself but these parameters.
fn open_url(at: &At<'_>, text: &str, without: &[&str]) -> Result<String, Rejection> {
    let parsed = url(at, text)?;
    let (scheme, path) = (parsed.scheme_str().unwrap_or("https"), parsed.path());
    let authority = parsed.authority().map_or("", |authority| authority.as_str());
    let mut open = format!("{scheme}://{authority}{path}?");
    let own = parsed.query().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
    for pair in own.filter(|pair| !without.contains(&pair.split('=').next().unwrap_or(pair))) {
        open.push_str(pair);
        open.push('&');
    }
    Ok(open)
}

fn authorization(at: &At<'_>, endpoint: &str, client: &str, scopes: &[String]) -> Result<Box<str>, Rejection> {
    // As in Envoy: who asks for nothing asks for this.
    let scope = if scopes.is_empty() {
        "user".to_owned()
    } else {
        scopes.join(" ")
    };
    let open = open_url(at, endpoint, &PARAMETERS)?;
    let (client, scope) = (escape(client.as_bytes()), escape(scope.as_bytes()));
    Ok(format!("{open}client_id={client}&response_type=code&scope={scope}").into())
}

fn end_session(at: &At<'_>, endpoint: &str, client: &str, scopes: &[String]) -> Result<Option<Box<str>>, Rejection> {
    if endpoint.is_empty() {
        return Ok(None);
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        return Err(at.error("is for OpenID Connect alone: auth_scopes must have \"openid\""));
    }
    let open = open_url(
        at,
        endpoint,
        &["id_token_hint", "client_id", "post_logout_redirect_uri"],
    )?;
    Ok(Some(format!("{open}client_id={}", escape(client.as_bytes())).into()))
}

fn redirect(at: &At<'_>, text: &str) -> Result<HeaderTemplate, Rejection> {
    match text {
        "" => Err(at.error("is required")),
        text => template(at, text),
    }
}

fn path(at: &At<'_>, message: Option<&PathMatcher>) -> Result<StringCondition, Rejection> {
    match message.and_then(|message| message.rule.as_ref()) {
        Some(Rule::Path(matcher)) => string_condition(&at.field("path"), matcher),
        None => Err(at.field("path").error("is required")),
    }
}

fn conditions(at: &At<'_>, list: &[HeaderMatcher]) -> Result<Box<[HeaderCondition]>, Rejection> {
    let list = list.iter().enumerate();
    list.map(|(index, matcher)| header_condition(&at.index(index), matcher))
        .collect()
}

/// Whole seconds.
fn seconds(at: &At<'_>, value: Option<&ProtoDuration>, usual: u64) -> Result<u64, Rejection> {
    value.map_or(Ok(usual), |value| Ok(duration(at, value)?.as_secs()))
}

/// What backends are told. Two things can't stand in one header.
fn forwarded(
    at: &At<'_>,
    id_token: Option<&OAuth2TokenForwarding>,
    others: Authorized,
) -> Result<Forwarded, Rejection> {
    let at_id = at.field("forward_id_token");
    let at_id = at_id.field("header");
    let header = match id_token {
        None => None,
        Some(OAuth2TokenForwarding { header }) if header.eq_ignore_ascii_case("host") => {
            return Err(at_id.error("must not be host"));
        }
        Some(OAuth2TokenForwarding { header }) => Some(header_name(&at_id, header)?),
    };
    match (
        header.as_ref().is_some_and(|name| name == header::AUTHORIZATION),
        others,
    ) {
        (true, Authorized::AccessToken | Authorized::Client) => {
            Err(at_id.error("authorization is the client's or the access token's"))
        }
        _ => Ok(Forwarded {
            access_token: others == Authorized::AccessToken,
            id_token: header,
            authorization: others == Authorized::Client,
        }),
    }
}

fn cookies(at: &At<'_>, client: &Client<'_>, configs: Option<&CookieConfigs>) -> Result<LoginCookies, Rejection> {
    let at_credentials = at.field("credentials");
    let at_names = at_credentials.field("cookie_names");
    let unnamed = CookieNames::default();
    let names = client.cookies.unwrap_or(&unnamed);
    fields!(at_names, names => CookieNames {
        bearer_token, oauth_hmac, oauth_expires, id_token, refresh_token, oauth_nonce, code_verifier; ignore; refuse
    });
    let at_configs = at.field("cookie_configs");
    let plain = CookieConfigs::default();
    let configs = configs.unwrap_or(&plain);
    fields!(at_configs, configs => CookieConfigs {
        bearer_token_cookie_config, oauth_hmac_cookie_config, oauth_expires_cookie_config, id_token_cookie_config,
        refresh_token_cookie_config, oauth_nonce_cookie_config, code_verifier_cookie_config; ignore; refuse
    });
    let cookie = |field: &str, name: &String, usual: &str, config: &Option<CookieConfig>| {
        let name = if name.is_empty() { usual } else { name };
        let attributes = attributes(&at_configs, config.as_ref())?;
        Cookie::new(name, &attributes.path, client.domain, &attributes.rest).ok_or_else(|| {
            at_names
                .field(field)
                .error("can't be a cookie with this domain and path")
        })
    };
    Ok(LoginCookies {
        access_token: cookie("bearer_token", bearer_token, "BearerToken", bearer_token_cookie_config)?,
        id_token: cookie("id_token", id_token, "IdToken", id_token_cookie_config)?,
        refresh_token: cookie(
            "refresh_token",
            refresh_token,
            "RefreshToken",
            refresh_token_cookie_config,
        )?,
        proof: cookie("oauth_hmac", oauth_hmac, "OauthHMAC", oauth_hmac_cookie_config)?,
        expires: cookie(
            "oauth_expires",
            oauth_expires,
            "OauthExpires",
            oauth_expires_cookie_config,
        )?,
        nonce: cookie("oauth_nonce", oauth_nonce, "OauthNonce", oauth_nonce_cookie_config)?,
        verifier: cookie(
            "code_verifier",
            code_verifier,
            "CodeVerifier",
            code_verifier_cookie_config,
        )?,
        domain: client.domain.map(Into::into),
        sealed: true,
    })
}

/// The attributes of a cookie that are said of it.
struct Attributes {
    path: String,
    rest: String,
}

fn attributes(at: &At<'_>, config: Option<&CookieConfig>) -> Result<Attributes, Rejection> {
    let plain = CookieConfig::default();
    let config = config.unwrap_or(&plain);
    fields!(at, config => CookieConfig { same_site, path, partitioned; ignore; refuse });
    let same_site = match SameSite::try_from(*same_site) {
        Ok(SameSite::Disabled) => "",
        Ok(SameSite::Strict) => ";SameSite=Strict",
        Ok(SameSite::Lax) => ";SameSite=Lax",
        Ok(SameSite::None) => ";SameSite=None",
        Err(_) => return Err(at.unsupported("same_site")),
    };
    let partitioned = if *partitioned { ";Partitioned" } else { "" };
    Ok(Attributes {
        path: if path.is_empty() { "/".to_owned() } else { path.clone() },
        rest: format!("{same_site}{partitioned}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_keeps_what_it_says_but_what_the_proxy_says() {
        let at = At::root();
        let open = |text| open_url(&at, text, &PARAMETERS).ok();
        assert_eq!(
            open("https://idp.example/auth").as_deref(),
            Some("https://idp.example/auth?")
        );
        assert_eq!(
            open("http://idp:8080/auth?tenant=a&state=forged&x").as_deref(),
            Some("http://idp:8080/auth?tenant=a&x&")
        );
        assert_eq!(open("idp.example/auth"), None);
        assert_eq!(open("ftp://idp.example/auth"), None);
        let scopes = ["openid".to_owned(), "a b".to_owned()];
        assert_eq!(
            &*authorization(&at, "https://idp/auth", "my&app", &scopes).expect("a URL"),
            "https://idp/auth?client_id=my%26app&response_type=code&scope=openid%20a%20b"
        );
        assert!(end_session(&at, "https://idp/end", "app", &scopes[1..]).is_err());
        assert_eq!(
            end_session(&at, "https://idp/end?a=b", "app", &scopes)
                .expect("a URL")
                .as_deref(),
            Some("https://idp/end?a=b&client_id=app")
        );
    }

    #[test]
    fn who_shows_a_certificate_needs_no_secret() {
        let login = |auth_type: &str, secret: Option<&str>| {
            let generic = |name: &str| serde_json::json!({"name": name, "sds_config": {"ads": {}}});
            let path = |path: &str| serde_json::json!({"path": {"exact": path}});
            let message = serde_json::json!({
                "token_endpoint": {"cluster": "idp", "uri": "https://idp/token", "timeout": "3s"},
                "authorization_endpoint": "https://idp/auth",
                "redirect_uri": "https://www/back",
                "redirect_path_matcher": path("/back"),
                "signout_path": path("/logout"),
                "auth_type": auth_type,
                "credentials": {
                    "client_id": "app", "hmac_secret": generic("hmac"), "token_secret": secret.map(generic),
                },
            });
            let message: OAuth2Config = edge_xds::json::from_json(message).expect("a message");
            let prefixed = crate::compile::prefixed_headers("x-edge").expect("a prefix");
            let mut context = Context::new(Box::new(crate::compile::files::Disk), prefixed, 1);
            let login = login(&At::root(), &message, &mut context);
            login.map(|login| {
                let tokens = login.tokens;
                (tokens.proof, tokens.secret.get().is_some(), context.credentials.len())
            })
        };
        let certificate = (ClientProof::Certificate, true, 1);
        assert_eq!(login("TLS_CLIENT_AUTH", None).ok(), Some(certificate));
        assert_eq!(login("TLS_CLIENT_AUTH", Some("secret")).ok(), Some(certificate));
        // Others wait for it.
        let body = (ClientProof::Body, false, 2);
        assert_eq!(login("URL_ENCODED_BODY", Some("secret")).ok(), Some(body));
        for auth_type in ["URL_ENCODED_BODY", "BASIC_AUTH"] {
            let error = login(auth_type, None).expect_err("no secret").to_string();
            assert!(error.starts_with("credentials.token_secret"), "{error}");
        }
        assert!(login("PRIVATE_KEY_JWT", Some("secret")).is_err());
    }

    #[test]
    fn one_header_has_one_meaning() {
        let at = At::root();
        let forwarded = |header: &str, others| {
            let header = header.to_owned();
            forwarded(&at, Some(&OAuth2TokenForwarding { header }), others)
        };
        assert!(forwarded("Authorization", Authorized::AccessToken).is_err());
        assert!(forwarded("authorization", Authorized::Client).is_err());
        assert!(forwarded("Host", Authorized::Nobody).is_err() && forwarded(":path", Authorized::Nobody).is_err());
        let both = forwarded("x-id-token", Authorized::AccessToken).expect("supported");
        assert!(both.access_token && both.id_token.is_some() && !both.authorization);
    }
}
