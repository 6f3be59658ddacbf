//! Tokens that requests must carry.

use super::{
    Guards,
    fetching::{Giver, giver},
    header, key_set,
};
use crate::{
    api::security::{
        LocalRef, TextSource,
        jwt::{Jwt, JwtExtractor, JwtProvider, LocalJwks, RemoteJwks},
    },
    engine::reader::Reader,
    name::OutsideService,
    phase::policies::traffic::Problems,
};
use edge_ir::{
    FilterEffect, FilterId, FilterInstance, FilterKind, FilterSettings, KeySet, Rerouting, TokenIssuer, TokenPlace,
    TokenRequirement, Tokens, WithoutToken,
};
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, sync::Arc};

const AREA: &str = "JWT";
/// Longest name of a requirement.
const MAX_NAME: usize = 256;

/// Asks for a token.
pub(super) fn tokens(reader: &Reader<'_>, spec: &Jwt, guards: &mut Guards<'_, '_>, problems: &mut Problems) {
    let without = match (spec.optional, spec.fail_open) {
        (Some(_), Some(_)) => {
            problems.add(
                AREA,
                "optional and failOpen cannot both be set; failOpen already tolerates a missing JWT",
            );
            WithoutToken::None
        }
        (_, Some(true)) => WithoutToken::MissingOrFailed,
        (Some(true), _) => WithoutToken::Missing,
        _ => WithoutToken::None,
    };
    if spec.providers.is_empty() {
        problems.add(AREA, "providers must not be empty");
    }
    let mut names = BTreeSet::new();
    let mut outside = Vec::new();
    let mut issuers: Vec<Arc<TokenIssuer>> = Vec::new();
    for provider in &spec.providers {
        if provider.name.is_empty() {
            problems.add(AREA, "jwt provider cannot be an empty string");
        }
        if !names.insert(&*provider.name) {
            problems.add(AREA, format_args!("provider name {} must be unique", provider.name));
        }
        let issuer = issuer(reader, provider, guards, &mut outside, problems);
        issuers.extend(issuer.map(Arc::new));
    }
    let names: Vec<Arc<str>> = issuers.iter().map(|issuer| Arc::clone(&issuer.name)).collect();
    let requirement = TokenRequirement {
        name: requirement_name(&names, without),
        issuers: names,
        without,
    };
    issuers.sort_by(|a, b| a.name.cmp(&b.name));
    let effect = FilterEffect::Token(Arc::clone(&requirement.name));
    let instance = FilterInstance {
        id: FilterId::shared(FilterKind::JwtAuthn),
        settings: FilterSettings::Tokens(Arc::new(Tokens {
            issuers,
            requirements: vec![requirement],
        })),
    };
    guards.filters.instance(instance, outside, effect);
}

/// The names of its issuers, one of which will do; shortened where that is too long.
fn requirement_name(issuers: &[Arc<str>], without: WithoutToken) -> Arc<str> {
    let mut name = issuers.join("-or-");
    match without {
        WithoutToken::None => {}
        WithoutToken::Missing => name.push_str("-or-missing"),
        WithoutToken::MissingOrFailed => name.push_str("-or-failed"),
    }
    if name.len() > MAX_NAME {
        let digest = format!("{:.16x}", Sha256::digest(&name));
        while name.len() + digest.len() + 1 > MAX_NAME {
            name.pop();
        }
        name = format!("{name}_{digest}");
    }
    name.into()
}

fn issuer(
    reader: &Reader<'_>,
    spec: &JwtProvider,
    guards: &mut Guards<'_, '_>,
    outside: &mut Vec<OutsideService>,
    problems: &mut Problems,
) -> Option<TokenIssuer> {
    let issuer = spec.issuer.as_deref().filter(|issuer| !issuer.is_empty());
    if issuer.is_some_and(|issuer| issuer.contains(':') && !is_uri(issuer)) {
        problems.add(
            AREA,
            "invalid issuer; when issuer contains ':' character, it MUST be a valid URI",
        );
    }
    let reroutes = spec.recompute_route == Some(true);
    if reroutes && spec.claim_to_headers.is_empty() {
        problems.add(AREA, "claimToHeaders must be specified if recomputeRoute is enabled");
    }
    let headers = spec.claim_to_headers.iter().filter_map(|one| {
        if one.claim.is_empty() {
            problems.add(AREA, format_args!("claimToHeaders: header {} has no claim", one.header));
        }
        let header = header(AREA, "claimToHeaders", Some(&one.header), problems)?;
        Some((header, (&*one.claim).into()))
    });
    let headers = headers.collect();
    let keys = match (spec.remote_jwks.as_deref(), spec.local_jwks.as_deref()) {
        (Some(_), Some(_)) => {
            problems.add(AREA, "remoteJWKS and localJWKS cannot both be specified");
            None
        }
        (None, None) => {
            problems.add(AREA, "either remoteJWKS or localJWKS must be specified");
            None
        }
        (Some(remote), None) => fetched(reader, &spec.name, remote, guards, outside, problems),
        (None, Some(local)) => given(reader, local, problems).map(KeySet::Local),
    };
    let mut issuer = TokenIssuer {
        name: Arc::default(),
        claims: (&*spec.name).into(),
        issuer: issuer.map(Into::into),
        audiences: spec.audiences.iter().map(|audience| (&**audience).into()).collect(),
        keys: keys?,
        places: spec
            .extract_from
            .as_deref()
            .map(|from| places(from, problems))
            .unwrap_or_default(),
        headers,
        routing: match reroutes {
            true => Rerouting::Again,
            false => Rerouting::Never,
        },
    };
    // Plain data, which always can be written.
    let text = serde_json::to_vec(&issuer).unwrap_or_default();
    issuer.name = format!("{}_{:.16x}", spec.name, Sha256::digest(text)).into();
    Some(issuer)
}

