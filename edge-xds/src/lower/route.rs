//! One route: its match and its action.

use super::{
    common::{duration, number},
    headers::{self, to_add, to_remove},
    metadata::put_metadata,
    rewrite,
};
use edge_ir::{
    BackendShare, Destination, DirectResponse, Forward, Fraction, HostRewrite, Mirror, PathMatch, RetryPolicy, Route,
    RouteAction as Action, RouteMatch, Timeout, ValueMatch, ValueMatcher, VirtualHost,
};
use envoy_types::{
    pb::envoy::{
        config::{
            core::v3::{DataSource, RuntimeFractionalPercent, data_source::Specifier},
            route::v3::{
                self as pb, WeightedCluster,
                header_matcher::HeaderMatchSpecifier,
                query_parameter_matcher::QueryParameterMatchSpecifier,
                retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate},
                route_action::{
                    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy,
                    UpgradeConfig,
                },
                route_match::PathSpecifier,
                weighted_cluster::{ClusterWeight, cluster_weight},
            },
        },
        extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate,
        r#type::{
            matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
            v3::{FractionalPercent, fractional_percent::DenominatorType},
        },
    },
    util::pack_any,
};
use prost::Message;

/// A cluster that is never defined: what is sent there is answered with the code for a missing cluster.
const INVALID_BACKEND: &str = "invalid-backend-cluster";

/// `Route.metadata`.
const METADATA: u32 = 4;

/// Appends the encoded route of a virtual host.
pub(super) fn encode_route(out: &mut Vec<u8>, host: &VirtualHost, host_suffix: &str, route: &Route) {
    let mut name = String::with_capacity(route.name.len() + 1 + host_suffix.len());
    name.push_str(&route.name);
    name.push('/');
    name.push_str(host_suffix);
    let action = match &route.action {
        Action::Forward(forward) => lower_forward(forward, &route.request_headers),
        Action::Redirect(redirect) => pb::route::Action::Redirect(rewrite::lower_redirect(redirect, host.port)),
        Action::Respond(response) => lower_response(response),
    };
    let message = pb::Route {
        name,
        r#match: Some(lower_match(&route.matches)),
        action: Some(action),
        request_headers_to_add: to_add(&route.request_headers),
        request_headers_to_remove: to_remove(&route.request_headers),
        response_headers_to_add: to_add(&route.response_headers),
        response_headers_to_remove: to_remove(&route.response_headers),
        ..Default::default()
    };
    message.encode_raw(out);
    put_metadata(out, METADATA, &route.origins);
}

/// Length of the body that a route answers with by itself.
pub(super) fn body_len(route: &Route) -> usize {
    match &route.action {
        Action::Respond(DirectResponse { body: Some(body), .. }) => body.len(),
        _ => 0,
    }
}

fn lower_match(matches: &RouteMatch) -> pb::RouteMatch {
    let path = match &matches.path {
        PathMatch::Any => PathSpecifier::Prefix("/".to_owned()),
        PathMatch::Prefix(path) if path.is_empty() || &**path == "/" => PathSpecifier::Prefix("/".to_owned()),
        PathMatch::Prefix(path) => PathSpecifier::PathSeparatedPrefix(path.to_string()),
        PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
        PathMatch::Regex(regex) => PathSpecifier::SafeRegex(lower_regex(regex)),
    };
    let method = matches
        .method
        .iter()
        .map(|method| header_matcher(":method", exact(method)));
    let headers = matches
        .headers
        .iter()
        .map(|header| header_matcher(&header.name, string_matcher(&header.value)));
    pb::RouteMatch {
        path_specifier: Some(path),
        headers: method.chain(headers).collect(),
        query_parameters: matches.query.iter().map(query_matcher).collect(),
        ..Default::default()
    }
}

fn header_matcher(name: &str, value: StringMatcher) -> pb::HeaderMatcher {
    pb::HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(value)),
        ..Default::default()
    }
}

fn query_matcher(query: &ValueMatch) -> pb::QueryParameterMatcher {
    pb::QueryParameterMatcher {
        name: query.name.to_string(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(string_matcher(&query.value))),
    }
}

fn string_matcher(value: &ValueMatcher) -> StringMatcher {
    match value {
        ValueMatcher::Exact(text) => exact(text),
        ValueMatcher::Regex(regex) => StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(lower_regex(regex))),
            ignore_case: false,
        },
    }
}

/// Equal to a text, letter case included.
pub(super) fn exact(text: &str) -> StringMatcher {
    StringMatcher {
        match_pattern: Some(MatchPattern::Exact(text.to_owned())),
        ignore_case: false,
    }
}

fn lower_regex(regex: &str) -> RegexMatcher {
    RegexMatcher {
        regex: regex.to_owned(),
        ..Default::default()
    }
}

