//! How long a request may take, and when it is tried again: what a rule says, else what the policy over it does.

use crate::{
    name::Traffic,
    phase::routes::rules::{Limits, Retries, Tries},
};
use edge_ir::{RetryPolicy, Timeout};
use std::sync::Arc;

/// The limit for the whole exchange: that of the rule, else that of the policy, and no more than one for a try where
/// there is one try.
pub(super) fn limit(limits: Limits, retry: Option<&RetryPolicy>, traffic: &Traffic) -> Option<Timeout> {
    let tries = retry.map_or(Tries::One, |_| Tries::Several);
    let limits = Limits {
        whole: limits.whole.or(traffic.timeout),
        ..limits
    };
    limits.of_exchange(tries)
}

/// When a request is tried again: what the rule says, else what the policy says, within the rule's limit for a try.
pub(super) fn retry(own: Retries, limits: Limits, traffic: &Traffic) -> Option<Arc<RetryPolicy>> {
    match own {
        Retries::When(retry) => Some(Arc::new(retry)),
        Retries::Never => None,
        Retries::Unsaid => {
            let retry = traffic.retry.as_ref()?;
            Some(match limits.one_try.filter(|limit| limit.0 > 0) {
                None => Arc::clone(retry),
                one_try => Arc::new(RetryPolicy {
                    per_try_timeout: one_try,
                    ..RetryPolicy::clone(retry)
                }),
            })
        }
    }
}
