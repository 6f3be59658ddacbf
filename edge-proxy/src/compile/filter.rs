//! HTTP filters: a manager's list of them, and what the levels of a route table say of them.
//!
//! [`FILTERS`] is the table of all that are built, one module each. On a chain the type of the settings says
//! which filter it is, as in Envoy; of a route too, but where a route only switches a filter on, there is no type, and
//! its name must be that of a filter that is built (what follows a `/` in it tells instances apart).
//! The law: a filter that isn't built is refused by its name, unless the chain says that it is optional. One that is
//! off stands on the chain as [`FilterKind::Unknown`], and whatever a route says of it is refused with the route.

mod admission_control;
mod api_key;
mod bandwidth_limit;
mod basic_auth;
mod buffer;
mod compressor;
mod cors;
mod credential_injector;
mod csrf;
mod custom_response;
pub(super) mod dynamic_forward_proxy;
mod ext_authz;
mod ext_proc;
mod fault;
mod geoip;
mod global_rate_limit;
mod grpc_web;
pub(super) mod header_mutation;
mod health_check;
mod jwt;
mod local_rate_limit;
mod oauth2;
mod rate_limit_descriptor;
mod rbac;
mod session;

use std::collections::HashMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::grpc_stats::v3::FilterConfig as GrpcStats;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter as ProtoFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::field::{At, Rejection, fields, is, type_name, unpack};
use crate::compile::{Context, access_log};
use crate::config::filter::{FilterKind, FilterSettings, HttpFilter, HttpFilters, Mark, RouteFilter, RouteFilters};
use crate::config::http_manager::RouterOptions;

