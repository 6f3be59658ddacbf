//! Outlier detection of one cluster, without I/O: whom traffic has shown to be ill, and for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::config::endpoint::{Host, HostId};
use crate::config::health::OutlierDetection;
use crate::random::Random;
use crate::stats::{ClusterStats, Counter};
use crate::vitals::{Flag, Streak, Vitals};

/// See the module.
#[derive(Debug)]
pub(super) struct Detector {
    settings: OutlierDetection,
    monitors: FxHashMap<HostId, Monitor>,
}

/// What is remembered of a host.
#[derive(Debug, Default)]
struct Monitor {
    /// It makes ejections longer, and falls while the host is well.
    backoff: u32,
    ejected: Option<Ejection>,
    restored: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Ejection {
    since: Instant,
    jitter: Duration,
}

/// A share of successes.
struct Rate<'a> {
    host: &'a Host,
    percent: f64,
    requests: u64,
}

/// Which requests a rate is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Answers,
    Local,
}

impl Detector {
    /// Nobody is known yet.
    pub(super) fn new(settings: OutlierDetection) -> Self {
        Self {
            settings,
            monitors: FxHashMap::default(),
        }
    }

    /// Whether a probe that passes ends an ejection.
    pub(super) fn ends_with_check(&self) -> bool {
        self.settings.ends_with_check
    }

    /// Forgets hosts that have gone.
    pub(super) fn follow(&mut self, hosts: &[Arc<Host>]) {
        let mut before = std::mem::take(&mut self.monitors);
        self.monitors = hosts
            .iter()
            .map(|host| (host.id, before.remove(&host.id).unwrap_or_default()))
            .collect();
    }

    /// A host has failed too often in a row; true when it is ejected for it.
    pub(super) fn suspect(
        &mut self,
        host: &Host,
        streak: Streak,
        now: Instant,
        random: &Random,
        stats: &ClusterStats,
    ) -> bool {
        if host.vitals.has(Flag::Ejected) {
            return false;
        }
        let cells = stats.control();
        let (enforcing, detected, enforced) = match streak {
            Streak::ServerError => (
                self.settings.server_errors.enforcing,
                &cells.outlier_detected_5xx,
                &cells.outlier_enforced_5xx,
            ),
            Streak::GatewayError => (
                self.settings.gateway_errors.enforcing,
                &cells.outlier_detected_gateway,
                &cells.outlier_enforced_gateway,
            ),
            Streak::LocalOrigin => (
                self.settings.local_failures.enforcing,
                &cells.outlier_detected_local,
                &cells.outlier_enforced_local,
            ),
        };
        detected.inc();
        let ejected = self.eject(host, enforcing, enforced, now, random, stats);
        host.vitals.forget(streak);
        ejected
    }

    fn eject(
        &mut self,
        host: &Host,
        enforcing: u32,
        enforced: &Counter,
        now: Instant,
        random: &Random,
        stats: &ClusterStats,
    ) -> bool {
        let settings = &self.settings;
        let active = self
            .monitors
            .values()
            .filter(|monitor| monitor.ejected.is_some())
            .count();
        let all = self.monitors.len();
        let is_within = (active + 1) * 100 <= settings.max_percent as usize * all;
        if !(is_within || settings.always_one && active == 0) {
            stats.control().outlier_ejections_overflow.inc();
            return false;
        }
        let Some(monitor) = self.monitors.get_mut(&host.id) else {
            return false;
        };
        if random.below(100) >= enforcing as usize {
            return false;
        }
        enforced.inc();
        stats.control().outlier_enforced_total.inc();
        monitor.ejected = Some(Ejection {
            since: now,
            jitter: super::course::jitter(settings.max_jitter, random),
        });
        if settings.base_time.saturating_mul(monitor.backoff) < settings.max_time + settings.base_time {
            monitor.backoff += 1;
        }
        host.vitals.set(Flag::Ejected)
    }

    /// Ends an ejection; true if there was one.
    pub(super) fn restore(&mut self, id: HostId, vitals: &Vitals, now: Instant) -> bool {
        if !vitals.clear(Flag::Ejected) {
            return false;
        }
        if let Some(monitor) = self.monitors.get_mut(&id) {
            monitor.ejected = None;
            monitor.restored = Some(now);
        }
        for streak in [Streak::ServerError, Streak::GatewayError, Streak::LocalOrigin] {
            vitals.forget(streak);
        }
        true
    }

