//! Weights of hosts by what they report (Envoy's client-side weighted round robin).
//!
//! A host whose reports are old enough and not too old weighs what they make of it; all others the median of
//! those, so that a new host is neither flooded nor starved. Every worker looks at the reports of all by itself, now
//! and then.

use std::sync::Arc;
use std::time::Instant;

use crate::config::endpoint::Host;
use crate::config::load::LoadWeights;

/// The weights of the hosts of a cluster.
#[derive(Debug)]
pub(super) struct Reported {
    /// By their index.
    pub(super) weights: Box<[u32]>,
    made: Instant,
}

impl Reported {
    /// The weights of now in place of those before, if it is time for that; true when they are others.
    pub(super) fn renew(known: &mut Option<Self>, settings: &LoadWeights, hosts: &[Arc<Host>]) -> bool {
        let now = Instant::now();
        if let Some(known) = known
            && now.saturating_duration_since(known.made) < settings.update
        {
            return false;
        }
        let weights = weights(settings, hosts, now);
        let is_new = known.as_ref().is_none_or(|known| known.weights != weights);
        *known = Some(Self { weights, made: now });
        is_new
    }
}

fn weights(settings: &LoadWeights, hosts: &[Arc<Host>], now: Instant) -> Box<[u32]> {
    let told = hosts.iter().map(|host| {
        let reported = &host.vitals.reported;
        reported.weight(now, settings.blackout, settings.expiration)
    });
    let told: Vec<Option<u32>> = told.collect();
    let mut known: Vec<u32> = told.iter().copied().flatten().collect();
    known.sort_unstable();
    let usual = median(&known).unwrap_or(1);
    told.into_iter().map(|weight| weight.unwrap_or(usual).max(1)).collect()
}

fn median(sorted: &[u32]) -> Option<u32> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(sorted[middle - 1].midpoint(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_or_between_the_two_there() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4]), Some(4));
        assert_eq!(median(&[4, 7]), Some(5));
        assert_eq!(median(&[1, 4, 100]), Some(4));
        assert_eq!(median(&[u32::MAX - 1, u32::MAX]), Some(u32::MAX - 1));
    }
}
