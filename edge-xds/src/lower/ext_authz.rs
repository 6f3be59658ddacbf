//! Another service that decides about requests.

use super::{
    common::{duration, retries},
    filter,
};
use crate::wire::joined;
use edge_ir::{AuthPath, AuthService, ExternalAuth, Rerouting, RouteMetadata, SecretBytes, Undecided};
use envoy_types::pb::{
    envoy::{
        config::core::v3::{
            ApiVersion, GrpcService, HttpUri,
            grpc_service::{EnvoyGrpc, TargetSpecifier},
            http_uri::HttpUpstreamType,
        },
        extensions::filters::http::ext_authz::v3::{
            AuthorizationResponse, BufferSettings, CheckSettings, ExtAuthz, ExtAuthzPerRoute, HttpService,
            ext_authz::Services, ext_authz_per_route::Override,
        },
        r#type::{
            matcher::v3::{ListStringMatcher, StringMatcher, string_matcher::MatchPattern},
            v3::HttpStatus,
        },
    },
    google::protobuf::Any,
};
use prost::Name;
use std::sync::Arc;

/// The namespace of a route's metadata that tells of its object.
const METADATA: &str = "edge-gateway";

/// The filter of an instance; a route switches it on.
pub(super) fn lower(auth: &ExternalAuth) -> ExtAuthz {
    let status = match auth.undecided {
        Undecided::Allowed | Undecided::Refused(403) => None,
        Undecided::Refused(code) => Some(HttpStatus { code: code.into() }),
    };
    ExtAuthz {
        transport_api_version: ApiVersion::V3.into(),
        failure_mode_allow: auth.undecided == Undecided::Allowed,
        status_on_error: status,
        with_request_body: auth.body.map(|max_request_bytes| BufferSettings {
            max_request_bytes,
            allow_partial_message: false,
            pack_as_bytes: false,
        }),
        clear_route_cache: auth.routing == Rerouting::Again,
        route_metadata_context_namespaces: match auth.metadata {
            RouteMetadata::Shown => vec![METADATA.to_owned()],
            RouteMetadata::Hidden => Vec::new(),
        },
        allowed_headers: auth.headers.as_deref().map(headers),
        services: Some(service(auth)),
        ..Default::default()
    }
}

/// Headers by name, whatever their case.
fn headers(names: &[Arc<str>]) -> ListStringMatcher {
    let named = |name: &Arc<str>| StringMatcher {
        match_pattern: Some(MatchPattern::Exact(name.to_string())),
        ignore_case: true,
    };
    ListStringMatcher {
        patterns: names.iter().map(named).collect(),
    }
}

fn service(auth: &ExternalAuth) -> Services {
    match &auth.service {
        AuthService::Grpc => Services::GrpcService(GrpcService {
            timeout: Some(duration(auth.timeout)),
            retry_policy: auth.retry.as_ref().map(retries),
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: auth.cluster.to_string(),
                authority: auth.authority.to_string(),
                ..Default::default()
            })),
            ..Default::default()
        }),
        AuthService::Http { path, to_backend } => {
            let (path_prefix, path_override) = match path {
                AuthPath::Behind(prefix) => (prefix.to_string(), String::new()),
                AuthPath::Fixed(path) => (String::new(), path.to_string()),
            };
            Services::HttpService(HttpService {
                server_uri: Some(HttpUri {
                    uri: format!("http://{}", auth.authority),
                    timeout: Some(duration(auth.timeout)),
                    http_upstream_type: Some(HttpUpstreamType::Cluster(auth.cluster.to_string())),
                }),
                path_prefix,
                path_override,
                retry_policy: auth.retry.as_ref().map(retries),
                authorization_response: (!to_backend.is_empty()).then(|| AuthorizationResponse {
                    allowed_upstream_headers: Some(headers(to_backend)),
                    ..Default::default()
                }),
                ..Default::default()
            })
        }
    }
}

/// Switches an instance on for a route, and tells the service attributes of it. Written entry by entry: a map has no
/// order of its own.
pub(super) fn on(attributes: &[(Arc<str>, SecretBytes)]) -> Any {
    if attributes.is_empty() {
        return envoy_types::util::pack_any(filter::switched_on());
    }
    let each = attributes.iter().map(|(name, value)| ExtAuthzPerRoute {
        r#override: Some(Override::CheckSettings(CheckSettings {
            context_extensions: [(name.to_string(), String::from_utf8_lossy(value.expose()).into_owned())].into(),
            ..Default::default()
        })),
    });
    Any {
        type_url: ExtAuthzPerRoute::type_url(),
        value: joined(each),
    }
}
