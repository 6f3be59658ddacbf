//! HealthCheck → [`HealthCheckFilter`].

use envoy_types::pb::envoy::extensions::filters::http::health_check::v3::HealthCheck;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, truth, unpack};
use crate::compile::header::header_condition;
use crate::config::filter::{FilterKind, HealthCheckFilter};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: HealthCheck = unpack(at, config)?;
    fields!(at, &message => HealthCheck {
        pass_through_mode, headers;
        // Only used in pass-through mode.
        ignore cache_time;
        refuse cluster_min_healthy_percentages
    });
    if truth(pass_through_mode.as_ref()) {
        return Err(at.unsupported("pass_through_mode"));
    }
    let list = at.field("headers");
    let conditions = headers
        .iter()
        .enumerate()
        .map(|(index, matcher)| header_condition(&list.index(index), matcher))
        .collect::<Result<_, _>>()?;
    Ok(FilterKind::HealthCheck(HealthCheckFilter { conditions }))
}
