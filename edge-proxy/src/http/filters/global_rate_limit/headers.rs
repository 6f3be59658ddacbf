//! What clients are told of the limits that a service keeps (draft-polli-ratelimit-headers-03, as Envoy writes it).

use std::fmt::Write as _;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};
use http::{HeaderMap, HeaderValue};

use crate::http::filters::local_rate_limit::{LIMIT, REMAINING, RESET};

/// Tells of the limit of which the least is left, and of all others beside it. `told` is for each of the statuses, and
/// `usual` for those of which nobody says.
pub(super) fn tell(fields: &mut HeaderMap, statuses: &[DescriptorStatus], told: &[bool], usual: bool) {
    let is_told = |at: usize| told.get(at).copied().unwrap_or(usual);
    let with_limit = statuses.iter().enumerate();
    let with_limit: Vec<_> = with_limit
        .filter_map(|(at, status)| Some((at, status, status.current_limit.as_ref()?)))
        .collect();
    let Some((at, status, limit)) = with_limit.iter().min_by_key(|(_, status, _)| status.limit_remaining) else {
        return;
    };
    if !is_told(*at) {
        return;
    }
    let mut text = limit.requests_per_unit.to_string();
    for (at, _, limit) in &with_limit {
        if is_told(*at) {
            policy(&mut text, limit);
        }
    }
    if let Ok(value) = HeaderValue::from_str(&text) {
        fields.append(LIMIT, value);
    }
    fields.append(REMAINING, HeaderValue::from(status.limit_remaining));
    let seconds = status.duration_until_reset.as_ref().map_or(0, |time| time.seconds);
    fields.append(RESET, HeaderValue::from(seconds));
}

fn policy(text: &mut String, limit: &RateLimit) {
    const DAY: u32 = 24 * 60 * 60;
    let seconds = match limit.unit() {
        Unit::Second => 1,
        Unit::Minute => 60,
        Unit::Hour => 60 * 60,
        Unit::Day => DAY,
        Unit::Week => 7 * DAY,
        Unit::Month => 30 * DAY,
        Unit::Year => 365 * DAY,
        Unit::Unknown => return,
    };
    // Writing to a string can't fail.
    let _ = write!(text, ", {};w={seconds}", limit.requests_per_unit);
    if !limit.name.is_empty() {
        let _ = write!(text, ";name=\"{}\"", limit.name);
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::Duration;

    use super::*;

    fn status(requests: u32, unit: Unit, name: &str, left: u32, seconds: i64) -> DescriptorStatus {
        DescriptorStatus {
            current_limit: Some(RateLimit {
                requests_per_unit: requests,
                unit: unit.into(),
                name: name.to_owned(),
            }),
            limit_remaining: left,
            duration_until_reset: Some(Duration { seconds, nanos: 0 }),
            ..DescriptorStatus::default()
        }
    }

    fn told(statuses: &[DescriptorStatus], told: &[bool], usual: bool) -> Vec<String> {
        let mut fields = HeaderMap::new();
        tell(&mut fields, statuses, told, usual);
        let values = fields.values().map(|value| value.to_str().expect("text").to_owned());
        values.collect()
    }

    #[test]
    fn the_limit_that_is_nearest_is_told_with_all_policies() {
        let statuses = [
            status(1, Unit::Minute, "first", 2, 3),
            status(4, Unit::Hour, "", 5, 6),
            DescriptorStatus::default(),
        ];
        let all = ["1, 1;w=60;name=\"first\", 4;w=3600", "2", "3"];
        assert_eq!(told(&statuses, &[], true), all);
        assert_eq!(told(&statuses, &[true, true], false), all);
        assert_eq!(told(&statuses, &[true], false), ["1, 1;w=60;name=\"first\"", "2", "3"]);
        assert!(told(&statuses, &[], false).is_empty());
        assert!(told(&statuses, &[false], true).is_empty());
        assert!(told(&[DescriptorStatus::default()], &[], true).is_empty());
    }
}
