//! Fields of policies that are taken and have no effect.

use super::of_services;
use crate::{
    api::{Object, text::DurationText},
    status::Condition,
};
use serde_json::Value;
use std::time::Duration;

/// Longest wait for a service that decides about requests, where nothing is said.
const WAIT: Duration = Duration::from_secs(10);

/// The condition that tells of such fields; none where there are none.
pub(super) fn warning(object: &Object) -> Option<Condition> {
    let (Object::SecurityPolicy(policy) | Object::EdgeExtensionPolicy(policy)) = object else {
        return None;
    };
    let auth = &policy.spec["extAuth"];
    let told = ["grpc", "http"].into_iter().filter_map(|how| limit_of_tries(auth, how));
    let mut told: Vec<String> = told.collect();
    told.extend(of_services::told(&policy.spec));
    (!told.is_empty()).then(|| Condition::yes("Warning", "UnsupportedField", told.join("; ")))
}

/// A proxy limits the wait for such a service over all tries, and has no limit for each of them.
fn limit_of_tries(auth: &Value, how: &str) -> Option<String> {
    let limit = &auth[how]["backendSettings"]["retry"]["perRetry"]["timeout"];
    let wait = duration(&auth["timeout"]).unwrap_or(WAIT);
    (duration(limit)? < wait).then(|| {
        format!(
            "spec.extAuth.{how}.backendSettings.retry.perRetry.timeout has no effect: spec.extAuth.timeout limits all \
             tries together"
        )
    })
}

fn duration(text: &Value) -> Option<Duration> {
    DurationText::from(text.as_str()?).parse().ok()
}
