//! GrpcWeb, which has no settings.

use envoy_types::pb::envoy::extensions::filters::http::grpc_web::v3::GrpcWeb;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, unpack};
use crate::config::filter::FilterKind;

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let GrpcWeb {} = unpack(at, config)?;
    Ok(FilterKind::GrpcWeb)
}
