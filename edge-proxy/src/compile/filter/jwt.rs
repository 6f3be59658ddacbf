//! JwtAuthentication → [`Tokens`], and the keys of issuers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::HttpUri;
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::jwt_provider::{
    JwksSourceSpecifier, NormalizePayload,
};
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::jwt_requirement::RequiresType;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::per_route_config::RequirementSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::{
    JwksAsyncFetch, JwtAuthentication, JwtClaimToHeader, JwtHeader, JwtProvider, JwtRequirement, PerRouteConfig,
    RemoteJwks,
};
use envoy_types::pb::google::protobuf::Any;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, header};
use prost::Message;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, deadline, duration, fields, unpack};
use crate::compile::files;
use crate::compile::retry;
use crate::compile::template::header_name;
use crate::config::ClusterId;
use crate::config::filter::jwt::{
    Audience, Claim, FetchMode, Issuer, KeySet, KeySource, Padding, PayloadHeader, RemoteKeys, Requirement,
    RouteRequirement, TokenPlace, Tokens,
};
use crate::config::filter::{FilterKind, FilterSettings};

/// What a requirement stands among.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Others of which one is enough.
    Alternatives,
    /// Others that must be met as well, or none.
    Demands,
}

type Issuers = BTreeMap<String, Arc<Issuer>>;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: JwtAuthentication = unpack(at, config)?;
    fields!(at, &message => JwtAuthentication {
        providers, requirement_map;
        ignore stat_prefix;
        refuse rules, filter_state_rules, bypass_cors_preflight, strip_failure_response
    });
    let list = at.field("providers");
    let mut issuers = Issuers::new();
    // In the order of their names, so that the first fault is the same one every time.
    for (name, provider) in providers.iter().collect::<BTreeMap<_, _>>() {
        issuers.insert(name.clone(), Arc::new(issuer(&list.field(name), provider, context)?));
    }
    let list = at.field("requirement_map");
    let requirements = requirement_map.iter().map(|(name, one)| {
        let requirement = requirement(&list.field(name), one, &issuers, Among::Demands)?;
        Ok((name.as_str().into(), requirement))
    });
    let telling = issuers.values().flat_map(|issuer| issuer.telling().cloned());
    Ok(FilterKind::Tokens(Tokens {
        requirements: requirements.collect::<Result<_, Rejection>>()?,
        telling: telling.collect(),
    }))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: PerRouteConfig = unpack(at, config)?;
    match &message.requirement_specifier {
        Some(RequirementSpecifier::Disabled(true)) => Ok(FilterSettings::Tokens(RouteRequirement::Nothing)),
        Some(RequirementSpecifier::Disabled(false)) => Err(at.field("disabled").error("must be true")),
        Some(RequirementSpecifier::RequirementName(name)) => {
            Ok(FilterSettings::Tokens(RouteRequirement::Named(name.as_str().into())))
        }
        None => Err(at.error("disabled or requirement_name is required")),
    }
}

fn requirement(
    at: &At<'_>,
    message: &JwtRequirement,
    issuers: &Issuers,
    among: Among,
) -> Result<Requirement, Rejection> {
    let all = |field: &str, list: &[JwtRequirement], among| {
        let at = at.field(field);
        let list = list.iter().enumerate();
        list.map(|(index, one)| requirement(&at.index(index), one, issuers, among))
            .collect::<Result<Box<[_]>, _>>()
    };
    Ok(match &message.requires_type {
        Some(RequiresType::ProviderName(name)) => {
            let unknown = || at.field("provider_name").error(format!("{name:?} is no provider"));
            Requirement::Issuer(Arc::clone(issuers.get(name).ok_or_else(unknown)?))
        }
        Some(RequiresType::RequiresAny(list)) => {
            Requirement::OneOf(all("requires_any", &list.requirements, Among::Alternatives)?)
        }
        Some(RequiresType::RequiresAll(list)) => {
            Requirement::All(all("requires_all", &list.requirements, Among::Demands)?)
        }
        Some(RequiresType::AllowMissing(_)) if among == Among::Alternatives => Requirement::Missing,
        Some(RequiresType::AllowMissingOrFailed(_)) if among == Among::Alternatives => Requirement::MissingOrFailed,
        Some(RequiresType::AllowMissing(_) | RequiresType::AllowMissingOrFailed(_)) => {
            return Err(at.error("allow_missing is supported in requires_any alone by this proxy"));
        }
        Some(RequiresType::ProviderAndAudiences(_)) => return Err(at.unsupported("provider_and_audiences")),
        Some(RequiresType::ExtractOnlyWithoutValidation(_)) => {
            return Err(at.unsupported("extract_only_without_validation"));
        }
        None => return Err(at.error("is required")),
    })
}

