//! BandwidthLimit → [`Bandwidth`].

use std::time::Duration;

use envoy_types::pb::envoy::extensions::filters::http::bandwidth_limit::v3::BandwidthLimit;
use envoy_types::pb::envoy::extensions::filters::http::bandwidth_limit::v3::bandwidth_limit::EnableMode;
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, duration_or, fields, unpack};
use crate::compile::template::header_name;
use crate::config::filter::bandwidth_limit::{Bandwidth, ByteBucket, Trailers};
use crate::config::filter::{FilterKind, FilterSettings};

/// How long content waits where nothing is said.
const USUAL_INTERVAL: Duration = Duration::from_millis(50);

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    limit(at, &unpack(at, config)?).map(FilterKind::Bandwidth)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: BandwidthLimit = unpack(at, config)?;
    if message.limit_kbps.is_none() {
        return Err(at.field("limit_kbps").error("is required for a route"));
    }
    limit(at, &message).map(FilterSettings::Bandwidth)
}

/// `None` limits nothing.
fn limit(at: &At<'_>, message: &BandwidthLimit) -> Result<Option<Bandwidth>, Rejection> {
    fields!(at, message => BandwidthLimit {
        enable_mode, limit_kbps, fill_interval, enable_response_trailers, response_trailer_prefix;
        // Statistics.
        ignore stat_prefix;
        refuse runtime_enabled
    });
    let (requests, responses) = match EnableMode::try_from(*enable_mode) {
        Ok(EnableMode::Disabled) => return Ok(None),
        Ok(EnableMode::Request) => (true, false),
        Ok(EnableMode::Response) => (false, true),
        Ok(EnableMode::RequestAndResponse) => (true, true),
        Err(_) => return Err(at.field("enable_mode").error("is not known")),
    };
    let kib = match limit_kbps {
        Some(limit) if limit.value > 0 => limit.value,
        _ => return Err(at.field("limit_kbps").error("must be at least 1")),
    };
    let interval = duration_or(&at.field("fill_interval"), fill_interval.as_ref(), USUAL_INTERVAL)?;
    if !(Duration::from_millis(20)..=Duration::from_secs(1)).contains(&interval) {
        return Err(at.field("fill_interval").error("must be from 20 ms to 1 s"));
    }
    let told =
        enable_response_trailers.then(|| trailers(&at.field("response_trailer_prefix"), response_trailer_prefix));
    Ok(Some(Bandwidth {
        requests,
        responses,
        bucket: ByteBucket::new(kib as f64 * 1024.0),
        interval,
        trailers: told.transpose()?,
    }))
}

fn trailers(at: &At<'_>, prefix: &str) -> Result<Trailers, Rejection> {
    let name = |rest: &str| match prefix {
        "" => header_name(at, rest),
        prefix => header_name(at, &format!("{prefix}-{rest}")),
    };
    Ok(Trailers {
        request: name("bandwidth-request-delay-ms")?,
        request_wait: name("bandwidth-request-filter-delay-ms")?,
        response: name("bandwidth-response-delay-ms")?,
        response_wait: name("bandwidth-response-filter-delay-ms")?,
    })
}
