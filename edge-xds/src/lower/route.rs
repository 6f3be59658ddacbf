//! One route: its match and its action.
//!
//! Written field by field, because there are so many; what few routes have is built of generated types.

use super::{
    common::{duration, number, portion},
    filter::{self, RoutePosition},
    headers::{host_edit, put_to_add, put_to_remove},
    matches::{Method, put_match},
    metadata::put_metadata,
    rewrite::{self, Lowered},
    sharing::{Draft, Sharing},
};
use crate::wire::{put_generated, put_message, put_str, put_text, put_varint};
use edge_ir::{
    BackendShare, Destination, DirectResponse, Forward, ForwardedHost, HeaderEdits, HostRewrite, Mirror, ResponseBody,
    RetryPolicy, Route, RouteAction as Action, RouteFilters, Shares, Timeout, Unresolved, VirtualHost,
};
use envoy_types::{
    pb::envoy::{
        config::{
            core::v3::{
                DataSource, SubstitutionFormatString, data_source::Specifier, substitution_format_string::Format,
            },
            route::v3::{
                self as pb,
                retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate},
                route_action::{ClusterNotFoundResponseCode, RequestMirrorPolicy},
            },
        },
        extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate,
    },
    util::pack_any,
};

mod telemetry;
mod traffic;

pub(super) use telemetry::tag;
pub(super) use traffic::methods;

#[cfg(test)]
mod tests;

/// A cluster that is never defined: what is sent there is answered with the code for a missing cluster.
const INVALID_BACKEND: &str = "invalid-backend-cluster";

/// The answer where there is nowhere to go.
pub(crate) const INTERNAL_ERROR: DirectResponse = DirectResponse {
    status: 500,
    body: None,
};

/// `Route.match`, `.route`, `.redirect`, `.metadata`, `.direct_response`, `.request_headers_to_add`,
/// `.response_headers_to_add`, `.response_headers_to_remove`, `.request_headers_to_remove`, `.typed_per_filter_config`,
/// `.name`.
const MATCH: u32 = 1;
const ROUTE: u32 = 2;
const REDIRECT: u32 = 3;
const METADATA: u32 = 4;
const DIRECT_RESPONSE: u32 = 7;
const REQUEST_HEADERS_TO_ADD: u32 = 9;
const RESPONSE_HEADERS_TO_ADD: u32 = 10;
const RESPONSE_HEADERS_TO_REMOVE: u32 = 11;
const REQUEST_HEADERS_TO_REMOVE: u32 = 12;
const TYPED_PER_FILTER_CONFIG: u32 = 13;
const NAME: u32 = 14;
/// `Route.tracing`, `.stat_prefix`.
const TRACING: u32 = 15;
const STAT_PREFIX: u32 = 19;

/// Fields of `RouteAction`.
mod action {
    pub(super) const CLUSTER: u32 = 1;
    pub(super) const WEIGHTED_CLUSTERS: u32 = 3;
    pub(super) const PREFIX_REWRITE: u32 = 5;
    pub(super) const HOST_REWRITE_LITERAL: u32 = 6;
    pub(super) const AUTO_HOST_REWRITE: u32 = 7;
    pub(super) const TIMEOUT: u32 = 8;
    pub(super) const RETRY_POLICY: u32 = 9;
    pub(super) const CLUSTER_NOT_FOUND_RESPONSE_CODE: u32 = 20;
    pub(super) const HOST_REWRITE_HEADER: u32 = 29;
    pub(super) const REQUEST_MIRROR_POLICIES: u32 = 30;
    pub(super) const REGEX_REWRITE: u32 = 32;
    pub(super) const HOST_REWRITE_PATH_REGEX: u32 = 35;
    pub(super) const APPEND_X_FORWARDED_HOST: u32 = 38;
}

