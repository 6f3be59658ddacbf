//! RateLimit and RateLimitPerRoute → [`RateLimitService`] and [`GlobalRateLimits`].

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, GrpcService};
use envoy_types::pb::envoy::config::ratelimit::v3::RateLimitServiceConfig;
use envoy_types::pb::envoy::config::route::v3::RateLimit as ProtoRule;
use envoy_types::pb::envoy::config::route::v3::rate_limit::Override;
use envoy_types::pb::envoy::config::route::v3::rate_limit::r#override::OverrideSpecifier;
use envoy_types::pb::envoy::extensions::filters::http::ratelimit::v3::rate_limit::XRateLimitHeadersRfcVersion;
use envoy_types::pb::envoy::extensions::filters::http::ratelimit::v3::{RateLimit, RateLimitPerRoute};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::Any;
use http::{HeaderValue, StatusCode};

use super::rate_limit_descriptor::descriptor;
use crate::compile::Context;
use crate::compile::access::metadata_path;
use crate::compile::field::{At, Rejection, deadline, fields, unpack};
use crate::config::ClusterId;
use crate::config::access::MetadataPath;
use crate::config::filter::global_rate_limit::{GlobalRateLimits, GlobalRule, RateLimitService, When};
use crate::config::filter::{FilterKind, FilterSettings};

/// How long the service may take where nothing is said.
const USUAL_TIMEOUT: Duration = Duration::from_millis(20);

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: RateLimit = unpack(at, config)?;
    fields!(at, &message => RateLimit {
        domain, request_type, timeout, failure_mode_deny, rate_limited_as_resource_exhausted, rate_limit_service,
        enable_x_ratelimit_headers, disable_x_envoy_ratelimited_header, rate_limited_status, status_on_error;
        // Statistics.
        ignore stat_prefix;
        refuse stage, response_headers_to_add, filter_enabled, filter_enforced, failure_mode_deny_percent, rate_limits,
               metadata_namespace, enable_retry_after_header
    });
    if !matches!(request_type.as_str(), "" | "both") {
        return Err(at.unsupported("request_type"));
    }
    let at_headers = at.field("enable_x_ratelimit_headers");
    let sends_limit_headers = match XRateLimitHeadersRfcVersion::try_from(*enable_x_ratelimit_headers) {
        Ok(XRateLimitHeadersRfcVersion::Off) => false,
        Ok(XRateLimitHeadersRfcVersion::DraftVersion03) => true,
        Err(_) => return Err(at_headers.error("is not known")),
    };
    let at_service = at.field("rate_limit_service");
    let (cluster, authority) = service(&at_service, rate_limit_service.as_ref(), context)?;
    let unanswered = status(
        &at.field("status_on_error"),
        status_on_error.as_ref(),
        StatusCode::INTERNAL_SERVER_ERROR,
    )?;
    let limited = status(
        &at.field("rate_limited_status"),
        rate_limited_status.as_ref(),
        StatusCode::TOO_MANY_REQUESTS,
    )?;
    Ok(FilterKind::RateLimitService(RateLimitService {
        cluster,
        authority,
        timeout: deadline(&at.field("timeout"), timeout.as_ref(), Some(USUAL_TIMEOUT))?,
        domain: domain.as_str().into(),
        unanswered: failure_mode_deny.then_some(unanswered),
        status: limited,
        exhausted: *rate_limited_as_resource_exhausted,
        sends_limit_headers,
        adds_ratelimited_header: !disable_x_envoy_ratelimited_header,
    }))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: RateLimitPerRoute = unpack(at, config)?;
    fields!(at, &message => RateLimitPerRoute {
        rate_limits, domain;
        // About limits of virtual hosts, which are refused.
        ignore vh_rate_limits, override_option;
        refuse
    });
    let list = at.field("rate_limits");
    let rules = rate_limits.iter().enumerate();
    Ok(FilterSettings::GlobalRateLimits(GlobalRateLimits {
        domain: (!domain.is_empty()).then(|| domain.as_str().into()),
        rules: rules
            .map(|(index, message)| rule(&list.index(index), message))
            .collect::<Result<_, _>>()?,
    }))
}

fn rule(at: &At<'_>, message: &ProtoRule) -> Result<GlobalRule, Rejection> {
    // What a service that counts elsewhere understands, and a bucket of our own doesn't.
    let bare = ProtoRule {
        limit: None,
        apply_on_stream_done: false,
        ..message.clone()
    };
    let limit = message.limit.as_ref();
    Ok(GlobalRule {
        descriptor: descriptor(at, &bare)?,
        limit: limit.map(|limit| self::limit(&at.field("limit"), limit)).transpose()?,
        when: match message.apply_on_stream_done {
            true => When::Over,
            false => When::Asked,
        },
    })
}

fn limit(at: &At<'_>, message: &Override) -> Result<MetadataPath, Rejection> {
    let metadata = match &message.override_specifier {
        Some(OverrideSpecifier::DynamicMetadata(metadata)) => metadata,
        Some(OverrideSpecifier::RateLimit(_)) => return Err(at.unsupported("rate_limit")),
        None => return Err(at.field("dynamic_metadata").error("is required")),
    };
    let at = at.field("dynamic_metadata");
    let at = at.field("metadata_key");
    match &metadata.metadata_key {
        Some(key) => metadata_path(&at, key),
        None => Err(at.error("is required")),
    }
}

fn service(
    at: &At<'_>,
    message: Option<&RateLimitServiceConfig>,
    context: &mut Context,
) -> Result<(ClusterId, HeaderValue), Rejection> {
    let Some(message) = message else {
        return Err(at.error("is required"));
    };
    fields!(at, message => RateLimitServiceConfig { grpc_service, transport_api_version; ignore; refuse });
    if *transport_api_version != ApiVersion::V3 as i32 {
        return Err(at.field("transport_api_version").error("must be V3"));
    }
    let at = at.field("grpc_service");
    let Some(service) = grpc_service else {
        return Err(at.error("is required"));
    };
    fields!(at, service => GrpcService {
        target_specifier;
        // The filter has one of its own.
        ignore timeout;
        refuse initial_metadata, retry_policy
    });
    let Some(TargetSpecifier::EnvoyGrpc(target)) = target_specifier else {
        return Err(at.field("envoy_grpc").error("is required"));
    };
    let at = at.field("envoy_grpc");
    fields!(at, target => EnvoyGrpc {
        cluster_name, authority; ignore max_receive_message_length; refuse retry_policy, skip_envoy_headers
    });
    let name = if authority.is_empty() { cluster_name } else { authority };
    let authority = HeaderValue::from_str(name).map_err(|_| at.field("authority").error("is not a host"))?;
    Ok((ClusterId(context.clusters.intern(cluster_name)), authority))
}

/// As in Envoy: what is no error isn't said to one who is refused.
fn status(at: &At<'_>, message: Option<&HttpStatus>, usual: StatusCode) -> Result<StatusCode, Rejection> {
    match message.map(|status| status.code) {
        Some(code @ 400..600) => StatusCode::from_u16(code as u16).map_err(|_| at.error("is not a status")),
        _ => Ok(usual),
    }
}