/// Whether a text begins with a scheme (RFC 3986 §3.1) and goes on behind it.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn places(from: &JwtExtractor, problems: &mut Problems) -> Vec<TokenPlace> {
    let mut places = Vec::new();
    for one in &from.headers {
        let prefix = one.value_prefix.as_deref().unwrap_or_default();
        places.push(TokenPlace::Header {
            name: problems.token(AREA, "extractFrom header", &one.name),
            prefix: problems.text(AREA, "extractFrom valuePrefix", prefix),
        });
    }
    for name in &from.cookies {
        places.push(TokenPlace::Cookie(problems.token(AREA, "extractFrom cookie", name)));
    }
    for name in &from.params {
        places.push(TokenPlace::Query(problems.token(AREA, "extractFrom param", name)));
    }
    places
}

/// Keys that the proxy fetches.
fn fetched(
    reader: &Reader<'_>,
    provider: &str,
    spec: &RemoteJwks,
    guards: &mut Guards<'_, '_>,
    outside: &mut Vec<OutsideService>,
    problems: &mut Problems,
) -> Option<KeySet> {
    if spec.uri.is_empty() {
        problems.add(
            AREA,
            format_args!("uri must be set for remote JWKS provider: {provider}"),
        );
        return None;
    }
    if let Err(why) = OutsideService::at(&spec.uri) {
        problems.add(AREA, format_args!("invalid remote JWKS URI: {why}"));
        return None;
    }
    let (cluster, retry) = match giver(reader, AREA, spec.services(), guards, problems)? {
        Giver::Outside(variant, retry) => {
            let asked = OutsideService::asked_at(&spec.uri, reader.settings().platform);
            if let Err(why) = &asked {
                problems.add(AREA, format_args!("invalid remote JWKS URI: {why}"));
            }
            let at = OutsideService {
                variant: reader.variant_id(variant),
                ..asked.ok()?
            };
            let cluster = reader.outside_cluster_name(&at);
            outside.push(at);
            (cluster, retry)
        }
        Giver::Backend(service) => (reader.cluster_name(service.backend), service.retry),
    };
    Some(KeySet::Remote {
        uri: (&*spec.uri).into(),
        cluster,
        kept: problems.positive(AREA, "CacheDuration", Some(&spec.cache_duration))?,
        pause: problems.positive(AREA, "FailedRefetchDuration", spec.failed_refetch_duration.as_ref()),
        retry,
    })
}

/// Keys as text, from the policy or from an object beside it.
fn given(reader: &Reader<'_>, spec: &LocalJwks, problems: &mut Problems) -> Option<Arc<str>> {
    let text: Arc<str> = match (&spec.r#type, &spec.inline, &spec.value_ref) {
        (TextSource::Inline, Some(text), None) => (&**text).into(),
        (TextSource::ValueRef, None, Some(reference)) => referred(reader, reference, problems)?,
        _ => {
            problems.add(AREA, "Exactly one of inline or valueRef must be set with correct type");
            return None;
        }
    };
    if let Err(why) = key_set::check(&text) {
        problems.add(AREA, why);
    }
    Some(text)
}

/// The text under `jwks`, else under the first key.
fn referred(reader: &Reader<'_>, reference: &LocalRef, problems: &mut Problems) -> Option<Arc<str>> {
    const KEY: &str = "jwks";
    let (namespace, name) = (&reference.home, &reference.name);
    let id = reader.id(namespace, name);
    let found = match &*reference.kind {
        "ConfigMap" => reader.config_map(id).map(|map| {
            let text = map.data.get(KEY).or_else(|| map.data.values().next());
            text.map(Arc::<str>::from)
        }),
        "Secret" => reader.secret(id).map(|secret| {
            let bytes = secret.data.get(KEY).or_else(|| secret.data.values().next());
            bytes
                .and_then(|bytes| std::str::from_utf8(bytes.expose()).ok())
                .map(Into::into)
        }),
        other => {
            problems.add(
                AREA,
                format_args!("local JWKS {other} {namespace}/{name} is no ConfigMap or Secret"),
            );
            return None;
        }
    };
    match found {
        Some(Some(text)) => Some(text),
        Some(None) => {
            problems.add(
                AREA,
                format_args!("local JWKS {} {namespace}/{name} holds no text", reference.kind),
            );
            None
        }
        None => {
            problems.add(
                AREA,
                format_args!("local JWKS {} {namespace}/{name} not found", reference.kind),
            );
            None
        }
    }
}