    /// Time is up for some, and rates are compared; true when anything changed.
    pub(super) fn look(&mut self, hosts: &[Arc<Host>], now: Instant, random: &Random, stats: &ClusterStats) -> bool {
        let mut changed = false;
        let (base, most) = (self.settings.base_time, self.settings.max_time);
        for host in hosts {
            let over = self.monitors.get(&host.id).is_some_and(|monitor| {
                monitor.ejected.is_some_and(|ejection| {
                    let time = base.saturating_mul(monitor.backoff).min(most) + ejection.jitter;
                    now.saturating_duration_since(ejection.since) >= time
                })
            });
            if over {
                changed |= self.restore(host.id, &host.vitals, now);
            }
        }
        for origin in [Origin::Answers, Origin::Local] {
            let rates: Vec<Rate<'_>> = hosts.iter().filter_map(|host| rate(host, origin)).collect();
            changed |= self.compare(&rates, hosts.len(), origin, now, random, stats);
        }
        for host in hosts.iter().filter(|host| !host.vitals.has(Flag::Ejected)) {
            if let Some(monitor) = self.monitors.get_mut(&host.id)
                && monitor
                    .restored
                    .is_some_and(|at| now.saturating_duration_since(at) >= self.settings.interval)
            {
                monitor.backoff = monitor.backoff.saturating_sub(1);
            }
        }
        changed
    }

    fn compare(
        &mut self,
        rates: &[Rate<'_>],
        hosts: usize,
        origin: Origin,
        now: Instant,
        random: &Random,
        stats: &ClusterStats,
    ) -> bool {
        let (success, failure) = (self.settings.success_rate, self.settings.failure_percentage);
        if hosts < success.min_hosts as usize && hosts < failure.min_hosts as usize {
            return false;
        }
        let cells = stats.control();
        let mut changed = false;
        let enough =
            |least: u32| -> Vec<&Rate<'_>> { rates.iter().filter(|rate| rate.requests >= u64::from(least)).collect() };
        let valid = enough(success.min_requests);
        if !valid.is_empty() && valid.len() >= success.min_hosts as usize {
            let threshold = threshold(&valid, success.deviations);
            let (enforcing, detected, enforced) = match origin {
                Origin::Answers => (
                    success.enforcing,
                    &cells.outlier_detected_success_rate,
                    &cells.outlier_enforced_success_rate,
                ),
                Origin::Local => (
                    success.enforcing_local,
                    &cells.outlier_detected_local_success_rate,
                    &cells.outlier_enforced_local_success_rate,
                ),
            };
            for rate in valid.iter().filter(|rate| rate.percent < threshold) {
                detected.inc();
                changed |= self.eject(rate.host, enforcing, enforced, now, random, stats);
            }
        }
        let valid = enough(failure.min_requests);
        if !valid.is_empty() && valid.len() >= failure.min_hosts as usize {
            let (enforcing, detected, enforced) = match origin {
                Origin::Answers => (
                    failure.enforcing,
                    &cells.outlier_detected_failure_percentage,
                    &cells.outlier_enforced_failure_percentage,
                ),
                Origin::Local => (
                    failure.enforcing_local,
                    &cells.outlier_detected_local_failure_percentage,
                    &cells.outlier_enforced_local_failure_percentage,
                ),
            };
            let failing = |rate: &&&Rate<'_>| 100.0 - rate.percent >= f64::from(failure.threshold);
            for rate in valid.iter().filter(failing) {
                detected.inc();
                changed |= !rate.host.vitals.has(Flag::Ejected)
                    && self.eject(rate.host, enforcing, enforced, now, random, stats);
            }
        }
        changed
    }
}

/// The share of successes of a host that is not ejected, if there was any request.
fn rate(host: &Host, origin: Origin) -> Option<Rate<'_>> {
    let tally = match origin {
        Origin::Answers => &host.vitals.answers,
        Origin::Local => &host.vitals.local,
    };
    let (requests, successes) = tally.take();
    if requests == 0 || host.vitals.has(Flag::Ejected) {
        return None;
    }
    Some(Rate {
        host,
        percent: successes as f64 * 100.0 / requests as f64,
        requests,
    })
}

/// So many standard deviations below the mean.
fn threshold(rates: &[&Rate<'_>], deviations: f64) -> f64 {
    let count = rates.len() as f64;
    let mean = rates.iter().map(|rate| rate.percent).sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate.percent - mean).powi(2)).sum::<f64>() / count;
    mean - deviations * variance.sqrt()
}

#[cfg(test)]
mod tests;