fn lower_forward(forward: &Forward, edits: &edge_ir::HeaderEdits) -> pb::route::Action {
    let Some((cluster, not_found)) = lower_destination(&forward.destination) else {
        return lower_response(&DirectResponse {
            status: 500,
            body: None,
        });
    };
    let mut action = pb::RouteAction {
        cluster_specifier: Some(cluster),
        cluster_not_found_response_code: not_found.into(),
        timeout: forward.timeout.map(duration),
        retry_policy: forward.retry.as_ref().map(lower_retry),
        request_mirror_policies: forward.mirrors.iter().map(lower_mirror).collect(),
        // The upgrade is part of every route; a request that doesn't ask for it is not touched.
        upgrade_configs: vec![UpgradeConfig {
            upgrade_type: "websocket".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let host = match &forward.host_rewrite {
        Some(HostRewrite::Literal(host)) => Some(&**host),
        None => headers::host_edit(edits),
    };
    if let Some(host) = host {
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(host.to_owned()));
        action.append_x_forwarded_host = true;
    }
    if let Some(path) = &forward.path_rewrite {
        rewrite::rewrite_path(&mut action, path);
    }
    pb::route::Action::Route(action)
}

/// Where to, and what a cluster that isn't there is answered with. `None` if there is nowhere to go.
fn lower_destination(destination: &Destination) -> Option<(ClusterSpecifier, ClusterNotFoundResponseCode)> {
    match destination {
        Destination::Cluster(cluster) => Some((
            ClusterSpecifier::Cluster(cluster.to_string()),
            ClusterNotFoundResponseCode::ServiceUnavailable,
        )),
        Destination::Weighted { shares, .. } if shares.is_empty() => None,
        Destination::Weighted { shares, invalid_weight } => {
            let mut clusters: Vec<ClusterWeight> = shares.iter().map(lower_share).collect();
            if *invalid_weight > 0 {
                let name = INVALID_BACKEND.to_owned();
                clusters.push(ClusterWeight {
                    name,
                    weight: number(*invalid_weight),
                    ..Default::default()
                });
            }
            let weighted = WeightedCluster {
                clusters,
                ..Default::default()
            };
            Some((
                ClusterSpecifier::WeightedClusters(weighted),
                ClusterNotFoundResponseCode::InternalServerError,
            ))
        }
    }
}

fn lower_share(share: &BackendShare) -> ClusterWeight {
    let host = match &share.host_rewrite {
        Some(HostRewrite::Literal(host)) => Some(&**host),
        None => headers::host_edit(&share.request_headers),
    };
    ClusterWeight {
        name: share.cluster.to_string(),
        weight: number(share.weight),
        request_headers_to_add: to_add(&share.request_headers),
        request_headers_to_remove: to_remove(&share.request_headers),
        response_headers_to_add: to_add(&share.response_headers),
        response_headers_to_remove: to_remove(&share.response_headers),
        host_rewrite_specifier: host
            .map(|host| cluster_weight::HostRewriteSpecifier::HostRewriteLiteral(host.to_owned())),
        ..Default::default()
    }
}

fn lower_retry(retry: &RetryPolicy) -> pb::RetryPolicy {
    // No `reset` or `5xx`: the request may have had its effect by then (Gateway API, HTTPRouteRetry).
    let mut retry_on = "connect-failure,refused-stream,unavailable".to_owned();
    if !retry.codes.is_empty() {
        retry_on.push_str(",retriable-status-codes");
    }
    let interval = |backoff: Timeout| RetryBackOff {
        base_interval: Some(duration(Timeout(backoff.0.max(1)))),
        max_interval: None,
    };
    pb::RetryPolicy {
        retry_on,
        num_retries: number(retry.retries),
        retriable_status_codes: retry.codes.iter().map(|code| u32::from(*code)).collect(),
        per_try_timeout: retry.per_try_timeout.map(duration),
        retry_back_off: retry.backoff.map(interval),
        // A second try at the endpoint that just refused helps nobody.
        retry_host_predicate: vec![RetryHostPredicate {
            name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
            config_type: Some(retry_host_predicate::ConfigType::TypedConfig(pack_any(
                PreviousHostsPredicate {},
            ))),
        }],
        host_selection_retry_max_attempts: 5,
        ..Default::default()
    }
}

fn lower_mirror(mirror: &Mirror) -> RequestMirrorPolicy {
    let Fraction(numerator) = mirror.fraction;
    let fraction = RuntimeFractionalPercent {
        default_value: Some(FractionalPercent {
            numerator,
            denominator: DenominatorType::Million.into(),
        }),
        ..Default::default()
    };
    RequestMirrorPolicy {
        cluster: mirror.cluster.to_string(),
        runtime_fraction: (numerator < 1_000_000).then_some(fraction),
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

/// An answer given by the proxy itself.
pub(super) fn lower_response(response: &DirectResponse) -> pb::route::Action {
    let body = response.body.as_ref().map(|body| DataSource {
        specifier: Some(Specifier::InlineString(body.to_string())),
        ..Default::default()
    });
    pb::route::Action::DirectResponse(pb::DirectResponseAction {
        status: response.status.into(),
        body,
        ..Default::default()
    })
}
