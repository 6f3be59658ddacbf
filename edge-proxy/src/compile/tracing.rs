//! Traces of connection managers and routes → [`Tracing`], [`RouteTracing`].
//!
//! Traces decide nothing about what is served. So a tracer that isn't known, and a tag that can't be told as it is
//! meant, is left out, and the proxy's own log says which and why.

mod route;
#[cfg(test)]
mod tests;
mod tracer;

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing as ProtoTracing;
use envoy_types::pb::envoy::r#type::tracing::v3::CustomTag;
use envoy_types::pb::envoy::r#type::tracing::v3::custom_tag::{Environment, Header, Literal, Type};
use envoy_types::pb::envoy::r#type::v3::Percent;
use http::HeaderName;

pub(super) use route::route;

use crate::compile::Context;
use crate::compile::access_log::{self, Words};
use crate::compile::field::{At, Rejection, fields, number, truth};
use crate::config::access_log::CapturedFields;
use crate::config::route::Fraction;
use crate::config::tracing::{Node, Shares, SpanFormat, Tag, TagValue, Tracing};

/// Envoy's default of how much of a path stands in a span.
const MAX_PATH: u32 = 256;

/// Compiles the traces of a manager; `None` where there are none.
pub(super) fn manager(context: &mut Context, at: &At<'_>, message: Option<&ProtoTracing>) -> Option<Arc<Tracing>> {
    // Without a provider Envoy has a tracer only if its bootstrap names one, which this proxy refuses.
    let message = message.filter(|message| message.provider.is_some())?;
    match traces(context, at, message) {
        Ok(tracing) => Some(Arc::new(tracing)),
        Err(rejection) => {
            tracing::warn!(reason = %rejection, "traces are left out");
            None
        }
    }
}

fn traces(context: &mut Context, at: &At<'_>, message: &ProtoTracing) -> Result<Tracing, Rejection> {
    fields!(at, message => ProtoTracing {
        client_sampling, random_sampling, overall_sampling, max_path_tag_length, custom_tags, provider,
        spawn_upstream_span, operation, upstream_operation, no_context_propagation;
        // Moments of a request, which a span tells beside its tags.
        ignore verbose;
        refuse
    });
    let Some(provider) = provider else {
        return Err(at.field("provider").error("is required"));
    };
    let (tracer, collector) = tracer::tracer(context, &at.field("provider"), provider)?;
    let node = &context.node;
    let zone = node.locality.as_ref().map(|locality| locality.zone.as_str());
    Ok(Tracing {
        shares: Shares {
            // As in Envoy, whole hundredths of these.
            client: share(client_sampling.as_ref(), 100, f64::floor),
            random: share(random_sampling.as_ref(), 10_000, f64::round),
            overall: share(overall_sampling.as_ref(), 10_000, f64::round),
        },
        node: Node {
            id: node.id.as_str().into(),
            cluster: node.cluster.as_str().into(),
            zone: zone.unwrap_or_default().into(),
        },
        spans: spans(context, at, custom_tags, operation, upstream_operation),
        spawns: truth(spawn_upstream_span.as_ref()),
        is_private: *no_context_propagation,
        max_path: number(max_path_tag_length.as_ref()).unwrap_or(MAX_PATH) as usize,
        tracer,
        collector,
    })
}

/// A share in percent, all where nothing is said.
fn share(message: Option<&Percent>, denominator: u32, whole: fn(f64) -> f64) -> Fraction {
    let percent = message.map_or(100.0, |percent| percent.value.clamp(0.0, 100.0));
    let numerator = whole(percent * f64::from(denominator) / 100.0);
    Fraction {
        numerator: numerator as u32,
        denominator,
    }
}

/// What spans tell.
fn spans(context: &Context, at: &At<'_>, tags: &[CustomTag], operation: &str, upstream_operation: &str) -> SpanFormat {
    let mut wanted = CapturedFields::default();
    let list = at.field("custom_tags");
    let mut known = Vec::with_capacity(tags.len());
    for (index, message) in tags.iter().enumerate() {
        match tag(context, &list.index(index), message, &mut wanted) {
            Ok(tag) => known.extend(tag),
            Err(rejection) => tracing::warn!(reason = %rejection, "a tag of spans is left out"),
        }
    }
    let mut name = |field: &str, text: &str| {
        let pieces = access_log::text(&at.field(field), text, &mut Words::of(context, &mut wanted));
        match pieces {
            Ok(pieces) => Some(pieces).filter(|pieces| !pieces.is_empty()),
            Err(rejection) => {
                tracing::warn!(reason = %rejection, "a name of spans is left out");
                None
            }
        }
    };
    let (server, client) = (
        name("operation", operation),
        name("upstream_operation", upstream_operation),
    );
    SpanFormat {
        tags: known.into(),
        server,
        client,
        wanted,
    }
}

/// A tag; none of one that would always be empty.
fn tag(
    context: &Context,
    at: &At<'_>,
    message: &CustomTag,
    wanted: &mut CapturedFields,
) -> Result<Option<Tag>, Rejection> {
    fields!(at, message => CustomTag { tag, r#type; ignore; refuse });
    let fixed = |text: &str| Some(TagValue::Fixed(text.into())).filter(|_| !text.is_empty());
    let value = match r#type {
        Some(Type::Literal(Literal { value })) => fixed(value),
        Some(Type::Environment(Environment { name, default_value })) => {
            let value = context.files.variable(name).filter(|value| !value.is_empty());
            fixed(value.as_deref().unwrap_or(default_value))
        }
        Some(Type::RequestHeader(Header { name, default_value })) => {
            let known = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes());
            let name = known.map_err(|_| at.field("request_header").error(format!("{name:?} is not a name")))?;
            Some(TagValue::Field(wanted.of_request(name), default_value.as_str().into()))
        }
        Some(Type::Value(text)) => {
            let pieces = access_log::text(&at.field("value"), text, &mut Words::of(context, wanted))?;
            Some(TagValue::Format(pieces)).filter(|_| !text.is_empty())
        }
        Some(Type::Metadata(_)) => return Err(at.unsupported("metadata")),
        None => return Err(at.error("a type is required")),
    };
    Ok(value.map(|value| Tag {
        name: tag.as_str().into(),
        value,
    }))
}
