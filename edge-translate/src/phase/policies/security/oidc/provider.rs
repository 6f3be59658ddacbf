//! The identity provider: where its endpoints are, as the policy says or as the provider itself does (OpenID Connect
//! Discovery 1.0).
//!
//! The document of the provider is a fact of the world outside, asked for by its URL. While nobody has told it, the
//! policy waits and what it covers is closed.

use super::AREA;
use crate::{
    api::{Text, security::oidc::OidcProvider},
    engine::reader::Reader,
    fact::Fetched,
    name::{OutsideService, outside},
    phase::policies::{
        security::{
            Guards,
            fetching::{Giver, giver},
        },
        traffic::Problems,
    },
};
use edge_ir::{ClientProof, LoginProvider};
use serde::Deserialize;
use std::sync::Arc;

/// Where a provider keeps what it says of itself, behind the URL of the issuer.
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// The endpoints that every login needs.
const AUTHORIZATION: &str = "authorization_endpoint";
const TOKEN: &str = "token_endpoint";

/// What a provider says of itself.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The provider, and the service outside that gives tokens unless a backend does.
pub(super) fn provider(
    reader: &Reader<'_>,
    spec: &OidcProvider,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) -> Option<(LoginProvider, Option<OutsideService>)> {
    let issuer = &*spec.issuer;
    if let Err(why) = outside::check(issuer) {
        problems.add(AREA, format_args!("invalid issuer {issuer}: {why}"));
        return None;
    }
    let given = [&spec.token_endpoint, &spec.end_session_endpoint].map(Option::as_deref);
    for (url, why) in flaws(spec.authorization_endpoint.as_deref(), given) {
        problems.add(AREA, format_args!("invalid endpoint {url}: {why}"));
    }
    // Asked even where the provider says nothing yet: who is asked doesn't depend on that.
    let giver = giver(reader, AREA, spec.services(), guards, problems)?;
    let is_complete = spec.authorization_endpoint.is_some() && spec.token_endpoint.is_some();
    let configuration = match is_complete {
        true => Configuration::default(),
        false => discovered(reader, issuer, guards, problems)?,
    };
    let chosen = |own: &Option<Text>, found: Option<String>| own.as_deref().map(Into::into).or(found.map(Into::into));
    let mut endpoint = |own: &Option<Text>, found: Option<String>, name: &str| -> Option<Arc<str>> {
        let url = chosen(own, found);
        if url.is_none() {
            problems.add(AREA, format_args!("{name} not found in OpenID configuration"));
        }
        url
    };
    let authorization = endpoint(
        &spec.authorization_endpoint,
        configuration.authorization_endpoint,
        AUTHORIZATION,
    );
    let token = endpoint(&spec.token_endpoint, configuration.token_endpoint, TOKEN);
    let (authorization, token) = (authorization?, token?);
    let (cluster, retry, outside) = match giver {
        Giver::Backend(service) => (reader.cluster_name(service.backend), service.retry, None),
        Giver::Outside(variant, retry) => {
            let asked = OutsideService::asked_at(&token, reader.settings().platform);
            if let Err(why) = &asked {
                problems.add(AREA, format_args!("invalid endpoint {token}: {why}"));
            }
            let at = OutsideService {
                variant: reader.variant_id(variant),
                ..asked.ok()?
            };
            (reader.outside_cluster_name(&at), retry, Some(at))
        }
    };
    let methods = configuration.token_endpoint_auth_methods_supported.unwrap_or_default();
    let provider = LoginProvider {
        authorization,
        token,
        end_session: chosen(&spec.end_session_endpoint, configuration.end_session_endpoint),
        cluster,
        retry,
        proof: proof(&methods),
    };
    Some((provider, outside))
}

/// How a client proves who it is, by what a provider takes: the header, unless it takes the body alone.
fn proof(methods: &[String]) -> ClientProof {
    let has = |name: &str| methods.iter().any(|method| method == name);
    match has("client_secret_post") && !has("client_secret_basic") {
        true => ClientProof::Body,
        false => ClientProof::Header,
    }
}

/// What is wrong with URLs of a provider's endpoints. Proxies are told the one where users log in; whom they ask for
/// tokens is judged as the service that it is.
fn flaws<'a>(
    authorization: Option<&'a str>,
    others: [Option<&'a str>; 2],
) -> impl Iterator<Item = (&'a str, &'static str)> {
    let told = authorization.into_iter().map(|url| (url, outside::check_told(url)));
    let others = others.into_iter().flatten().map(|url| (url, outside::check(url)));
    told.chain(others)
        .filter_map(|(url, judged)| Some((url, judged.err()?)))
}

/// What the provider says of itself; none while that isn't known, or can't be believed.
fn discovered(
    reader: &Reader<'_>,
    issuer: &str,
    guards: &mut Guards<'_, '_>,
    problems: &mut Problems,
) -> Option<Configuration> {
    if let Err(why) = outside::check_fetched(issuer, reader.settings().platform) {
        problems.add(AREA, format_args!("invalid issuer {issuer}: {why}"));
        return None;
    }
    let url = format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'));
    let text = match reader.document(&url) {
        Some(Fetched::Text(text)) => text,
        Some(Fetched::Failed(why)) => {
            problems.add(
                AREA,
                format_args!("failed fetching openid-configuration from issuer URL: {issuer}, {why}"),
            );
            return None;
        }
        None => {
            guards.waits.push(format!("{AREA}: {url} is being fetched."));
            return None;
        }
    };
    match read(text, issuer) {
        Ok(configuration) => Some(configuration),
        Err(why) => {
            problems.add(AREA, format_args!("OpenID configuration at {url} can't be used: {why}"));
            None
        }
    }
}

