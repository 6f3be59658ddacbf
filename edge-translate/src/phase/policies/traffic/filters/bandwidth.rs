//! Limits of bytes in a time.

use super::Problems;
use crate::api::{
    BackendTrafficPolicySpec,
    fault::{BandwidthUnit, BandwidthValue},
};
use edge_ir::{Bandwidth, Direction};
use std::sync::Arc;

const AREA: &str = "BandwidthLimit";

/// The limits of both directions, each with the name of the instance that keeps it.
pub(super) fn limits(
    spec: &BackendTrafficPolicySpec,
    problems: &mut Problems,
) -> impl Iterator<Item = (&'static str, Bandwidth)> {
    let limits = spec.bandwidth_limit.as_deref();
    if limits.is_some_and(|limits| limits.request.is_none() && limits.response.is_none()) {
        problems.add(AREA, "at least one of request or response must be specified");
    }
    let request = limits.and_then(|limits| limits.request.as_ref()).and_then(|request| {
        Some(Bandwidth {
            direction: Direction::Request,
            limit: limit("request", &request.limit, problems)?,
            trailers: None,
        })
    });
    let response = limits.and_then(|limits| limits.response.as_ref()).and_then(|response| {
        let trailers = response.response_trailers.as_ref();
        Some(Bandwidth {
            direction: Direction::Response,
            limit: limit("response", &response.limit, problems)?,
            trailers: trailers.map(|trailers| prefix(trailers.prefix.as_deref().unwrap_or_default(), problems)),
        })
    });
    let both = [("request", request), ("response", response)];
    both.into_iter().filter_map(|(name, limit)| Some((name, limit?)))
}

/// KiB in a second.
fn limit(direction: &str, value: &BandwidthValue, problems: &mut Problems) -> Option<u64> {
    let bytes = problems.quantity(AREA, direction, Some(&value.value))?;
    let seconds = match &value.unit {
        BandwidthUnit::Second => 1,
        BandwidthUnit::Minute => 60,
        BandwidthUnit::Hour => 3600,
        BandwidthUnit::Other(other) => {
            problems.add(AREA, format_args!("{direction}: unsupported unit {other}"));
            return None;
        }
    };
    let limit = bytes / seconds / 1024;
    if limit == 0 {
        let unit = &value.unit;
        problems.add(
            AREA,
            format_args!("{direction}: bandwidth limit of {bytes} bytes per {unit} is below the minimum of 1 KiB/s"),
        );
        return None;
    }
    Some(limit)
}

/// What names of trailers begin with: part of a name, or nothing.
fn prefix(prefix: &str, problems: &mut Problems) -> Arc<str> {
    match prefix.is_empty() {
        true => Arc::default(),
        false => problems.token(AREA, "response: prefix", prefix),
    }
}
