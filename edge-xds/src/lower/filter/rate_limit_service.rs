//! Limits of requests that a service keeps for all proxies: whom an instance asks, and how a route's requests are told.

use super::{
    super::common::duration,
    RoutePosition,
    rate_limit::{hits, rule},
};
use crate::limits::{domain, owner_key};
use edge_ir::{GlobalRateLimit, GlobalRateLimitRule, LimitHeaders, RateLimitService, Unanswered};
use envoy_types::pb::envoy::{
    config::{
        core::v3::{
            ApiVersion, GrpcService,
            grpc_service::{EnvoyGrpc, TargetSpecifier},
        },
        ratelimit::v3::RateLimitServiceConfig,
        route::v3::{
            self as rt,
            rate_limit::{
                Action, Override,
                action::{ActionSpecifier, GenericKey},
                r#override::{DynamicMetadata, OverrideSpecifier},
            },
        },
    },
    extensions::filters::http::ratelimit::v3::{
        RateLimit as Filter, RateLimitPerRoute, rate_limit::XRateLimitHeadersRfcVersion,
    },
    r#type::metadata::v3::{
        MetadataKey,
        metadata_key::{PathSegment, path_segment::Segment},
    },
};

/// The domain of an instance; each route names its own.
const NO_DOMAIN: &str = "none";

/// The instance of a listener; a route says what is counted.
pub(super) fn lower(service: &RateLimitService) -> Filter {
    let headers = match service.told {
        LimitHeaders::Usual | LimitHeaders::Yes => XRateLimitHeadersRfcVersion::DraftVersion03,
        LimitHeaders::No => XRateLimitHeadersRfcVersion::Off,
    };
    Filter {
        domain: NO_DOMAIN.to_owned(),
        timeout: Some(duration(service.timeout)),
        failure_mode_deny: service.unanswered == Unanswered::Refused,
        enable_x_ratelimit_headers: headers.into(),
        rate_limit_service: Some(RateLimitServiceConfig {
            grpc_service: Some(GrpcService {
                target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                    cluster_name: service.cluster.to_string(),
                    ..Default::default()
                })),
                ..Default::default()
            }),
            transport_api_version: ApiVersion::V3.into(),
        }),
        ..Default::default()
    }
}

/// What is counted of a route's requests.
pub(super) fn of_route(limits: &GlobalRateLimit, position: RoutePosition<'_>) -> RateLimitPerRoute {
    let name = format!("{}/{}", position.route, position.host.own_name());
    RateLimitPerRoute {
        domain: domain(limits, position.host).to_owned(),
        rate_limits: limits
            .rules
            .iter()
            .flat_map(|rule| of_rule(limits, rule, &name))
            .collect(),
        ..Default::default()
    }
}

/// How a request is described for a rule when it comes and, where it counts then, when it has been answered.
fn of_rule(limits: &GlobalRateLimit, of: &GlobalRateLimitRule, route: &str) -> impl Iterator<Item = rt::RateLimit> {
    let key = owner_key(limits, of.number).unwrap_or_else(|| route.to_owned());
    let mut asked = rule(&of.rule);
    let owner = ActionSpecifier::GenericKey(GenericKey {
        descriptor_key: key.clone(),
        descriptor_value: key,
        ..Default::default()
    });
    let owner = Action {
        action_specifier: Some(owner),
    };
    asked.actions.insert(0, owner);
    asked.limit = of.told_by.as_ref().map(|(namespace, key)| Override {
        override_specifier: Some(OverrideSpecifier::DynamicMetadata(DynamicMetadata {
            metadata_key: Some(MetadataKey {
                key: namespace.to_string(),
                path: vec![PathSegment {
                    segment: Some(Segment::Key(key.to_string())),
                }],
            }),
        })),
    });
    let answered = of.answered.as_ref().map(|cost| rt::RateLimit {
        apply_on_stream_done: true,
        hits_addend: hits(cost),
        ..asked.clone()
    });
    std::iter::once(asked).chain(answered)
}
