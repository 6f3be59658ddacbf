//! What a route does: forwarding, redirects, direct responses.

use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format as ContentFormat;
use envoy_types::pb::envoy::config::core::v3::{RoutingPriority, SubstitutionFormatString};
use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::route::Action as ProtoAction;
use envoy_types::pb::envoy::config::route::v3::route_action::upgrade_config::ConnectConfig;
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy,
    UpgradeConfig as ProtoUpgrade,
};
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::cluster_weight;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, RedirectAction, RetryPolicy as ProtoRetryPolicy, RouteAction,
    WeightedCluster as ProtoWeighted,
};
use http::{HeaderValue, StatusCode};

use crate::compile::Context;
use crate::compile::access_log;
use crate::compile::field::{At, Rejection, deadline, duration, fields};
use crate::compile::files;
use crate::compile::filter;
use crate::compile::hash_policy::hash_policies;
use crate::compile::header::{edits, regex_rewrite};
use crate::compile::retry::retry_policy;
use crate::compile::route::{Edits, Levels, fraction};
use crate::compile::template::header_name;
use crate::config::ClusterId;
use crate::config::filter::RouteFilters;
use crate::config::http_manager::{Connect, Upgrade};
use crate::config::route::{
    Action, ClusterChoice, DirectBody, DirectResponse, Forward, Fraction, HostRewrite, Mirror, PathRewrite, Redirect,
    RedirectPath, RedirectScheme, WeightedCluster, WeightedClusters,
};

/// What wider levels give to a route.
#[derive(Clone, Copy)]
pub(super) struct Inherited<'a> {
    /// What is said of filters.
    pub(super) filters: &'a RouteFilters,
    pub(super) levels: Levels<'a>,
    pub(super) max_body: usize,
    pub(super) body_limit: Option<usize>,
    pub(super) mirrors: &'a [RequestMirrorPolicy],
    pub(super) retry: Option<&'a ProtoRetryPolicy>,
    pub(super) attempt_count_in_request: bool,
    pub(super) attempt_count_in_response: bool,
}

/// Compiles the action of a route.
pub(super) fn action(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoAction,
    own: &Edits,
    inherited: &Inherited<'_>,
) -> Result<Action, Rejection> {
    Ok(match message {
        ProtoAction::Route(message) => {
            Action::Forward(Box::new(forward(context, &at.field("route"), message, own, inherited)?))
        }
        ProtoAction::Redirect(message) => Action::Redirect(Box::new(redirect(&at.field("redirect"), message)?)),
        ProtoAction::DirectResponse(message) => {
            let at = at.field("direct_response");
            Action::Direct(Box::new(direct_response(context, &at, message, inherited.max_body)?))
        }
        ProtoAction::FilterAction(_) => return Err(at.unsupported("filter_action")),
        ProtoAction::NonForwardingAction(_) => return Err(at.unsupported("non_forwarding_action")),
    })
}

