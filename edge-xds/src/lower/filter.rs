//! HTTP filters: their names, and what a route makes of them.

use super::{
    access,
    common::{extension, range, secret_from_ads},
    cors, ext_authz, session,
    sharing::{Draft, Sharing},
    token,
};
use crate::wire::{MAP_KEY, MAP_VALUE, put_generated, put_str};
use edge_ir::{
    ExistingHeader, FilterEffect, FilterId, HostRewrite, InjectedCredential, NamedHosts, RouteFilter, RouteName,
    VirtualHost,
};
use envoy_types::{
    pb::{
        envoy::{
            config::{cluster::v3::cluster::DnsLookupFamily, route::v3::FilterConfig},
            extensions::{
                common::dynamic_forward_proxy::v3::DnsCacheConfig,
                filters::http::{
                    credential_injector::v3::CredentialInjector,
                    dynamic_forward_proxy::v3::{
                        FilterConfig as DynamicForwardProxy, PerRouteConfig, filter_config::ImplementationSpecifier,
                        per_route_config::HostRewriteSpecifier,
                    },
                },
                http::injected_credentials::generic::v3::Generic,
            },
            r#type::matcher::v3::AddressMatcher,
        },
        google::protobuf::Any,
    },
    util::pack_any,
};
use prost::Message;

mod admission;
mod bandwidth;
mod compressor;
mod fault;
mod instance;
mod overrides;
mod rate_limit;
mod rate_limit_service;

pub(super) use instance::instance;
pub(crate) use rate_limit::described;

/// What the names of all filters begin with.
const PREFIX: &str = "envoy.filters.http.";

/// The name of an instance, on the manager and on routes.
pub(super) fn name(id: &FilterId) -> String {
    format!("{PREFIX}{id}")
}

/// Where a route stands: rate limits are counted by that.
#[derive(Clone, Copy)]
pub(super) struct RoutePosition<'a> {
    /// Its virtual host.
    pub(super) host: &'a VirtualHost,
    /// All of its name but the host.
    pub(super) route: &'a RouteName,
}

/// Whether what a filter does depends on where the route stands.
pub(super) fn is_of_position(effect: &FilterEffect) -> bool {
    matches!(effect, FilterEffect::RateLimit(_) | FilterEffect::GlobalRateLimit(_))
}

/// Writes the entry of a map from filter to its settings for a route.
pub(super) fn put_effect(
    draft: &mut Draft,
    sharing: &mut Sharing,
    field: u32,
    filter: &RouteFilter,
    position: RoutePosition<'_>,
) {
    let shared = match is_of_position(&filter.effect) {
        true => None,
        false => sharing.effect(&filter.effect, |out| {
            out.extend(settings(&filter.effect, position).encode_to_vec())
        }),
    };
    draft.put_message(field, |draft| {
        put_str(&mut draft.bytes, MAP_KEY, &name(&filter.id));
        match shared {
            Some(settings) => draft.put_message(MAP_VALUE, |draft| draft.put_shared(&settings)),
            None => put_generated(&mut draft.bytes, MAP_VALUE, &settings(&filter.effect, position)),
        }
    });
}

fn settings(effect: &FilterEffect, position: RoutePosition<'_>) -> Any {
    match effect {
        FilterEffect::Fault(fault) => pack_any(fault::lower(fault)),
        FilterEffect::Override(overrides) => pack_any(overrides::lower(overrides)),
        FilterEffect::Buffer(limit) => pack_any(instance::buffer_of_route(*limit)),
        FilterEffect::RateLimit(limits) => pack_any(rate_limit::lower(limits, position.host.limits)),
        FilterEffect::GlobalRateLimit(limits) => pack_any(rate_limit_service::of_route(limits, position)),
        FilterEffect::Bandwidth(limit) => pack_any(bandwidth::lower(limit)),
        FilterEffect::Cors(cors) => pack_any(cors::lower(cors)),
        FilterEffect::SiteCheck(check) => pack_any(access::site_check(check)),
        FilterEffect::ExternalAuth(attributes) => ext_authz::on(attributes),
        FilterEffect::Token(requirement) => pack_any(token::asked(requirement)),
        FilterEffect::ApiKeyAuth(auth) => pack_any(access::keys(auth)),
        FilterEffect::BasicAuth(auth) => pack_any(access::users(auth)),
        FilterEffect::Access(rules) => access::rules(rules),
        FilterEffect::Session(session) => pack_any(session::lower(session)),
        FilterEffect::On => pack_any(switched_on()),
        FilterEffect::Resolve(host) => pack_any(resolved_host(host)),
    }
}

/// Switches on, for a route, an instance that the chain has switched off.
pub(super) fn switched_on() -> FilterConfig {
    FilterConfig {
        config: Some(Any::default()),
        ..Default::default()
    }
}

/// An injector of a credential. A request that it has no credential for is refused: it would be somebody else's.
pub(super) fn credential_injector(credential: &InjectedCredential) -> CredentialInjector {
    let generic = Generic {
        credential: Some(secret_from_ads(&credential.secret)),
        header: credential.header.to_string(),
        ..Default::default()
    };
    CredentialInjector {
        overwrite: credential.existing == ExistingHeader::Replaced,
        allow_request_without_credential: false,
        credential: Some(extension("envoy.http.injected_credentials.generic", generic)),
    }
}

/// The names that requests ask for, resolved: the filter and the clusters share one cache, so both say the same of it.
/// A proxy drops what is found in the ranges, whether a resolver says it or the request itself. Stock Envoy never
/// changes what it has once been told of a cache by that name, and refuses whoever says otherwise.
pub(super) fn dns_cache(hosts: NamedHosts) -> DnsCacheConfig {
    let ranges: Vec<_> = hosts.refused().iter().copied().map(range).collect();
    let name = match hosts {
        NamedHosts::Any => "dynamic_forward_proxy",
        NamedHosts::Others => "dynamic_forward_proxy/others",
    };
    DnsCacheConfig {
        name: name.to_owned(),
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        resolved_address_filter: (!ranges.is_empty()).then_some(AddressMatcher {
            ranges,
            invert_match: false,
        }),
        ..Default::default()
    }
}

/// Resolves the host of a request whose cluster has no endpoints of its own, and lets all others pass.
fn dynamic_forward_proxy(hosts: NamedHosts) -> DynamicForwardProxy {
    DynamicForwardProxy {
        implementation_specifier: Some(ImplementationSpecifier::DnsCacheConfig(dns_cache(hosts))),
        ..Default::default()
    }
}

/// What a request's host becomes, for the filter that resolves it before the router rewrites it.
fn resolved_host(host: &HostRewrite) -> PerRouteConfig {
    PerRouteConfig {
        host_rewrite_specifier: match host {
            HostRewrite::Literal(name) => Some(HostRewriteSpecifier::HostRewriteLiteral(name.to_string())),
            HostRewrite::Header(name) => Some(HostRewriteSpecifier::HostRewriteHeader(name.to_string())),
            HostRewrite::Endpoint | HostRewrite::Path(_) => None,
        },
    }
}