/// Compiles what a chain says of a filter.
type OnChain = fn(&At<'_>, &Any, &mut Context) -> Result<FilterKind, Rejection>;
/// Compiles what a route says of it.
type OfRoute = fn(&At<'_>, &Any, &mut Context) -> Result<FilterSettings, Rejection>;

/// A filter that is built.
struct Filter {
    /// Its usual name.
    name: &'static str,
    /// The type of its settings on a chain.
    chain: &'static str,
    on_chain: OnChain,
    /// The type of its settings for a route, if it has any.
    route: Option<(&'static str, OfRoute)>,
}

/// All filters that are built.
const FILTERS: &[Filter] = &[
    Filter {
        name: "envoy.filters.http.health_check",
        chain: "envoy.extensions.filters.http.health_check.v3.HealthCheck",
        on_chain: health_check::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.cors",
        chain: "envoy.extensions.filters.http.cors.v3.Cors",
        on_chain: cors::on_chain,
        route: Some(("envoy.extensions.filters.http.cors.v3.CorsPolicy", cors::of_route)),
    },
    Filter {
        name: "envoy.filters.http.grpc_web",
        chain: "envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
        on_chain: grpc_web::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.stateful_session",
        chain: "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        on_chain: session::on_chain,
        route: Some((
            "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
            session::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.fault",
        chain: "envoy.extensions.filters.http.fault.v3.HTTPFault",
        on_chain: fault::on_chain,
        route: Some(("envoy.extensions.filters.http.fault.v3.HTTPFault", fault::of_route)),
    },
    Filter {
        name: "envoy.filters.http.csrf",
        chain: "envoy.extensions.filters.http.csrf.v3.CsrfPolicy",
        on_chain: csrf::on_chain,
        route: Some(("envoy.extensions.filters.http.csrf.v3.CsrfPolicy", csrf::of_route)),
    },
    Filter {
        name: "envoy.filters.http.header_mutation",
        chain: "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
        on_chain: header_mutation::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.api_key_auth",
        chain: "envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth",
        on_chain: api_key::on_chain,
        route: Some((
            "envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute",
            api_key::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.basic_auth",
        chain: "envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
        on_chain: basic_auth::on_chain,
        route: Some((
            "envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute",
            basic_auth::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.buffer",
        chain: "envoy.extensions.filters.http.buffer.v3.Buffer",
        on_chain: buffer::on_chain,
        route: Some((
            "envoy.extensions.filters.http.buffer.v3.BufferPerRoute",
            buffer::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.admission_control",
        chain: "envoy.extensions.filters.http.admission_control.v3.AdmissionControl",
        on_chain: admission_control::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.bandwidth_limit",
        chain: "envoy.extensions.filters.http.bandwidth_limit.v3.BandwidthLimit",
        on_chain: bandwidth_limit::on_chain,
        route: Some((
            "envoy.extensions.filters.http.bandwidth_limit.v3.BandwidthLimit",
            bandwidth_limit::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.custom_response",
        chain: "envoy.extensions.filters.http.custom_response.v3.CustomResponse",
        on_chain: custom_response::on_chain,
        route: Some((
            "envoy.extensions.filters.http.custom_response.v3.CustomResponse",
            custom_response::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.compressor",
        chain: "envoy.extensions.filters.http.compressor.v3.Compressor",
        on_chain: compressor::on_chain,
        route: Some((
            "envoy.extensions.filters.http.compressor.v3.CompressorPerRoute",
            compressor::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.rbac",
        chain: "envoy.extensions.filters.http.rbac.v3.RBAC",
        on_chain: rbac::on_chain,
        route: Some(("envoy.extensions.filters.http.rbac.v3.RBACPerRoute", rbac::of_route)),
    },
    Filter {
        name: "envoy.filters.http.local_ratelimit",
        chain: "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        on_chain: local_rate_limit::on_chain,
        route: Some((
            "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            local_rate_limit::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.ratelimit",
        chain: "envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        on_chain: global_rate_limit::on_chain,
        route: Some((
            "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute",
            global_rate_limit::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.credential_injector",
        chain: "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
        on_chain: credential_injector::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.geoip",
        chain: "envoy.extensions.filters.http.geoip.v3.Geoip",
        on_chain: geoip::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.oauth2",
        chain: "envoy.extensions.filters.http.oauth2.v3.OAuth2",
        on_chain: oauth2::on_chain,
        route: None,
    },
    Filter {
        name: "envoy.filters.http.jwt_authn",
        chain: "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        on_chain: jwt::on_chain,
        route: Some((
            "envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig",
            jwt::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.ext_authz",
        chain: "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        on_chain: ext_authz::on_chain,
        route: Some((
            "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
            ext_authz::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.ext_proc",
        chain: "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        on_chain: ext_proc::on_chain,
        route: Some((
            "envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
            ext_proc::of_route,
        )),
    },
    Filter {
        name: "envoy.filters.http.dynamic_forward_proxy",
        chain: "envoy.extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig",
        on_chain: dynamic_forward_proxy::on_chain,
        route: Some((
            "envoy.extensions.filters.http.dynamic_forward_proxy.v3.PerRouteConfig",
            dynamic_forward_proxy::of_route,
        )),
    },
];

/// The filters before the router, and the router's options. The router must come last, as Envoy demands.
pub(super) fn chain(
    at: &At<'_>,
    list: &[ProtoFilter],
    context: &mut Context,
) -> Result<(HttpFilters, RouterOptions), Rejection> {
    let mut filters = Vec::new();
    let mut router = None;
    for (index, filter) in list.iter().enumerate() {
        let at = at.index(index);
        if router.is_some() {
            return Err(at.error("the router must be the last filter"));
        }
        let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
            return Err(at.error(format!("filter {:?} needs typed_config", filter.name)));
        };
        let at_config = at.field("typed_config");
        if is::<Router>(config) {
            router = Some(self::router(&at_config, &unpack(&at_config, config)?, context)?);
        } else if let Some(kind) = kind(&at, filter, config, context)? {
            filters.push(HttpFilter {
                name: filter.name.as_str().into(),
                kind,
                disabled: filter.disabled,
            });
        }
    }
    match router {
        Some(router) => Ok((HttpFilters::new(filters), router)),
        None => Err(at.error("a router filter is required")),
    }
}

/// What a filter does; `None` where it may be left out.
fn kind(
    at: &At<'_>,
    filter: &ProtoFilter,
    config: &Any,
    context: &mut Context,
) -> Result<Option<FilterKind>, Rejection> {
    let name = type_name(config);
    if let Some(built) = FILTERS.iter().find(|built| built.chain == name) {
        return (built.on_chain)(&at.field("typed_config"), config, context).map(Some);
    }
    if is::<GrpcStats>(config) {
        // Only observes: requests fare the same without. Calls count as requests of their cluster, and are not counted
        // by their gRPC status.
        return Ok(None);
    }
    if filter.disabled {
        return Ok(Some(FilterKind::Unknown));
    }
    // Skipping an unknown filter could skip authentication, so only the word that says so allows it.
    if filter.is_optional {
        return Ok(None);
    }
    Err(at.error(format!(
        "filter {:?} ({name}) is not supported by this proxy",
        filter.name
    )))
}

fn router(at: &At<'_>, message: &Router, context: &mut Context) -> Result<RouterOptions, Rejection> {
    fields!(at, message => Router {
        suppress_envoy_headers, upstream_http_filters, upstream_log, upstream_log_options;
        ignore dynamic_stats, start_child_span, strict_check_headers, suppress_grpc_request_failure_code_stats,
               reject_connect_request_early_data;
        refuse respect_expected_rq_timeout
    });
    access_log::of_attempts(&at.field("upstream_log_options"), upstream_log_options.as_ref())?;
    for (index, filter) in upstream_http_filters.iter().enumerate() {
        if filter.name != "envoy.filters.http.upstream_codec" {
            let at = at.field("upstream_http_filters");
            return Err(at
                .index(index)
                .error(format!("filter {:?} is not supported by this proxy", filter.name)));
        }
    }
    Ok(RouterOptions {
        attempt_logs: access_log::access_logs(context, &at.field("upstream_log"), upstream_log),
        suppress_envoy_headers: *suppress_envoy_headers,
    })
}

/// What one level of a route table says (`typed_per_filter_config`), over what wider levels say.
pub(super) fn of_level(
    at: &At<'_>,
    said: &HashMap<String, Any>,
    context: &mut Context,
    wider: &RouteFilters,
) -> Result<RouteFilters, Rejection> {
    if said.is_empty() {
        return Ok(wider.clone());
    }
    let at = at.field("typed_per_filter_config");
    let mut names: Vec<&String> = said.keys().collect();
    names.sort();
    let filters = names.into_iter().filter_map(|name| {
        let filter = of_filter(&at.field(name), name, said.get(name)?, context);
        filter.transpose()
    });
    Ok(RouteFilters::new(filters.collect::<Result<_, _>>()?).over(wider))
}

/// What is said of one filter; `None` where that may be left out.
fn of_filter(at: &At<'_>, name: &str, config: &Any, context: &mut Context) -> Result<Option<RouteFilter>, Rejection> {
    let filter = |disabled, settings: Option<(FilterSettings, Mark)>| {
        let (settings, mark) = settings.unzip();
        Ok(Some(RouteFilter {
            name: name.into(),
            disabled,
            settings: settings.map(Arc::new),
            mark: mark.unwrap_or_default(),
        }))
    };
    let settings = |at: &At<'_>, config: &Any, context: &mut Context| {
        let settings = settings(at, config, context)?;
        Ok::<_, Rejection>((settings, Mark::of(&config.value)))
    };
    if !is::<FilterConfig>(config) {
        return filter(false, Some(settings(at, config, context)?));
    }
    let message: FilterConfig = unpack(at, config)?;
    fields!(at, &message => FilterConfig { config, is_optional, disabled; ignore; refuse });
    match config {
        _ if *disabled => filter(true, None),
        // Switched on: by a message without a type, which JSON can't say, so none says the same here.
        config if config.as_ref().is_none_or(|config| config.type_url.is_empty()) => {
            let usual = name.split_once('/').map_or(name, |(usual, _)| usual);
            if FILTERS.iter().any(|built| built.name == usual) {
                filter(false, None)
            } else {
                Err(at.error("not supported by this proxy"))
            }
        }
        Some(config) if *is_optional && !is_built(config) => Ok(None),
        Some(config) => filter(false, Some(settings(&at.field("config"), config, context)?)),
        None => Err(at.field("config").error("is required")),
    }
}

fn is_built(config: &Any) -> bool {
    let name = type_name(config);
    let mut routes = FILTERS.iter().filter_map(|built| built.route);
    routes.any(|(route, _)| route == name)
}

fn settings(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterSettings, Rejection> {
    let name = type_name(config);
    let mut routes = FILTERS.iter().filter_map(|built| built.route);
    match routes.find(|(route, _)| *route == name) {
        Some((_, of_route)) => of_route(at, config, context),
        None => Err(at.error(format!("type {name:?} is not supported by this proxy"))),
    }
}
