//! Buffer → the largest request that is read whole.

use envoy_types::pb::envoy::extensions::filters::http::buffer::v3::buffer_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::buffer::v3::{Buffer, BufferPerRoute};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    limit(at, &unpack(at, config)?).map(FilterKind::Buffer)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: BufferPerRoute = unpack(at, config)?;
    match &message.r#override {
        Some(Override::Disabled(true)) => Ok(FilterSettings::Buffer(None)),
        Some(Override::Disabled(false)) => Err(at.field("disabled").error("must be true")),
        Some(Override::Buffer(buffer)) => {
            limit(&at.field("buffer"), buffer).map(|limit| FilterSettings::Buffer(Some(limit)))
        }
        None => Err(at.error("disabled or buffer is required")),
    }
}

fn limit(at: &At<'_>, message: &Buffer) -> Result<usize, Rejection> {
    fields!(at, message => Buffer { max_request_bytes; ignore; refuse });
    match max_request_bytes {
        Some(limit) if limit.value > 0 => Ok(limit.value as usize),
        _ => Err(at.field("max_request_bytes").error("must be at least 1")),
    }
}
