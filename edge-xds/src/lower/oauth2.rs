//! Logins at an identity provider.

use super::common::{duration, retries, secret_from_ads, text_matcher};
use edge_ir::{
    Bearers, ClientProof, CookieTokens, Login, LoginCookies, Renewal, SameSite, TextMatch, TextMatcher, Timeout,
};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{HttpUri, http_uri::HttpUpstreamType},
            route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
        },
        extensions::filters::http::oauth2::v3::{
            CookieConfig, CookieConfigs, OAuth2, OAuth2Config, OAuth2Credentials, OAuth2TokenForwarding,
            cookie_config::SameSite as CookieSameSite,
            o_auth2_config::AuthType,
            o_auth2_credentials::{CookieNames, TokenFormation},
        },
        r#type::matcher::v3::{PathMatcher, StringMatcher, path_matcher::Rule, string_matcher::MatchPattern},
    },
    google::protobuf::BoolValue,
};

/// Longest wait for a token.
const FETCH: Timeout = Timeout(10_000);

/// The filter of an instance; a route switches it on.
pub(super) fn lower(login: &Login) -> OAuth2 {
    let provider = &login.provider;
    let (renewed, kept) = match login.renewal {
        Renewal::Never => (false, None),
        Renewal::ByToken(kept) => (true, kept),
    };
    let forwarded = login.forwarded.id_token.as_ref();
    let config = OAuth2Config {
        token_endpoint: Some(HttpUri {
            uri: provider.token.to_string(),
            timeout: Some(duration(FETCH)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(provider.cluster.to_string())),
        }),
        retry_policy: provider.retry.as_ref().map(retries),
        authorization_endpoint: provider.authorization.to_string(),
        end_session_endpoint: provider.end_session.as_deref().unwrap_or_default().to_owned(),
        credentials: Some(credentials(login)),
        redirect_uri: login.redirect.to_string(),
        redirect_path_matcher: Some(path(&login.callback)),
        signout_path: Some(path(&login.logout)),
        forward_bearer_token: login.forwarded.access_token,
        forward_id_token: forwarded.map(|header| OAuth2TokenForwarding {
            header: header.to_string(),
        }),
        pass_through_matcher: match login.bearers {
            Bearers::LogIn => Vec::new(),
            Bearers::Pass => vec![header(&TextMatch {
                name: "authorization".into(),
                text: TextMatcher::Prefix("Bearer ".into()),
            })],
        },
        auth_scopes: login.scopes.iter().map(ToString::to_string).collect(),
        resources: login.resources.iter().map(ToString::to_string).collect(),
        auth_type: match provider.proof {
            ClientProof::Header => AuthType::BasicAuth,
            ClientProof::Body => AuthType::UrlEncodedBody,
        }
        .into(),
        use_refresh_token: Some(BoolValue { value: renewed }),
        default_expires_in: login.token_lifetime.map(duration),
        default_refresh_token_expires_in: kept.map(duration),
        deny_redirect_matcher: login.refused.iter().map(header).collect(),
        cookie_configs: login.cookies.same_site.map(cookies),
        csrf_token_expires_in: login.login_time.map(duration),
        code_verifier_token_expires_in: login.login_time.map(duration),
        disable_token_encryption: login.cookies.tokens == CookieTokens::Readable,
        ..Default::default()
    };
    OAuth2 { config: Some(config) }
}

fn credentials(login: &Login) -> OAuth2Credentials {
    let LoginCookies {
        access_token,
        id_token,
        suffix,
        domain,
        ..
    } = &login.cookies;
    let named = |base: &str| format!("{base}-{suffix}");
    OAuth2Credentials {
        client_id: login.client.to_string(),
        token_secret: Some(secret_from_ads(&login.secret)),
        cookie_names: Some(CookieNames {
            bearer_token: access_token.to_string(),
            id_token: id_token.to_string(),
            oauth_hmac: named("OauthHMAC"),
            oauth_expires: named("OauthExpires"),
            refresh_token: named("RefreshToken"),
            oauth_nonce: named("OauthNonce"),
            code_verifier: named("CodeVerifier"),
        }),
        cookie_domain: domain.as_deref().unwrap_or_default().to_owned(),
        token_formation: Some(TokenFormation::HmacSecret(secret_from_ads(&login.signing))),
    }
}

fn cookies(same_site: SameSite) -> CookieConfigs {
    let config = |same_site: CookieSameSite| {
        Some(CookieConfig {
            same_site: same_site.into(),
            ..Default::default()
        })
    };
    let (kept, on_the_way) = match same_site {
        SameSite::Lax => (CookieSameSite::Lax, CookieSameSite::Lax),
        SameSite::Strict => (CookieSameSite::Strict, CookieSameSite::Lax),
        SameSite::None => (CookieSameSite::None, CookieSameSite::None),
    };
    CookieConfigs {
        bearer_token_cookie_config: config(kept),
        oauth_hmac_cookie_config: config(kept),
        oauth_expires_cookie_config: config(kept),
        id_token_cookie_config: config(kept),
        refresh_token_cookie_config: config(kept),
        oauth_nonce_cookie_config: config(on_the_way),
        code_verifier_cookie_config: config(on_the_way),
    }
}

/// This path, without its query.
fn path(path: &str) -> PathMatcher {
    PathMatcher {
        rule: Some(Rule::Path(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(path.to_owned())),
            ignore_case: false,
        })),
    }
}

fn header(header: &TextMatch) -> HeaderMatcher {
    HeaderMatcher {
        name: header.name.to_string(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(text_matcher(&header.text))),
        ..Default::default()
    }
}