/// Fields of `WeightedCluster.ClusterWeight`.
mod share {
    /// `WeightedCluster.clusters`.
    pub(super) const CLUSTERS: u32 = 1;
    pub(super) const NAME: u32 = 1;
    pub(super) const WEIGHT: u32 = 2;
    pub(super) const REQUEST_HEADERS_TO_ADD: u32 = 4;
    pub(super) const RESPONSE_HEADERS_TO_ADD: u32 = 5;
    pub(super) const RESPONSE_HEADERS_TO_REMOVE: u32 = 6;
    pub(super) const REQUEST_HEADERS_TO_REMOVE: u32 = 9;
    pub(super) const TYPED_PER_FILTER_CONFIG: u32 = 10;
    pub(super) const HOST_REWRITE_LITERAL: u32 = 11;
    /// `UInt32Value.value`, `BoolValue.value`.
    pub(super) const VALUE: u32 = 1;
}

/// Writes the fields of a route of a virtual host, of those requests that one of its [`methods`] stands for.
pub(super) fn put_route(draft: &mut Draft, sharing: &mut Sharing, host: &VirtualHost, route: &Route, method: Method) {
    let effect = &*route.effect;
    let position = RoutePosition {
        host,
        route: &route.name,
    };
    put_message(&mut draft.bytes, MATCH, |out| put_match(out, route, method));
    match &effect.action {
        Action::Forward(forward) if has_destination(forward) => {
            draft.put_message(ROUTE, |draft| {
                let edits = edits(&effect.request_headers);
                put_forward(draft, sharing, forward, method, edits, position)
            });
        }
        Action::Forward(_) => put_generated(&mut draft.bytes, DIRECT_RESPONSE, &lower_response(&INTERNAL_ERROR)),
        Action::Redirect(redirect) => {
            put_generated(
                &mut draft.bytes,
                REDIRECT,
                &rewrite::lower_redirect(redirect, host.port),
            );
        }
        Action::Respond(response) => put_generated(&mut draft.bytes, DIRECT_RESPONSE, &lower_response(response)),
    }
    let out = &mut draft.bytes;
    put_to_add(out, REQUEST_HEADERS_TO_ADD, edits(&effect.request_headers));
    put_to_add(out, RESPONSE_HEADERS_TO_ADD, edits(&effect.response_headers));
    put_to_remove(out, RESPONSE_HEADERS_TO_REMOVE, edits(&effect.response_headers));
    put_to_remove(out, REQUEST_HEADERS_TO_REMOVE, edits(&effect.request_headers));
    put_filters(draft, sharing, &effect.filters, position);
    let out = &mut draft.bytes;
    // A string has the form of a message, and this one is put together in place.
    put_message(out, NAME, |out| {
        route.name.parts(|part| out.extend_from_slice(part.as_bytes()));
        out.push(b'/');
        out.extend_from_slice(host.own_name().as_bytes());
    });
    telemetry::put(out, effect);
    put_metadata(out, METADATA, &effect.origins);
}

/// Writes what filters do for a route.
fn put_filters(draft: &mut Draft, sharing: &mut Sharing, filters: &RouteFilters, position: RoutePosition<'_>) {
    let put = |draft: &mut Draft, sharing: &mut Sharing| {
        for used in filters.iter() {
            filter::put_effect(draft, sharing, TYPED_PER_FILTER_CONFIG, used, position);
        }
    };
    let is_same_everywhere = !filters.is_empty() && !filters.iter().any(|used| filter::is_of_position(&used.effect));
    let shared = is_same_everywhere.then(|| sharing.filters(filters, put)).flatten();
    match shared {
        Some(shared) => draft.put_shared(&shared),
        None => put(draft, sharing),
    }
}

/// The edits of a rule.
fn edits(edits: &Option<Box<HeaderEdits>>) -> &HeaderEdits {
    static NONE: HeaderEdits = HeaderEdits {
        set: Vec::new(),
        add: Vec::new(),
        remove: Vec::new(),
    };
    edits.as_deref().unwrap_or(&NONE)
}

/// Length of the body that a route answers with by itself.
pub(super) fn body_len(route: &Route) -> usize {
    match &route.effect.action {
        Action::Respond(DirectResponse { body: Some(body), .. }) => body.bytes().len(),
        _ => 0,
    }
}