fn forward(
    context: &mut Context,
    at: &At<'_>,
    message: &RouteAction,
    own: &Edits,
    inherited: &Inherited<'_>,
) -> Result<Forward, Rejection> {
    fields!(at, message => RouteAction {
        cluster_not_found_response_code, prefix_rewrite, regex_rewrite, append_x_forwarded_host, timeout, idle_timeout,
        retry_policy, request_mirror_policies, priority, upgrade_configs, max_stream_duration, cluster_specifier,
        host_rewrite_specifier, path_rewrite, hash_policy;
        // Early data needs what HTTP/1 and HTTP/2 over TCP don't have; grpc_timeout_offset without max_grpc_timeout
        // changes nothing, and neither do limits of virtual hosts, which are refused.
        ignore early_data_policy, include_vh_rate_limits, grpc_timeout_offset;
        refuse flush_timeout, metadata_match, path_rewrite_policy, retry_policy_typed_config, rate_limits, cors,
               max_grpc_timeout, internal_redirect_policy, internal_redirect_action, max_internal_redirects,
               hedge_policy
    });
    if *priority != RoutingPriority::Default as i32 {
        return Err(at.unsupported("priority"));
    }
    if !path_rewrite.is_empty() {
        return Err(at.unsupported("path_rewrite"));
    }
    let path_rewrite = match (prefix_rewrite.is_empty(), regex_rewrite) {
        (true, None) => None,
        (false, None) => Some(PathRewrite::Prefix(prefix_rewrite.as_str().into())),
        (true, Some(rewrite)) => Some(PathRewrite::Regex(Box::new(self::regex_rewrite(
            &at.field("regex_rewrite"),
            rewrite,
        )?))),
        (false, Some(_)) => return Err(at.field("regex_rewrite").error("excludes prefix_rewrite")),
    };
    let retry = match retry_policy.as_ref().or(inherited.retry) {
        Some(message) => self::retry_policy(context, &at.field("retry_policy"), message)?.map(Box::new),
        None => None,
    };
    let mirrors = if request_mirror_policies.is_empty() {
        inherited.mirrors
    } else {
        request_mirror_policies
    };
    let idle_timeout = match idle_timeout {
        None => None,
        Some(value) => Some(deadline(&at.field("idle_timeout"), Some(value), None)?),
    };
    Ok(Forward {
        clusters: clusters(context, at, cluster_specifier.as_ref(), own, inherited)?,
        cluster_not_found: not_found_code(at, *cluster_not_found_response_code)?,
        // Envoy's default route timeout.
        timeout: deadline(&at.field("timeout"), timeout.as_ref(), Some(Duration::from_secs(15)))?,
        idle_timeout,
        max_stream_duration: stream_duration(at, max_stream_duration.as_ref())?,
        hashing: hash_policies(&at.field("hash_policy"), hash_policy)?,
        retry,
        path_rewrite,
        host_rewrite: host_rewrite(at, host_rewrite_specifier.as_ref())?,
        append_x_forwarded_host: *append_x_forwarded_host,
        body_limit: inherited.body_limit,
        mirrors: self::mirrors(context, at, mirrors)?,
        upgrades: upgrades(at, upgrade_configs)?,
        attempt_count_in_request: inherited.attempt_count_in_request,
        attempt_count_in_response: inherited.attempt_count_in_response,
    })
}

fn stream_duration(
    at: &At<'_>,
    message: Option<&envoy_types::pb::envoy::config::route::v3::route_action::MaxStreamDuration>,
) -> Result<Option<Option<Duration>>, Rejection> {
    let Some(message) = message else { return Ok(None) };
    let at = at.field("max_stream_duration");
    if message.grpc_timeout_header_max.is_some() || message.grpc_timeout_header_offset.is_some() {
        return Err(at.unsupported("grpc_timeout_header_max"));
    }
    match &message.max_stream_duration {
        None => Ok(None),
        Some(value) => deadline(&at.field("max_stream_duration"), Some(value), None).map(Some),
    }
}

fn not_found_code(at: &At<'_>, code: i32) -> Result<StatusCode, Rejection> {
    Ok(match ClusterNotFoundResponseCode::try_from(code) {
        Ok(ClusterNotFoundResponseCode::ServiceUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
        Ok(ClusterNotFoundResponseCode::NotFound) => StatusCode::NOT_FOUND,
        Ok(ClusterNotFoundResponseCode::InternalServerError) => StatusCode::INTERNAL_SERVER_ERROR,
        Err(_) => return Err(at.unsupported("cluster_not_found_response_code")),
    })
}

fn clusters(
    context: &mut Context,
    at: &At<'_>,
    message: Option<&ClusterSpecifier>,
    own: &Edits,
    inherited: &Inherited<'_>,
) -> Result<ClusterChoice, Rejection> {
    Ok(match message {
        Some(ClusterSpecifier::Cluster(name)) => ClusterChoice::Single(ClusterId(context.clusters.intern(name))),
        Some(ClusterSpecifier::ClusterHeader(name)) => {
            ClusterChoice::Header(header_name(&at.field("cluster_header"), name)?)
        }
        Some(ClusterSpecifier::WeightedClusters(message)) => {
            let at = at.field("weighted_clusters");
            ClusterChoice::Weighted(weighted(context, &at, message, own, inherited)?)
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(_)) => return Err(at.unsupported("cluster_specifier_plugin")),
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(_)) => {
            return Err(at.unsupported("inline_cluster_specifier_plugin"));
        }
        None => return Err(at.error("a cluster is required")),
    })
}

