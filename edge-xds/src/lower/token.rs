//! Tokens: who issues them, and which a route asks for.

use super::common::{duration, retries};
use crate::wire::joined;
use edge_ir::{KeySet, Rerouting, Timeout, TokenIssuer, TokenPlace, TokenRequirement, Tokens, WithoutToken};
use envoy_types::pb::{
    envoy::{
        config::core::v3::{DataSource, HttpUri, data_source::Specifier, http_uri::HttpUpstreamType},
        extensions::filters::http::jwt_authn::v3::{
            JwksAsyncFetch, JwtAuthentication, JwtClaimToHeader, JwtHeader, JwtProvider, JwtRequirement,
            JwtRequirementOrList, PerRouteConfig, RemoteJwks,
            jwt_provider::{JwksSourceSpecifier, NormalizePayload},
            jwt_requirement::RequiresType,
            per_route_config::RequirementSpecifier,
        },
    },
    google::protobuf::Any,
};
use prost::Name;

/// Longest wait for the keys of an issuer.
const FETCH: Timeout = Timeout(10_000);

/// Claims that hold several words in one text (RFC 8693 §4.2).
const SPACED: [&str; 2] = ["scope", "scp"];

/// What the routes of a listener ask of tokens. Written entry by entry: a map has no order of its own.
pub(super) fn tokens(tokens: &Tokens) -> Any {
    let issuers = tokens.issuers.iter().map(|one| JwtAuthentication {
        providers: [(one.name.to_string(), issuer(one))].into(),
        ..Default::default()
    });
    let requirements = tokens.requirements.iter().map(|one| JwtAuthentication {
        requirement_map: [(one.name.to_string(), requirement(one))].into(),
        ..Default::default()
    });
    Any {
        type_url: JwtAuthentication::type_url(),
        value: joined(issuers.chain(requirements)),
    }
}

/// Asks for what a requirement says. A route whose requirement the chain doesn't have lets nobody through.
pub(super) fn asked(requirement: &str) -> PerRouteConfig {
    PerRouteConfig {
        requirement_specifier: Some(RequirementSpecifier::RequirementName(requirement.to_owned())),
    }
}

fn requirement(requirement: &TokenRequirement) -> JwtRequirement {
    let is = |requires_type: RequiresType| JwtRequirement {
        requires_type: Some(requires_type),
    };
    let issuers = requirement.issuers.iter();
    let mut any: Vec<_> = issuers
        .map(|name| is(RequiresType::ProviderName(name.to_string())))
        .collect();
    match requirement.without {
        WithoutToken::None => {}
        WithoutToken::Missing => any.push(is(RequiresType::AllowMissing(Default::default()))),
        WithoutToken::MissingOrFailed => any.push(is(RequiresType::AllowMissingOrFailed(Default::default()))),
    }
    match any.len() {
        1 => any.swap_remove(0),
        _ => is(RequiresType::RequiresAny(JwtRequirementOrList { requirements: any })),
    }
}

fn issuer(issuer: &TokenIssuer) -> JwtProvider {
    let mut provider = JwtProvider {
        issuer: issuer.issuer.as_deref().unwrap_or_default().to_owned(),
        audiences: issuer.audiences.iter().map(ToString::to_string).collect(),
        forward: true,
        payload_in_metadata: issuer.claims.to_string(),
        normalize_payload_in_metadata: Some(NormalizePayload {
            space_delimited_claims: SPACED.map(ToOwned::to_owned).to_vec(),
        }),
        claim_to_headers: issuer
            .headers
            .iter()
            .map(|(header, claim)| JwtClaimToHeader {
                header_name: header.to_string(),
                claim_name: claim.to_string(),
                ..Default::default()
            })
            .collect(),
        clear_route_cache: issuer.routing == Rerouting::Again,
        jwks_source_specifier: Some(keys(&issuer.keys)),
        ..Default::default()
    };
    for place in &issuer.places {
        match place {
            TokenPlace::Header { name, prefix } => provider.from_headers.push(JwtHeader {
                name: name.to_string(),
                value_prefix: prefix.to_string(),
            }),
            TokenPlace::Cookie(name) => provider.from_cookies.push(name.to_string()),
            TokenPlace::Query(name) => provider.from_params.push(name.to_string()),
        }
    }
    provider
}

fn keys(keys: &KeySet) -> JwksSourceSpecifier {
    match keys {
        KeySet::Local(text) => JwksSourceSpecifier::LocalJwks(DataSource {
            specifier: Some(Specifier::InlineString(text.to_string())),
            ..Default::default()
        }),
        KeySet::Remote {
            uri,
            cluster,
            kept,
            pause,
            retry,
        } => JwksSourceSpecifier::RemoteJwks(RemoteJwks {
            http_uri: Some(HttpUri {
                uri: uri.to_string(),
                timeout: Some(duration(FETCH)),
                http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.to_string())),
            }),
            cache_duration: Some(duration(*kept)),
            // Ahead of the first request, which would wait for them otherwise.
            async_fetch: Some(JwksAsyncFetch {
                // A listener that waited for them would leave its routes to the one before it, which knows no tokens.
                fast_listener: true,
                failed_refetch_duration: pause.map(duration),
            }),
            retry_policy: retry.as_ref().map(retries),
        }),
    }
}