/// Whether there is anywhere to go; otherwise the answer is 500.
fn has_destination(forward: &Forward) -> bool {
    match &forward.destination {
        Destination::Cluster(_) => true,
        Destination::Weighted(weighted) => !weighted.shares.is_empty(),
    }
}

fn put_forward(
    draft: &mut Draft,
    sharing: &mut Sharing,
    forward: &Forward,
    method: Method,
    edits: &HeaderEdits,
    position: RoutePosition<'_>,
) {
    let not_found = put_destination(draft, sharing, &forward.destination, position);
    let out = &mut draft.bytes;
    let path = forward
        .path_rewrite
        .as_deref()
        .map_or(Lowered::Same, rewrite::lower_path);
    if let Lowered::Prefix(prefix) = &path {
        put_text(out, action::PREFIX_REWRITE, prefix);
    }
    let is_rewritten = put_host_rewrite(out, forward.host_rewrite.as_deref(), edits);
    if let Some(timeout) = forward.timeout {
        put_generated(out, action::TIMEOUT, &duration(timeout));
    }
    if let Some(retry) = &forward.retry {
        let put = |out: &mut Vec<u8>| put_generated(out, action::RETRY_POLICY, &lower_retry(retry));
        match sharing.retry(retry, put) {
            Some(shared) => draft.put_shared(&shared),
            None => put(&mut draft.bytes),
        }
    }
    let out = &mut draft.bytes;
    put_varint(out, action::CLUSTER_NOT_FOUND_RESPONSE_CODE, not_found as u32);
    traffic::put(out, forward.traffic.as_deref(), method);
    for mirror in &forward.mirrors {
        put_generated(out, action::REQUEST_MIRROR_POLICIES, &lower_mirror(mirror));
    }
    if let Lowered::Regex(regex) = &path {
        put_generated(out, action::REGEX_REWRITE, regex);
    }
    let is_told = is_rewritten && forward.forwarded_host == ForwardedHost::Told;
    put_varint(out, action::APPEND_X_FORWARDED_HOST, is_told);
}

/// Writes what becomes of the host; returns whether anything does. All forms stand where the first of them does, as
/// generated types write them.
fn put_host_rewrite(out: &mut Vec<u8>, rewrite: Option<&HostRewrite>, edits: &HeaderEdits) -> bool {
    match (rewrite, host_edit(edits)) {
        (Some(HostRewrite::Literal(host)), _) => put_str(out, action::HOST_REWRITE_LITERAL, host),
        (Some(HostRewrite::Header(header)), _) => put_str(out, action::HOST_REWRITE_HEADER, header),
        (Some(HostRewrite::Endpoint), _) => put_message(out, action::AUTO_HOST_REWRITE, |out| {
            put_varint(out, share::VALUE, true);
        }),
        (Some(HostRewrite::Path(regex)), _) => {
            put_generated(out, action::HOST_REWRITE_PATH_REGEX, &rewrite::lower_regex(regex));
        }
        (None, Some(host)) => put_str(out, action::HOST_REWRITE_LITERAL, host),
        (None, None) => return false,
    }
    true
}

/// Writes where to; returns what a cluster that isn't there is answered with.
fn put_destination(
    draft: &mut Draft,
    sharing: &mut Sharing,
    destination: &Destination,
    position: RoutePosition<'_>,
) -> ClusterNotFoundResponseCode {
    match destination {
        Destination::Cluster(cluster) => {
            put_str(&mut draft.bytes, action::CLUSTER, cluster);
            ClusterNotFoundResponseCode::ServiceUnavailable
        }
        Destination::Weighted(weighted) => {
            let Shares {
                shares,
                invalid_weight,
                unresolved,
            } = &**weighted;
            draft.put_message(action::WEIGHTED_CLUSTERS, |draft| {
                for share in shares {
                    draft.put_message(share::CLUSTERS, |draft| put_share(draft, sharing, share, position));
                }
                if *invalid_weight > 0 {
                    put_message(&mut draft.bytes, share::CLUSTERS, |out| {
                        put_text(out, share::NAME, INVALID_BACKEND);
                        put_weight(out, *invalid_weight);
                    });
                }
            });
            match unresolved {
                Unresolved::Error => ClusterNotFoundResponseCode::InternalServerError,
                Unresolved::Unavailable => ClusterNotFoundResponseCode::ServiceUnavailable,
            }
        }
    }
}

