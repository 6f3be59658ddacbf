//! HTTP connection managers: what a client may do and what it is told.

use super::{
    access_log::{self, LogPoint},
    client,
    common::{extension, from_ads, number, yes},
    filter, geoip, route,
    table::wire_name,
    tracing,
};
use crate::names::OWN_LISTENERS;
use edge_ir::{
    DirectResponse, FilterInstance, FilterSettings, FleetSettings, HeaderMutation, HttpManager, LIVENESS_HEADER,
    OwnHeaders, RequestIdTracing,
};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                accesslog::v3::AccessLog,
                core::v3::CidrRange,
                route::v3::{
                    self as rt, HeaderMatcher, RouteConfiguration, RouteMatch, VirtualHost,
                    header_matcher::HeaderMatchSpecifier, route_match::PathSpecifier,
                },
            },
            extensions::filters::{
                http::{health_check::v3::HealthCheck, router::v3::Router},
                network::http_connection_manager::v3::{
                    HttpConnectionManager, HttpFilter, Rds, RequestIdExtension,
                    http_connection_manager::{InternalAddressConfig, RouteSpecifier, ServerHeaderTransformation},
                    http_filter,
                },
            },
            extensions::request_id::uuid::v3::UuidRequestIdConfig,
            r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
        },
        google::protobuf::BoolValue,
    },
    util::pack_any,
};
use prost::{Message, Name};

/// Where the readiness listener is asked.
const READY_PATH: &str = "/ready";

/// What the `server` header says.
const SERVER: &str = "edge";

/// Addresses of clients that count as internal: private (RFC 1918, RFC 4193) and loopback.
const INTERNAL: [(&str, u32); 6] = [
    ("10.0.0.0", 8),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("127.0.0.0", 8),
    ("::1", 128),
    ("fc00::", 7),
];

/// The manager of a Gateway listener.
pub(super) fn lower_manager(manager: &HttpManager, settings: &FleetSettings) -> HttpConnectionManager {
    let looks_up = |filter: &FilterInstance| matches!(filter.settings, FilterSettings::Places(_));
    let knows_places = manager.filters.iter().any(looks_up);
    let last = router_with(
        manager.client.headers.own,
        access_log::at(LogPoint::Tries, &settings.access_log),
    );
    let lowered = HttpConnectionManager {
        stat_prefix: manager.stat_prefix.to_string(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(from_ads()),
            route_config_name: wire_name(&manager.route_table, &manager.guards).to_string(),
        })),
        http_filters: manager
            .filters
            .iter()
            .filter_map(filter::instance)
            .chain(knows_places.then(geoip::untold))
            .chain([last])
            .collect(),
        server_name: SERVER.to_owned(),
        server_header_transformation: server_header(&manager.filters).into(),
        access_log: access_log::at(LogPoint::Requests, &settings.access_log),
        tracing: settings.tracing.as_deref().map(tracing::lower),
        internal_address_config: Some(internal_addresses()),
        request_id_extension: request_id(settings.request_id),
        normalize_path: yes(),
        ..Default::default()
    };
    let mut lowered = client::apply(&manager.client, lowered);
    // After the edits that somebody asked for, so that none of them says where a client is.
    lowered
        .early_header_mutation_extensions
        .extend(knows_places.then(geoip::unheard));
    lowered
}

/// Who names the server: the proxy, unless somebody edits that header just before responses are sent, which the proxy
/// would write over.
fn server_header(filters: &[FilterInstance]) -> ServerHeaderTransformation {
    let names_server = |edit: &HeaderMutation| match edit {
        HeaderMutation::Set { name, .. }
        | HeaderMutation::Add { name, .. }
        | HeaderMutation::AddIfAbsent { name, .. }
        | HeaderMutation::Remove(name) => name.eq_ignore_ascii_case("server"),
        HeaderMutation::RemoveMatching(_) => false,
    };
    let edits_server = |filter: &FilterInstance| match &filter.settings {
        FilterSettings::Responses(edits) => edits.iter().any(names_server),
        _ => false,
    };
    match filters.iter().any(edits_server) {
        true => ServerHeaderTransformation::PassThrough,
        false => ServerHeaderTransformation::Overwrite,
    }
}

