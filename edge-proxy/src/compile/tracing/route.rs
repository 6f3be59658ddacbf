//! What a route says of the traces of its requests → [`RouteTracing`].

use envoy_types::pb::envoy::config::route::v3::Tracing as ProtoTracing;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields};
use crate::compile::route::fraction;
use crate::config::route::Fraction;
use crate::config::tracing::{RouteTracing, Shares};

/// Compiles it.
pub(in crate::compile) fn route(
    context: &Context,
    at: &At<'_>,
    message: &ProtoTracing,
) -> Result<RouteTracing, Rejection> {
    fields!(at, message => ProtoTracing {
        client_sampling, random_sampling, overall_sampling, custom_tags, operation, upstream_operation;
        ignore;
        refuse
    });
    // As in Envoy, what isn't said here is all of them, whatever the manager says.
    let share = |field: &str, message: Option<&FractionalPercent>| match message {
        Some(message) => fraction(&at.field(field), Some(message)),
        None => Ok(Fraction {
            numerator: 100,
            denominator: 100,
        }),
    };
    Ok(RouteTracing {
        shares: Shares {
            client: share("client_sampling", client_sampling.as_ref())?,
            random: share("random_sampling", random_sampling.as_ref())?,
            overall: share("overall_sampling", overall_sampling.as_ref())?,
        },
        spans: super::spans(context, at, custom_tags, operation, upstream_operation),
    })
}