fn put_share(draft: &mut Draft, sharing: &mut Sharing, share: &BackendShare, position: RoutePosition<'_>) {
    let out = &mut draft.bytes;
    put_text(out, share::NAME, &share.cluster);
    put_weight(out, share.weight);
    put_to_add(out, share::REQUEST_HEADERS_TO_ADD, &share.request_headers);
    put_to_add(out, share::RESPONSE_HEADERS_TO_ADD, &share.response_headers);
    put_to_remove(out, share::RESPONSE_HEADERS_TO_REMOVE, &share.response_headers);
    put_to_remove(out, share::REQUEST_HEADERS_TO_REMOVE, &share.request_headers);
    for used in share.filters.iter() {
        filter::put_effect(draft, sharing, share::TYPED_PER_FILTER_CONFIG, used, position);
    }
    if let Some(host) = share.host_rewrite.as_deref().or(host_edit(&share.request_headers)) {
        put_str(&mut draft.bytes, share::HOST_REWRITE_LITERAL, host);
    }
}

fn put_weight(out: &mut Vec<u8>, weight: u32) {
    put_message(out, share::WEIGHT, |out| put_varint(out, share::VALUE, weight));
}

fn lower_retry(retry: &RetryPolicy) -> pb::RetryPolicy {
    // No `reset` or `5xx`: the request may have had its effect by then (Gateway API, HTTPRouteRetry).
    let mut retry_on = "connect-failure,refused-stream,unavailable".to_owned();
    if !retry.triggers.is_empty() {
        retry_on = retry.triggers.join(",");
    } else if !retry.codes.is_empty() {
        retry_on.push_str(",retriable-status-codes");
    }
    let interval = |backoff: Timeout| RetryBackOff {
        base_interval: Some(duration(Timeout(backoff.0.max(1)))),
        max_interval: retry.max_backoff.map(duration),
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
        retry_priority: retry.attempts_per_priority.map(traffic::next_priority),
        ..Default::default()
    }
}

fn lower_mirror(mirror: &Mirror) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: mirror.cluster.to_string(),
        runtime_fraction: (mirror.fraction.0 < 1_000_000).then(|| portion(mirror.fraction)),
        disable_shadow_host_suffix_append: true,
        ..Default::default()
    }
}

/// An answer given by the proxy itself.
pub(super) fn lower_response(response: &DirectResponse) -> pb::DirectResponseAction {
    let (body, format) = match &response.body {
        None => (None, None),
        Some(ResponseBody::Text(text)) => (Some(inline(text)), None),
        Some(ResponseBody::Bytes(bytes)) => (Some(inline_bytes(bytes)), None),
        Some(format @ ResponseBody::Format(_)) => (None, Some(body_format(format))),
    };
    pb::DirectResponseAction {
        status: response.status.into(),
        body,
        body_format: format,
    }
}

/// A body as a format, where nothing else can be said.
pub(super) fn body_format(body: &ResponseBody) -> SubstitutionFormatString {
    let format = match body {
        ResponseBody::Text(text) => inline(&text.replace('%', "%%")),
        ResponseBody::Format(format) => inline(format),
        ResponseBody::Bytes(bytes) => inline_bytes(bytes),
    };
    SubstitutionFormatString {
        format: Some(Format::TextFormatSource(format)),
        ..Default::default()
    }
}

fn inline_bytes(bytes: &[u8]) -> DataSource {
    DataSource {
        specifier: Some(Specifier::InlineBytes(bytes.to_vec())),
        ..Default::default()
    }
}

fn inline(text: &str) -> DataSource {
    DataSource {
        specifier: Some(Specifier::InlineString(text.to_owned())),
        ..Default::default()
    }
}