/// What ids have to do with traces; none where that is as usual.
fn request_id(tracing: RequestIdTracing) -> Option<RequestIdExtension> {
    let config = UuidRequestIdConfig {
        pack_trace_reason: Some(BoolValue { value: tracing.packed }),
        use_request_id_for_trace_sampling: Some(BoolValue { value: tracing.sampled }),
    };
    (tracing != RequestIdTracing::default()).then(|| RequestIdExtension {
        typed_config: Some(pack_any(config)),
    })
}

/// The manager of the readiness listener: at its path 200 once all is there, and 503 while the proxy drains, which is
/// alive all the same and says so to whoever asks for that; 500 anywhere else.
pub(super) fn ready() -> HttpConnectionManager {
    let mut readiness = probe(READY_PATH);
    readiness.headers.push(HeaderMatcher {
        name: LIVENESS_HEADER.0.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(false)),
        ..Default::default()
    });
    HttpConnectionManager {
        stat_prefix: format!("{OWN_LISTENERS}ready"),
        route_specifier: Some(RouteSpecifier::RouteConfig(ready_routes())),
        http_filters: vec![http_filter("envoy.filters.http.health_check", readiness), router()],
        ..Default::default()
    }
}

/// Answers requests for a path.
pub(super) fn probe(path: &str) -> HealthCheck {
    HealthCheck {
        pass_through_mode: Some(BoolValue { value: false }),
        headers: vec![has(":path", path)],
        ..Default::default()
    }
}

/// Whether a header is exactly so.
fn has(name: &str, value: &str) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(value.to_owned())),
            ignore_case: false,
        })),
        ..Default::default()
    }
}

fn ready_routes() -> RouteConfiguration {
    let (name, value) = LIVENESS_HEADER;
    let liveness = RouteMatch {
        path_specifier: Some(PathSpecifier::Path(READY_PATH.to_owned())),
        headers: vec![has(name, value)],
        ..Default::default()
    };
    let everything = RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
        ..Default::default()
    };
    let answered = |asked: RouteMatch, response: &DirectResponse| rt::Route {
        r#match: Some(asked),
        action: Some(rt::route::Action::DirectResponse(route::lower_response(response))),
        ..Default::default()
    };
    let alive = DirectResponse {
        status: 200,
        body: None,
    };
    let host = VirtualHost {
        name: "ready_route".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![answered(liveness, &alive), answered(everything, &route::INTERNAL_ERROR)],
        ..Default::default()
    };
    RouteConfiguration {
        name: "ready_route".to_owned(),
        virtual_hosts: vec![host],
        ..Default::default()
    }
}

fn internal_addresses() -> InternalAddressConfig {
    let range = |(prefix, len): &(&str, u32)| CidrRange {
        address_prefix: (*prefix).to_owned(),
        prefix_len: number(*len),
    };
    InternalAddressConfig {
        unix_sockets: false,
        cidr_ranges: INTERNAL.iter().map(range).collect(),
    }
}

/// The last filter of every chain. It doesn't suppress the proxy's own headers unless somebody asks for that: they are
/// part of what users are told to expect.
pub(crate) fn router() -> HttpFilter {
    router_with(OwnHeaders::Added, Vec::new())
}

fn router_with(own: OwnHeaders, upstream_log: Vec<AccessLog>) -> HttpFilter {
    let router = Router {
        suppress_envoy_headers: own == OwnHeaders::Suppressed,
        upstream_log,
        ..Default::default()
    };
    http_filter("envoy.filters.http.router", router)
}

pub(super) fn http_filter<M: Message + Name>(name: &str, config: M) -> HttpFilter {
    let extension = extension(name, config);
    HttpFilter {
        name: extension.name,
        config_type: extension.typed_config.map(http_filter::ConfigType::TypedConfig),
        ..Default::default()
    }
}