fn weighted(
    context: &mut Context,
    at: &At<'_>,
    message: &ProtoWeighted,
    own: &Edits,
    inherited: &Inherited<'_>,
) -> Result<WeightedClusters, Rejection> {
    fields!(at, message => ProtoWeighted {
        clusters;
        ignore total_weight, runtime_key_prefix;
        refuse random_value_specifier
    });
    let list = at.field("clusters");
    let mut total: u32 = 0;
    let mut entries = Vec::with_capacity(clusters.len());
    for (index, entry) in clusters.iter().enumerate() {
        let at = list.index(index);
        fields!(at, entry => ClusterWeight {
            name, weight, request_headers_to_add, request_headers_to_remove, response_headers_to_add,
            response_headers_to_remove, host_rewrite_specifier, typed_per_filter_config;
            ignore;
            refuse cluster_header, metadata_match
        });
        let edits = Edits {
            request: edits(
                &at,
                ("request_headers_to_add", "request_headers_to_remove"),
                request_headers_to_add,
                request_headers_to_remove,
            )?,
            response: edits(
                &at,
                ("response_headers_to_add", "response_headers_to_remove"),
                response_headers_to_add,
                response_headers_to_remove,
            )?,
        };
        let weight = weight.as_ref().map_or(0, |weight| weight.value);
        total = total
            .checked_add(weight)
            .ok_or_else(|| at.field("weight").error("the sum exceeds 4294967295"))?;
        entries.push(WeightedCluster {
            cluster: ClusterId(context.clusters.intern(name)),
            weight,
            request_headers: inherited.levels.request(&[&edits.request, &own.request]),
            response_headers: inherited.levels.response(&[&edits.response, &own.response]),
            filters: filter::of_level(&at, typed_per_filter_config, context, inherited.filters)?,
            host_rewrite: host_rewrite_specifier
                .as_ref()
                .map(|cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host)| literal_host(&at, host))
                .transpose()?,
        });
    }
    if total == 0 {
        return Err(list.error("the sum of the weights must not be 0"));
    }
    Ok(WeightedClusters {
        total,
        says_of_filters: entries.iter().any(|entry| !entry.filters.is_empty()),
        entries: entries.into(),
    })
}

fn literal_host(at: &At<'_>, host: &str) -> Result<HostRewrite, Rejection> {
    HeaderValue::from_str(host).map(HostRewrite::Literal).map_err(|_| {
        at.field("host_rewrite_literal")
            .error(format!("{host:?} is not a host"))
    })
}

fn host_rewrite(at: &At<'_>, message: Option<&HostRewriteSpecifier>) -> Result<Option<HostRewrite>, Rejection> {
    Ok(match message {
        None => None,
        Some(HostRewriteSpecifier::HostRewriteLiteral(host)) => Some(literal_host(at, host)?),
        Some(HostRewriteSpecifier::AutoHostRewrite(on)) => on.value.then_some(HostRewrite::Endpoint),
        Some(HostRewriteSpecifier::HostRewriteHeader(name)) => Some(HostRewrite::Header(header_name(
            &at.field("host_rewrite_header"),
            name,
        )?)),
        Some(HostRewriteSpecifier::HostRewritePathRegex(rewrite)) => Some(HostRewrite::PathRegex(Box::new(
            regex_rewrite(&at.field("host_rewrite_path_regex"), rewrite)?,
        ))),
        Some(HostRewriteSpecifier::HostRewrite(_)) => return Err(at.unsupported("host_rewrite")),
    })
}