fn issuer(at: &At<'_>, message: &JwtProvider, context: &mut Context) -> Result<Issuer, Rejection> {
    fields!(at, message => JwtProvider {
        issuer, audiences, require_expiration, forward, from_headers, from_params, from_cookies,
        forward_payload_header, pad_forward_payload_header, payload_in_metadata, normalize_payload_in_metadata,
        clock_skew_seconds, claim_to_headers, clear_route_cache, jwks_source_specifier;
        // A cache only saves time.
        ignore jwt_cache_config;
        refuse subjects, max_lifetime, header_in_metadata, failed_status_in_metadata
    });
    let keys = match jwks_source_specifier {
        Some(JwksSourceSpecifier::LocalJwks(source)) => {
            let at = at.field("local_jwks");
            let keys = KeySet::read(&files::bytes(&at, source, &*context.files)?).map_err(|why| at.error(why))?;
            KeySource::Local(Arc::new(keys))
        }
        Some(JwksSourceSpecifier::RemoteJwks(message)) => {
            KeySource::Remote(remote(&at.field("remote_jwks"), message, context)?)
        }
        None => return Err(at.field("local_jwks").error("is required")),
    };
    let padding = match pad_forward_payload_header {
        true => Padding::Padded,
        false => Padding::Unpadded,
    };
    let spaced = match normalize_payload_in_metadata {
        None => Vec::new(),
        Some(message) => {
            fields!(at, message => NormalizePayload { space_delimited_claims; ignore; refuse });
            space_delimited_claims
                .iter()
                .map(|claim| claim.as_str().into())
                .collect()
        }
    };
    let list = at.field("claim_to_headers");
    let claims = claim_to_headers.iter().enumerate();
    Ok(Issuer {
        name: issuer.as_str().into(),
        audiences: audiences.iter().map(|audience| Audience::of(audience)).collect(),
        places: places(at, from_headers, from_params, from_cookies)?,
        keys,
        skew: match clock_skew_seconds {
            0 => Duration::from_secs(60),
            seconds => Duration::from_secs((*seconds).into()),
        },
        must_expire: *require_expiration,
        forwarded: *forward,
        payload: (!forward_payload_header.is_empty())
            .then(|| header_name(&at.field("forward_payload_header"), forward_payload_header))
            .transpose()?
            .map(|name| PayloadHeader { name, padding }),
        metadata: payload_in_metadata.as_str().into(),
        spaced: spaced.into(),
        claims: claims
            .map(|(index, one)| claim(&list.index(index), one))
            .collect::<Result<_, _>>()?,
        reroutes: *clear_route_cache,
    })
}

/// The keys that a server has: those that are in use already, or of which nothing is known yet.
fn remote(at: &At<'_>, message: &RemoteJwks, context: &mut Context) -> Result<Arc<RemoteKeys>, Rejection> {
    let keys = unknown(at, message, context)?;
    let all = (keys.cluster, message.encode_to_vec());
    if let Some(known) = context.remote_keys.get(&all).and_then(Weak::upgrade) {
        return Ok(known);
    }
    let keys = Arc::new(keys);
    context.remote_keys.retain(|_, keys| keys.strong_count() > 0);
    context.remote_keys.insert(all, Arc::downgrade(&keys));
    Ok(keys)
}

