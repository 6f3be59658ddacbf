//! CorsPolicy → [`CorsPolicy`].

use envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors;
use envoy_types::pb::envoy::extensions::filters::http::cors::v3::CorsPolicy as ProtoPolicy;
use envoy_types::pb::google::protobuf::Any;
use http::HeaderValue;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, truth, unpack};
use crate::compile::header::string_condition;
use crate::config::filter::cors::{CorsPolicy, Granted, OtherPreflights};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain, which says nothing itself: routes have their policies.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let Cors {} = unpack(at, config)?;
    Ok(FilterKind::Cors)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    policy(at, &unpack(at, config)?).map(FilterSettings::Cors)
}

fn policy(at: &At<'_>, message: &ProtoPolicy) -> Result<CorsPolicy, Rejection> {
    fields!(at, message => ProtoPolicy {
        allow_origin_string_match, allow_methods, allow_headers, expose_headers, max_age, allow_credentials,
        forward_not_matching_preflights;
        ignore;
        refuse filter_enabled, shadow_enabled, allow_private_network_access
    });
    let list = at.field("allow_origin_string_match");
    let origins = allow_origin_string_match.iter().enumerate();
    Ok(CorsPolicy {
        origins: origins
            .map(|(index, matcher)| string_condition(&list.index(index), matcher))
            .collect::<Result<_, _>>()?,
        methods: granted(&at.field("allow_methods"), allow_methods)?,
        headers: granted(&at.field("allow_headers"), allow_headers)?,
        exposed_headers: value(&at.field("expose_headers"), expose_headers)?,
        max_age: value(&at.field("max_age"), max_age)?,
        credentials: truth(allow_credentials.as_ref()),
        others: match forward_not_matching_preflights {
            Some(forward) if !forward.value => OtherPreflights::Answer,
            _ => OtherPreflights::Forward,
        },
    })
}

fn granted(at: &At<'_>, text: &str) -> Result<Granted, Rejection> {
    Ok(match value(at, text)? {
        None => Granted::Unsaid,
        Some(star) if star == "*" => Granted::Requested,
        Some(listed) => Granted::Listed(listed),
    })
}

fn value(at: &At<'_>, text: &str) -> Result<Option<HeaderValue>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = HeaderValue::from_str(text).map_err(|_| at.error(format!("{text:?} is not a header value")))?;
    Ok(Some(value))
}