fn mirrors(context: &mut Context, at: &At<'_>, list: &[RequestMirrorPolicy]) -> Result<Box<[Mirror]>, Rejection> {
    let at_list = at.field("request_mirror_policies");
    list.iter()
        .enumerate()
        .map(|(index, message)| {
            let at = at_list.index(index);
            fields!(at, message => RequestMirrorPolicy {
                cluster, runtime_fraction, disable_shadow_host_suffix_append, trace_sampled;
                ignore;
                refuse cluster_header, request_headers_mutations, host_rewrite_literal
            });
            let fraction = match runtime_fraction {
                None => Fraction {
                    numerator: 1,
                    denominator: 1,
                },
                Some(share) => fraction(&at.field("runtime_fraction"), share.default_value.as_ref())?,
            };
            let cluster = ClusterId(context.clusters.intern(cluster));
            Ok(Mirror {
                cluster,
                fraction,
                keep_host: *disable_shadow_host_suffix_append,
                is_sampled: trace_sampled.as_ref().map(|sampled| sampled.value),
            })
        })
        .collect()
}

fn upgrades(at: &At<'_>, list: &[ProtoUpgrade]) -> Result<Box<[Upgrade]>, Rejection> {
    let at_list = at.field("upgrade_configs");
    list.iter()
        .enumerate()
        .map(|(index, message)| {
            let at = at_list.index(index);
            fields!(at, message => ProtoUpgrade { upgrade_type, enabled, connect_config; ignore; refuse });
            let enabled = enabled.as_ref().is_none_or(|enabled| enabled.value);
            let is_connect = upgrade_type.eq_ignore_ascii_case(Upgrade::CONNECT);
            let connect = match connect_config {
                Some(config) if is_connect => {
                    let at = at.field("connect_config");
                    fields!(at, config => ConnectConfig { ; ignore; refuse proxy_protocol_config, allow_post });
                    Connect::Here
                }
                // As in Envoy it says nothing of other upgrades.
                Some(_) | None => Connect::Beyond,
            };
            let protocol = match is_connect {
                true => Upgrade::CONNECT.into(),
                false => upgrade_type.to_ascii_lowercase().into(),
            };
            Ok(Upgrade {
                protocol,
                enabled,
                connect,
            })
        })
        .collect()
}

/// Compiles where a redirect points.
pub(super) fn redirect(at: &At<'_>, message: &RedirectAction) -> Result<Redirect, Rejection> {
    fields!(at, message => RedirectAction {
        host_redirect, port_redirect, response_code, strip_query, scheme_rewrite_specifier, path_rewrite_specifier;
        ignore;
        refuse
    });
    let status = match RedirectResponseCode::try_from(*response_code) {
        Ok(RedirectResponseCode::MovedPermanently) => StatusCode::MOVED_PERMANENTLY,
        Ok(RedirectResponseCode::Found) => StatusCode::FOUND,
        Ok(RedirectResponseCode::SeeOther) => StatusCode::SEE_OTHER,
        Ok(RedirectResponseCode::TemporaryRedirect) => StatusCode::TEMPORARY_REDIRECT,
        Ok(RedirectResponseCode::PermanentRedirect) => StatusCode::PERMANENT_REDIRECT,
        Err(_) => return Err(at.unsupported("response_code")),
    };
    let scheme = match scheme_rewrite_specifier {
        None | Some(SchemeRewriteSpecifier::HttpsRedirect(false)) => None,
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => Some(RedirectScheme::Https),
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) => match scheme.to_ascii_lowercase().as_str() {
            "https" => Some(RedirectScheme::Https),
            "http" => Some(RedirectScheme::Http),
            _ => {
                return Err(at
                    .field("scheme_redirect")
                    .error(format!("{scheme:?} is neither http nor https")));
            }
        },
    };
    let path = match path_rewrite_specifier {
        None => None,
        Some(PathRewriteSpecifier::PathRedirect(path)) => Some(RedirectPath::Full(path.as_str().into())),
        Some(PathRewriteSpecifier::PrefixRewrite(prefix)) => Some(RedirectPath::Prefix(prefix.as_str().into())),
        Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => Some(RedirectPath::Regex(Box::new(regex_rewrite(
            &at.field("regex_rewrite"),
            rewrite,
        )?))),
        Some(PathRewriteSpecifier::PathRewrite(_)) => return Err(at.unsupported("path_rewrite")),
    };
    let port = match u16::try_from(*port_redirect) {
        Ok(0) => None,
        Ok(port) => Some(port),
        Err(_) => return Err(at.field("port_redirect").error("is not a port")),
    };
    let host = (!host_redirect.is_empty()).then(|| host_redirect.as_str().into());
    Ok(Redirect {
        status,
        scheme,
        host,
        port,
        path,
        strip_query: *strip_query,
    })
}

