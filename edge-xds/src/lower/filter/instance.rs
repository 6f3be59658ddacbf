//! Instances on a chain, which do nothing by themselves unless they are the listener's own: a route's settings, that it
//! switches one on, or that its request is a call, say what they do.

use super::{
    super::{
        access,
        common::number,
        ext_authz, extension, geoip,
        manager::{http_filter, probe},
        mutation, oauth2, token, wasm,
    },
    admission, bandwidth, compressor, credential_injector, dynamic_forward_proxy, name, rate_limit, rate_limit_service,
};
use edge_ir::{FilterInstance, FilterKind, FilterSettings};
use envoy_types::pb::{
    envoy::extensions::filters::{
        http::{
            api_key_auth::v3::ApiKeyAuth,
            buffer::v3::{Buffer, BufferPerRoute, buffer_per_route::Override},
            cors::v3::Cors,
            custom_response::v3::CustomResponse,
            fault::v3::HttpFault,
            grpc_stats::v3::FilterConfig as GrpcStats,
            grpc_web::v3::GrpcWeb,
            rbac::v3::Rbac,
            stateful_session::v3::StatefulSession,
        },
        network::http_connection_manager::v3::{HttpFilter, http_filter},
    },
    google::protobuf::Any,
};

/// An instance; none where there is nothing that it could do for any route.
pub(in crate::lower) fn instance(instance: &FilterInstance) -> Option<HttpFilter> {
    let name = &*name(&instance.id);
    Some(match &instance.settings {
        FilterSettings::Credential(credential) => off(http_filter(name, credential_injector(credential))),
        FilterSettings::ExternalAuth(auth) => off(http_filter(name, ext_authz::lower(auth))),
        FilterSettings::Processor(processor) => off(http_filter(name, extension::processor(processor))),
        FilterSettings::Script(script) => off(packed(name, extension::script(script))),
        FilterSettings::Wasm(filter) => off(http_filter(name, wasm::filter(name, filter))),
        FilterSettings::Native(filter) => off(http_filter(name, extension::native(filter))),
        FilterSettings::Login(login) => off(http_filter(name, oauth2::lower(login))),
        FilterSettings::Tokens(tokens) => packed(name, token::tokens(tokens)),
        FilterSettings::Places(places) => http_filter(name, geoip::lookup(places)),
        FilterSettings::UserHeader(header) => off(http_filter(name, access::users_with_header(header))),
        FilterSettings::Admission(control) => off(http_filter(name, admission::lower(control))),
        FilterSettings::Compressor(settings) => off(http_filter(name, compressor::lower(settings))),
        FilterSettings::RateLimit(limits) => off(http_filter(name, rate_limit::lower(limits, limits.told))),
        FilterSettings::RateLimitService(service) => off(http_filter(name, rate_limit_service::lower(service))),
        FilterSettings::Probe(path) => http_filter(name, probe(path)),
        FilterSettings::Names(hosts) => http_filter(name, dynamic_forward_proxy(*hosts)),
        FilterSettings::Responses(edits) => http_filter(name, mutation::of_responses(edits)),
        FilterSettings::OfRoutes => return of_routes(instance.id.kind, name),
    })
}

fn of_routes(kind: FilterKind, name: &str) -> Option<HttpFilter> {
    Some(match kind {
        FilterKind::CustomResponse => http_filter(name, CustomResponse::default()),
        FilterKind::Fault => http_filter(name, HttpFault::default()),
        FilterKind::Cors => http_filter(name, Cors::default()),
        FilterKind::Csrf => off(http_filter(name, access::no_site_check())),
        // Off but where a route brings its own: by themselves they would let nobody through.
        FilterKind::BasicAuth => off(http_filter(name, access::users_with_header(""))),
        FilterKind::ApiKeyAuth => off(http_filter(name, ApiKeyAuth::default())),
        FilterKind::Rbac => http_filter(name, Rbac::default()),
        FilterKind::StatefulSession => http_filter(name, StatefulSession::default()),
        // It has no neutral settings, but a route that brings its own switches it on.
        FilterKind::Buffer => off(http_filter(name, buffer(u32::MAX))),
        FilterKind::LocalRateLimit => http_filter(name, rate_limit::neutral()),
        FilterKind::BandwidthLimit => http_filter(name, bandwidth::neutral()),
        FilterKind::GrpcWeb => http_filter(name, GrpcWeb::default()),
        // Counts for a cluster as a whole: counts for each method would let clients make up names without end.
        FilterKind::GrpcStats => http_filter(name, GrpcStats::default()),
        // A proxy refuses one that has nothing to do, or nobody to ask.
        FilterKind::AdmissionControl
        | FilterKind::CredentialInjector
        | FilterKind::Compressor
        | FilterKind::DynamicForwardProxy
        | FilterKind::DynamicModules
        | FilterKind::ExtAuthz
        | FilterKind::ExtProc
        | FilterKind::Geoip
        | FilterKind::HealthCheck
        | FilterKind::HeaderMutation
        | FilterKind::JwtAuthn
        | FilterKind::Lua
        | FilterKind::Oauth2
        | FilterKind::RateLimit
        | FilterKind::Wasm => return None,
    })
}

/// An instance whose settings are written already.
fn packed(name: &str, settings: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(http_filter::ConfigType::TypedConfig(settings)),
        ..Default::default()
    }
}

/// Switched off where a route doesn't switch it on.
fn off(filter: HttpFilter) -> HttpFilter {
    HttpFilter {
        disabled: true,
        ..filter
    }
}

fn buffer(limit: u32) -> Buffer {
    Buffer {
        max_request_bytes: number(limit),
    }
}

/// What a route says of requests that are read whole.
pub(super) fn buffer_of_route(limit: u32) -> BufferPerRoute {
    BufferPerRoute {
        r#override: Some(Override::Buffer(buffer(limit))),
    }
}