/// Keys of which nothing is known.
fn unknown(at: &At<'_>, message: &RemoteJwks, context: &mut Context) -> Result<RemoteKeys, Rejection> {
    fields!(at, message => RemoteJwks { http_uri, cache_duration, async_fetch, retry_policy; ignore; refuse });
    let at_uri = at.field("http_uri");
    let Some(uri) = http_uri else {
        return Err(at_uri.error("is required"));
    };
    fields!(at_uri, uri => HttpUri { uri, timeout, http_upstream_type; ignore; refuse });
    let wrong = || at_uri.field("uri").error(format!("{uri:?} is not a URI with a host"));
    let parsed: Uri = uri.parse().map_err(|_| wrong())?;
    let authority = parsed.authority().ok_or_else(wrong)?;
    let Some(HttpUpstreamType::Cluster(cluster)) = http_upstream_type else {
        return Err(at_uri.field("cluster").error("is required"));
    };
    let target = parsed.path_and_query().cloned();
    let mut keys = RemoteKeys::new(
        ClusterId(context.clusters.intern(cluster)),
        HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?,
        target.unwrap_or_else(|| PathAndQuery::from_static("/")),
    );
    keys.timeout = deadline(&at_uri.field("timeout"), timeout.as_ref(), None)?;
    keys.retry = retry::of_service(context, at, retry_policy.as_ref(), Some(retry::FIXED_WORDS))?;
    if let Some(kept) = cache_duration {
        keys.kept = duration(&at.field("cache_duration"), kept)?;
    }
    if let Some(message) = async_fetch {
        let at = at.field("async_fetch");
        keys.mode = FetchMode::Eager;
        // A listener never waits for them: its first requests do, as long as the first fetch takes.
        fields!(at, message => JwksAsyncFetch { failed_refetch_duration; ignore fast_listener; refuse });
        if let Some(pause) = failed_refetch_duration {
            keys.pause = duration(&at.field("failed_refetch_duration"), pause)?;
        }
    }
    Ok(keys)
}

fn places(
    at: &At<'_>,
    headers: &[JwtHeader],
    params: &[String],
    cookies: &[String],
) -> Result<Box<[TokenPlace]>, Rejection> {
    let list = at.field("from_headers");
    let mut places = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        let at = list.index(index);
        fields!(at, header => JwtHeader { name, value_prefix; ignore; refuse });
        let name = header_name(&at.field("name"), name)?;
        places.push(TokenPlace::Header(name, value_prefix.as_str().into()));
    }
    places.extend(params.iter().map(|name| TokenPlace::Query(name.as_str().into())));
    places.extend(cookies.iter().map(|name| TokenPlace::Cookie(name.as_str().into())));
    if places.is_empty() {
        places.push(TokenPlace::Header(header::AUTHORIZATION, "Bearer ".into()));
        places.push(TokenPlace::Query("access_token".into()));
    }
    Ok(places.into())
}

fn claim(at: &At<'_>, message: &JwtClaimToHeader) -> Result<Claim, Rejection> {
    fields!(at, message => JwtClaimToHeader { header_name, claim_name; ignore; refuse claim_path });
    let name = self::header_name(&at.field("header_name"), header_name)?;
    Ok(Claim {
        header: name,
        path: claim_name.split('.').map(Into::into).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{files, prefixed_headers};

    fn keys(uri: &str) -> RemoteJwks {
        let cluster = HttpUpstreamType::Cluster("idp".to_owned());
        let uri = HttpUri {
            uri: uri.to_owned(),
            timeout: None,
            http_upstream_type: Some(cluster),
        };
        RemoteJwks {
            http_uri: Some(uri),
            ..RemoteJwks::default()
        }
    }

    #[test]
    fn what_is_known_of_keys_stays_while_they_are_in_use() {
        let mut context = Context::new(Box::new(files::Disk), prefixed_headers("").unwrap(), 1);
        let mut compiled = |message: &RemoteJwks| remote(&At::root(), message, &mut context).unwrap();
        let one = compiled(&keys("http://idp.example/keys"));
        let other = compiled(&keys("http://idp.example/others"));
        assert!(Arc::ptr_eq(&one, &compiled(&keys("http://idp.example/keys"))));
        assert!(!Arc::ptr_eq(&one, &other));
        drop((one, other));
        let again = compiled(&keys("http://idp.example/keys"));
        assert_eq!((again.next_fetch(), context.remote_keys.len()), (None, 1));
    }
}
