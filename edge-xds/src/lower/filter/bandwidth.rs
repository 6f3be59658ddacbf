//! Limits of bytes in a time.

use edge_ir::{Bandwidth, Direction};
use envoy_types::pb::{
    envoy::extensions::filters::http::bandwidth_limit::v3::{BandwidthLimit, bandwidth_limit::EnableMode},
    google::protobuf::UInt64Value,
};

/// What the names of its counters begin with.
const STAT_PREFIX: &str = "http_bandwidth_limiter";

/// An instance that limits nothing.
pub(super) fn neutral() -> BandwidthLimit {
    BandwidthLimit {
        stat_prefix: STAT_PREFIX.to_owned(),
        ..Default::default()
    }
}

/// The limit of a route.
pub(super) fn lower(limit: &Bandwidth) -> BandwidthLimit {
    let mode = match limit.direction {
        Direction::Request => EnableMode::Request,
        Direction::Response => EnableMode::Response,
    };
    BandwidthLimit {
        enable_mode: mode.into(),
        limit_kbps: Some(UInt64Value { value: limit.limit }),
        enable_response_trailers: limit.trailers.is_some(),
        response_trailer_prefix: limit.trailers.as_deref().unwrap_or_default().to_owned(),
        ..neutral()
    }
}