fn direct_response(
    context: &Context,
    at: &At<'_>,
    message: &DirectResponseAction,
    max_body: usize,
) -> Result<DirectResponse, Rejection> {
    let status = u16::try_from(message.status)
        .ok()
        .and_then(|status| StatusCode::from_u16(status).ok())
        .filter(|status| (200..600).contains(&status.as_u16()))
        .ok_or_else(|| {
            at.field("status")
                .error(format!("{} is not a final status", message.status))
        })?;
    let mut content_type = None;
    let body = match (&message.body, &message.body_format) {
        (None, None) => DirectBody::Constant(Bytes::new()),
        (Some(source), None) => DirectBody::Constant(files::bytes(&at.field("body"), source, &*context.files)?.into()),
        (_, Some(format)) => {
            let at = at.field("body_format");
            content_type = kind_of_content(&at, format)?;
            made_content(context, &at, format)?
        }
    };
    let is_empty = match &body {
        DirectBody::Constant(body) if body.len() > max_body => {
            return Err(at
                .field("body")
                .error(format!("has {} bytes, {max_body} are allowed", body.len())));
        }
        DirectBody::Constant(body) => body.is_empty(),
        DirectBody::Format(_) => false,
    };
    if content_type.is_none() && !is_empty {
        content_type = Some(HeaderValue::from_static("text/plain"));
    }
    Ok(DirectResponse {
        status,
        body,
        content_type,
    })
}

/// What a client is told of content; unset: the usual.
fn kind_of_content(at: &At<'_>, format: &SubstitutionFormatString) -> Result<Option<HeaderValue>, Rejection> {
    match (&*format.content_type, &format.format) {
        ("", Some(ContentFormat::JsonFormat(_))) => Ok(Some(HeaderValue::from_static("application/json"))),
        ("", _) => Ok(None),
        (text, _) => HeaderValue::from_str(text).map(Some).map_err(|_| {
            at.field("content_type")
                .error(format!("{text:?} is not a header value"))
        }),
    }
}

#[allow(deprecated)]
fn made_content(context: &Context, at: &At<'_>, format: &SubstitutionFormatString) -> Result<DirectBody, Rejection> {
    let text = match &format.format {
        Some(ContentFormat::TextFormatSource(source)) => files::bytes(at, source, &*context.files)?,
        Some(ContentFormat::TextFormat(text)) => text.clone().into_bytes(),
        Some(ContentFormat::JsonFormat(_)) => {
            return Ok(DirectBody::Format(Box::new(access_log::body(context, at, format)?)));
        }
        None => return Err(at.error("a format is required")),
    };
    let text = String::from_utf8(text).map_err(|_| at.error("is not UTF-8"))?;
    if let Some(body) = constant(&text) {
        return Ok(DirectBody::Constant(body));
    }
    let format = SubstitutionFormatString {
        format: Some(ContentFormat::TextFormat(text)),
        ..format.clone()
    };
    Ok(DirectBody::Format(Box::new(access_log::body(context, at, &format)?)))
}

/// What a format without substitution commands says; `%%` is one percent sign.
fn constant(text: &str) -> Option<Bytes> {
    let is_constant = !text.replace("%%", "").contains('%');
    is_constant.then(|| Bytes::from(text.replace("%%", "%")))
}

/// A positive duration in a message, for retries.
pub(super) fn positive(
    at: &At<'_>,
    value: Option<&envoy_types::pb::google::protobuf::Duration>,
) -> Result<Option<Duration>, Rejection> {
    value
        .map(|value| duration(at, value))
        .transpose()
        .map(|value| value.filter(|value| !value.is_zero()))
}
