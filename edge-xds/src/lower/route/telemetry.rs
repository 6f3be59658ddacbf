//! Traces and metrics of a route.

use super::{STAT_PREFIX, TRACING};
use crate::wire::{put_generated, put_text};
use edge_ir::{Fraction, Origin, RouteEffect, RouteTracing, TagValue};
use envoy_types::pb::envoy::{
    config::route::v3::Tracing,
    r#type::{
        tracing::v3::{
            CustomTag,
            custom_tag::{Environment, Header, Literal, Type},
        },
        v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
};

/// Writes them into a `Route`.
pub(super) fn put(out: &mut Vec<u8>, effect: &RouteEffect) {
    let Some(traffic) = effect.traffic() else {
        return;
    };
    if let Some(tracing) = &traffic.tracing {
        put_generated(out, TRACING, &lower(tracing));
    }
    if let (Some(name), Some(origin)) = (&traffic.stat_name, effect.origins.first()) {
        put_text(out, STAT_PREFIX, &stat_name(name, origin));
    }
}

fn lower(tracing: &RouteTracing) -> Tracing {
    Tracing {
        client_sampling: tracing.client_sampling.map(share),
        random_sampling: tracing.random_sampling.map(share),
        overall_sampling: tracing.overall_sampling.map(share),
        custom_tags: tracing.tags.iter().map(|(name, value)| tag(name, value)).collect(),
        operation: tracing.server_span.as_deref().unwrap_or_default().to_owned(),
        upstream_operation: tracing.client_span.as_deref().unwrap_or_default().to_owned(),
    }
}

/// A share of requests. Envoy draws a number below 10,000 from a request's id and compares it with the numerator, so
/// that millionths would be a hundred times as many.
fn share(Fraction(millionths): Fraction) -> FractionalPercent {
    FractionalPercent {
        numerator: (millionths + 50) / 100,
        denominator: DenominatorType::TenThousand.into(),
    }
}

/// A tag of spans.
pub(in crate::lower) fn tag(name: &str, value: &TagValue) -> CustomTag {
    let value = match value {
        TagValue::Text(text) => Type::Literal(Literal {
            value: text.to_string(),
        }),
        TagValue::Format(format) => Type::Value(format.to_string()),
        TagValue::Header { name, otherwise } => Type::RequestHeader(Header {
            name: name.to_string(),
            default_value: otherwise.to_string(),
        }),
        TagValue::Environment { name, otherwise } => Type::Environment(Environment {
            name: name.to_string(),
            default_value: otherwise.to_string(),
        }),
    };
    CustomTag {
        tag: name.to_owned(),
        r#type: Some(value),
    }
}

/// The name with that of the route in it.
fn stat_name(format: &str, route: &Origin) -> String {
    [
        ("%ROUTE_KIND%", &*route.kind),
        ("%ROUTE_NAMESPACE%", &*route.namespace),
        ("%ROUTE_NAME%", &*route.name),
    ]
    .into_iter()
    .fold(format.to_owned(), |name, (operator, value)| {
        name.replace(operator, value)
    })
}
