//! ExtAuthz → [`Authorizer`].

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::core::v3::{ApiVersion, GrpcService, HeaderValue as ProtoHeader, HttpUri};
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::ext_authz::Services;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::ext_authz_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationRequest, AuthorizationResponse, BufferSettings, CheckSettings, ExtAuthz, ExtAuthzPerRoute, HttpService,
};
use envoy_types::pb::envoy::r#type::matcher::v3::ListStringMatcher;
use envoy_types::pb::google::protobuf::Any;
use http::uri::Uri;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::compile::Context;
use crate::compile::field::{At, Rejection, deadline, fields, unpack};
use crate::compile::header::string_condition;
use crate::compile::retry;
use crate::compile::template::header_name;
use crate::config::ClusterId;
use crate::config::filter::ext_authz::{Authorizer, AuthorizerForm, AuthorizerOfRoute, AuthorizerPath};
use crate::config::filter::{FilterKind, FilterSettings};
use crate::config::header::StringCondition;
use crate::config::route::RetryPolicy;

type Conditions = Box<[StringCondition]>;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: ExtAuthz = unpack(at, config)?;
    fields!(at, &message => ExtAuthz {
        transport_api_version, failure_mode_allow, failure_mode_allow_header_add, with_request_body,
        clear_route_cache, status_on_error, allowed_headers, disallowed_headers, services,
        route_metadata_context_namespaces;
        // Statistics, traces, and limits on what a service says: what can't stand in a header is left out always.
        ignore stat_prefix, charge_cluster_response_stats, emit_filter_state_stats, filter_metadata, emit_client_span,
               validate_mutations, enforce_response_header_limits;
        refuse metadata_context_namespaces, typed_metadata_context_namespaces,
               route_typed_metadata_context_namespaces, filter_enabled, filter_enabled_metadata, deny_at_disable,
               include_peer_certificate, bootstrap_metadata_labels_key, include_tls_session, encode_raw_headers,
               decoder_header_mutation_rules, enable_dynamic_metadata_ingestion, max_denied_response_body_bytes,
               shadow_mode
    });
    if *transport_api_version != ApiVersion::V3 as i32 {
        return Err(at.field("transport_api_version").error("must be V3"));
    }
    let code = status_on_error.as_ref().map_or(403, |status| status.code);
    let status = u16::try_from(code)
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or_else(|| at.field("status_on_error").error(format!("{code} is not a status")))?;
    let asked = match services {
        Some(Services::GrpcService(service)) => call(&at.field("grpc_service"), service, context)?,
        Some(Services::HttpService(service)) => request(&at.field("http_service"), service, context)?,
        None => return Err(at.field("grpc_service").error("is required")),
    };
    let body = with_request_body.as_ref();
    Ok(FilterKind::Authorizer(Authorizer {
        cluster: asked.cluster,
        authority: asked.authority,
        timeout: asked.timeout,
        retry: asked.retry,
        form: asked.form,
        allowed: allowed_headers
            .as_ref()
            .map(|list| conditions(&at.field("allowed_headers"), Some(list)))
            .transpose()?,
        disallowed: conditions(&at.field("disallowed_headers"), disallowed_headers.as_ref())?,
        body: body
            .map(|body| self::body(&at.field("with_request_body"), body))
            .transpose()?,
        undecided: (!failure_mode_allow).then_some(status),
        tells_undecided: *failure_mode_allow_header_add,
        reroutes: *clear_route_cache,
        of_route: route_metadata_context_namespaces.as_slice().into(),
    }))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: ExtAuthzPerRoute = unpack(at, config)?;
    let said = match &message.r#override {
        Some(Override::Disabled(true)) => AuthorizerOfRoute::Off,
        Some(Override::Disabled(false)) => return Err(at.field("disabled").error("must be true")),
        Some(Override::CheckSettings(message)) => {
            let at = at.field("check_settings");
            fields!(at, message => CheckSettings {
                context_extensions;
                ignore emit_client_span;
                refuse disable_request_body_buffering, with_request_body, service_override
            });
            let told = context_extensions.iter();
            AuthorizerOfRoute::Context(told.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        None => return Err(at.error("disabled or check_settings is required")),
    };
    Ok(FilterSettings::Authorizer(said))
}

/// Who is asked, and how.
struct ServiceSpec {
    cluster: ClusterId,
    authority: HeaderValue,
    timeout: Option<Duration>,
    retry: Option<Box<RetryPolicy>>,
    form: AuthorizerForm,
}