/// Whether what stands at a URL now can take the place of what stood there: whoever fetches documents keeps the one
/// before where it can't, as where nothing came. A page of maintenance with status 200 says nothing of a provider.
pub fn check_oidc_discovery(url: &str, now: &str, before: Option<&str>) -> Result<(), String> {
    let Some(issuer) = url.strip_suffix(WELL_KNOWN) else {
        return Ok(());
    };
    let unusable = |why: String| format!("the answer can't be used: {why}");
    let now = read(now, issuer).map_err(unusable)?;
    let before = before.and_then(|before| read(before, issuer).ok());
    let before = before.unwrap_or_default();
    for (name, had, has) in [
        (
            AUTHORIZATION,
            &before.authorization_endpoint,
            &now.authorization_endpoint,
        ),
        (TOKEN, &before.token_endpoint, &now.token_endpoint),
    ] {
        if had.is_some() && has.is_none() {
            return Err(unusable(format!("it names no {name} any more")));
        }
    }
    Ok(())
}

/// Reads what a provider says of itself. What it names is asked as safely as the provider itself.
fn read(text: &str, issuer: &str) -> Result<Configuration, String> {
    let mut configuration: Configuration =
        serde_json::from_str(text).map_err(|error| format!("it is no such JSON document: {error}"))?;
    // Some write down what they don't have as an empty text.
    for endpoint in [
        &mut configuration.authorization_endpoint,
        &mut configuration.token_endpoint,
        &mut configuration.end_session_endpoint,
    ] {
        endpoint.take_if(|url| url.is_empty());
    }
    let own = &configuration.issuer;
    if own.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(format!("it is that of the issuer {own:?}"));
    }
    let authorization = configuration.authorization_endpoint.as_deref();
    let others = [&configuration.token_endpoint, &configuration.end_session_endpoint].map(Option::as_deref);
    if let Some((url, why)) = flaws(authorization, others).next() {
        return Err(format!("endpoint {url}: {why}"));
    }
    for url in authorization.into_iter().chain(others.into_iter().flatten()) {
        if issuer.starts_with("https://") && !url.starts_with("https://") {
            return Err(format!("endpoint {url} is not asked in TLS, as the issuer is"));
        }
    }
    Ok(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_believed_about_itself_alone() {
        let text = |issuer: &str, token: &str| {
            format!(
                r#"{{"issuer": "{issuer}", "authorization_endpoint": "https://idp.example/auth",
                    "token_endpoint": "{token}", "scopes_supported": ["openid"]}}"#
            )
        };
        let token = "https://tokens.example/token";
        let found = read(&text("https://idp.example", token), "https://idp.example/").unwrap();
        assert_eq!(found.token_endpoint.as_deref(), Some(token));
        for (document, why) in [
            (text("https://other.example", token), "issuer \"https://other.example\""),
            (text("https://idp.example", "http://tokens.example"), "not asked in TLS"),
            (text("https://idp.example", "tokens"), "must begin with"),
            ("<html>".to_owned(), "no such JSON"),
        ] {
            let error = read(&document, "https://idp.example").err().unwrap_or_default();
            assert!(error.contains(why), "{document}: {error}");
        }
    }

    #[test]
    fn an_endpoint_of_no_letters_is_none() {
        let text = r#"{"issuer": "https://idp.example", "authorization_endpoint": "https://idp.example/auth",
            "token_endpoint": "", "end_session_endpoint": ""}"#;
        let found = read(text, "https://idp.example").unwrap();
        assert!(found.authorization_endpoint.is_some());
        assert_eq!((found.token_endpoint, found.end_session_endpoint), (None, None));
    }

    #[test]
    fn what_a_provider_says_gives_way_to_what_can_be_used_alone() {
        let url = format!("https://idp.example{WELL_KNOWN}");
        let check = |now: &str, before| check_oidc_discovery(&url, now, before);
        let ends = |text: &str| format!(r#"{{"issuer": "https://idp.example", {text}}}"#);
        let login = r#""authorization_endpoint": "https://idp.example/auth""#;
        let (part, whole) = (
            ends(login),
            ends(&format!(r#"{login}, "token_endpoint": "https://idp.example/token""#)),
        );
        assert_eq!(check(&part, None), Ok(()), "the policy may name the rest");
        assert_eq!(check(&whole, Some(&part)), Ok(()));
        assert_eq!(check(&part, Some("<html>")), Ok(()));
        for (now, why) in [
            (&*part, "it names no token_endpoint any more"),
            ("<html>", "no such JSON"),
            (r#"{"issuer": "https://other.example"}"#, "issuer"),
        ] {
            let error = check(now, Some(&whole)).unwrap_err();
            assert!(error.contains(why), "{now}: {error}");
        }
        assert_eq!(check_oidc_discovery("https://a.example/keys", "<html>", None), Ok(()));
    }

    #[test]
    fn a_client_proves_itself_as_the_provider_asks() {
        let proof = |methods: &[&str]| proof(&methods.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(proof(&[]), ClientProof::Header);
        assert_eq!(proof(&["client_secret_post"]), ClientProof::Body);
        assert_eq!(
            proof(&["client_secret_post", "client_secret_basic"]),
            ClientProof::Header
        );
    }
}