fn call(at: &At<'_>, message: &GrpcService, context: &mut Context) -> Result<ServiceSpec, Rejection> {
    fields!(at, message => GrpcService {
        timeout, target_specifier, retry_policy; ignore; refuse initial_metadata
    });
    let Some(TargetSpecifier::EnvoyGrpc(target)) = target_specifier else {
        return Err(at.field("envoy_grpc").error("is required"));
    };
    let at_timeout = at.field("timeout");
    let timeout = deadline(&at_timeout, timeout.as_ref(), Some(Duration::from_millis(200)))?;
    let retry = retry::of_service(context, at, retry_policy.as_ref(), None)?;
    let at = at.field("envoy_grpc");
    fields!(at, target => EnvoyGrpc {
        cluster_name, authority; ignore max_receive_message_length; refuse retry_policy, skip_envoy_headers
    });
    let name = if authority.is_empty() { cluster_name } else { authority };
    Ok(ServiceSpec {
        cluster: ClusterId(context.clusters.intern(cluster_name)),
        authority: HeaderValue::from_str(name).map_err(|_| at.field("authority").error("is not a host"))?,
        timeout,
        retry,
        form: AuthorizerForm::Call,
    })
}

fn request(at: &At<'_>, message: &HttpService, context: &mut Context) -> Result<ServiceSpec, Rejection> {
    fields!(at, message => HttpService {
        server_uri, path_prefix, path_override, authorization_request, authorization_response, retry_policy;
        ignore;
        refuse
    });
    let at_uri = at.field("server_uri");
    let Some(uri) = server_uri else {
        return Err(at_uri.error("is required"));
    };
    fields!(at_uri, uri => HttpUri { uri, timeout, http_upstream_type; ignore; refuse });
    let parsed: Uri = uri
        .parse()
        .map_err(|_| at_uri.field("uri").error(format!("{uri:?} is not a URI")))?;
    let Some(HttpUpstreamType::Cluster(cluster)) = http_upstream_type else {
        return Err(at_uri.field("cluster").error("is required"));
    };
    let authority = parsed
        .authority()
        .map_or(cluster.as_str(), |authority| authority.as_str());
    let (told, said) = (
        authorization_request.clone().unwrap_or_default(),
        authorization_response.clone().unwrap_or_default(),
    );
    let at_told = at.field("authorization_request");
    fields!(at_told, &told => AuthorizationRequest { headers_to_add; ignore; refuse allowed_headers });
    let at_said = at.field("authorization_response");
    fields!(at_said, &said => AuthorizationResponse {
        allowed_upstream_headers, allowed_upstream_headers_to_append, allowed_client_headers,
        allowed_client_headers_on_success;
        ignore;
        refuse dynamic_metadata_from_headers
    });
    let list = at_told.field("headers_to_add");
    let added = headers_to_add.iter().enumerate();
    let named = |field: &str, list: &Option<ListStringMatcher>| conditions(&at_said.field(field), list.as_ref());
    Ok(ServiceSpec {
        cluster: ClusterId(context.clusters.intern(cluster)),
        authority: HeaderValue::from_str(authority).map_err(|_| at_uri.field("uri").error("has no host"))?,
        timeout: deadline(&at_uri.field("timeout"), timeout.as_ref(), None)?,
        retry: retry::of_service(context, at, retry_policy.as_ref(), None)?,
        form: AuthorizerForm::Request {
            path: if path_override.is_empty() {
                AuthorizerPath::Behind(path_prefix.as_str().into())
            } else {
                AuthorizerPath::Fixed(path_override.as_str().into())
            },
            added: added
                .map(|(index, one)| header(&list.index(index), one))
                .collect::<Result<_, _>>()?,
            to_backend: named("allowed_upstream_headers", allowed_upstream_headers)?,
            to_backend_too: named("allowed_upstream_headers_to_append", allowed_upstream_headers_to_append)?,
            to_client: named("allowed_client_headers", allowed_client_headers)?,
            to_client_on_success: named("allowed_client_headers_on_success", allowed_client_headers_on_success)?,
        },
    })
}

fn header(at: &At<'_>, message: &ProtoHeader) -> Result<(HeaderName, HeaderValue), Rejection> {
    fields!(at, message => ProtoHeader { key, value; ignore; refuse raw_value });
    let value = HeaderValue::from_str(value).map_err(|_| at.field("value").error("is not a header value"))?;
    Ok((header_name(&at.field("key"), key)?, value))
}

fn conditions(at: &At<'_>, list: Option<&ListStringMatcher>) -> Result<Conditions, Rejection> {
    let list = list.map_or(&[][..], |list| &list.patterns);
    let at = at.field("patterns");
    list.iter()
        .enumerate()
        .map(|(index, matcher)| string_condition(&at.index(index), matcher))
        .collect()
}

fn body(at: &At<'_>, message: &BufferSettings) -> Result<usize, Rejection> {
    fields!(at, message => BufferSettings {
        max_request_bytes, allow_partial_message; ignore; refuse pack_as_bytes
    });
    if *max_request_bytes == 0 {
        return Err(at.field("max_request_bytes").error("must be at least 1"));
    }
    // The rest would have to be read behind what was kept.
    if *allow_partial_message {
        return Err(at.unsupported("allow_partial_message"));
    }
    Ok(*max_request_bytes as usize)
}
