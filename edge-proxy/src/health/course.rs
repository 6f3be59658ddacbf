//! What a row of probes says about a host, without I/O: Envoy's thresholds and pauses.

use std::time::{Duration, Instant};

use crate::config::health::{HealthCheck, Intervals};
use crate::health::events::Event;
use crate::random::Random;
use crate::vitals::{Flag, Vitals};

/// Why a probe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Envoy's name of the kind.
    pub(super) kind: &'static str,
    /// It counts, and doesn't decide alone.
    pub(super) retriable: bool,
    /// The status that came back, if any.
    pub(super) status: u16,
}

impl Failure {
    /// No connection, or not to its end.
    pub(super) const NETWORK: Self = Self::of("NETWORK");
    /// No answer in time.
    pub(super) const TIMEOUT: Self = Self::of("NETWORK_TIMEOUT");
    /// A wrong answer.
    pub(super) const ACTIVE: Self = Self::of("ACTIVE");
    /// The host asked to be left out.
    pub(super) const PASSIVE: Self = Self::of("PASSIVE");

    const fn of(kind: &'static str) -> Self {
        Self {
            kind,
            retriable: false,
            status: 0,
        }
    }

    /// Whether it says more about the way than about the host.
    pub(super) fn is_network(self) -> bool {
        matches!(self.kind, "NETWORK" | "NETWORK_TIMEOUT")
    }
}

/// What a probe did to the health of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// Nothing.
    Unchanged,
    /// Nothing yet.
    Pending,
    /// Another one.
    Changed,
}

/// What follows from a probe.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether health changed.
    pub(super) transition: Transition,
    /// Who wants to know is told of these.
    pub(super) events: [Option<Event>; 2],
}

/// See the module.
#[derive(Debug)]
pub(super) struct Course {
    first: bool,
    passes: u32,
    failures: u32,
}

impl Course {
    /// No probe yet, or (again) none that is remembered.
    pub(super) fn new(first: bool) -> Self {
        Self {
            first,
            passes: 0,
            failures: 0,
        }
    }

    /// A probe has passed.
    pub(super) fn passed(&mut self, check: &HealthCheck, vitals: &Vitals, degraded: bool) -> Verdict {
        self.failures = 0;
        let mut transition = Transition::Unchanged;
        let mut events = [None, None];
        if vitals.has(Flag::FailedCheck) {
            self.passes += 1;
            // The first probe decides alone, so that a start takes no longer than one.
            if self.first || self.passes >= check.healthy_threshold {
                self.passes = 0;
                vitals.clear(Flag::CheckTimeout);
                vitals.clear(Flag::Excluded);
                vitals.clear(Flag::FailedCheck);
                vitals.begin(Instant::now());
                transition = Transition::Changed;
                events[0] = Some(Event::Added { first: self.first });
            } else {
                transition = Transition::Pending;
            }
        }
        if transition != Transition::Changed && check.events.all_successes {
            events[0] = Some(Event::Passed);
        }
        if vitals.clear(Flag::PendingCheck) {
            transition = Transition::Changed;
        }
        if degraded != vitals.has(Flag::DegradedCheck) {
            if degraded {
                vitals.set(Flag::DegradedCheck);
                events[1] = Some(Event::Degraded);
            } else {
                vitals.clear(Flag::DegradedCheck);
                events[1] = Some(Event::NoLongerDegraded);
            }
            if transition == Transition::Unchanged {
                transition = Transition::Changed;
            }
        }
        self.first = false;
        Verdict { transition, events }
    }

    /// A probe has failed.
    pub(super) fn failed(&mut self, check: &HealthCheck, vitals: &Vitals, failure: Failure) -> Verdict {
        self.passes = 0;
        let mut transition = Transition::Unchanged;
        let mut events = [None, None];
        if !vitals.has(Flag::FailedCheck) {
            self.failures += 1;
            // A clear answer decides at once.
            if (!failure.is_network() && !failure.retriable) || self.failures >= check.unhealthy_threshold {
                self.failures = 0;
                vitals.set(Flag::FailedCheck);
                transition = Transition::Changed;
                events[0] = Some(Event::Ejected(failure));
            } else {
                transition = Transition::Pending;
            }
        }
        if failure == Failure::TIMEOUT && vitals.has(Flag::FailedCheck) {
            vitals.set(Flag::CheckTimeout);
        } else {
            vitals.clear(Flag::CheckTimeout);
        }
        if vitals.clear(Flag::PendingCheck) {
            transition = Transition::Changed;
        }
        if self.first || check.events.all_failures {
            events[1] = Some(Event::Failed {
                failure,
                first: self.first,
            });
        }
        self.first = false;
        Verdict { transition, events }
    }
}

/// How long until the next probe, without jitter.
pub(super) fn pause(intervals: &Intervals, passed: bool, transition: Transition, has_traffic: bool) -> Duration {
    let pending = transition == Transition::Pending;
    match (has_traffic, passed, pending) {
        (true, false, true) => intervals.unhealthy_edge,
        (true, false, false) => intervals.unhealthy,
        (true, true, true) => intervals.healthy_edge,
        (true, true, false) => intervals.usual,
        (false, true, false) => intervals.no_traffic_healthy,
        (false, ..) => intervals.no_traffic,
    }
}

/// Spreads the probes of hosts.
pub(super) fn with_jitter(pause: Duration, intervals: &Intervals, random: &Random) -> Duration {
    let share = pause.saturating_mul(intervals.jitter_percent) / 100;
    // Never none at all: a probe that fails at once must not be repeated at once for ever.
    (pause + jitter(share, random) + jitter(intervals.jitter, random)).max(Duration::from_millis(1))
}

/// Anything below this.
pub(super) fn jitter(most: Duration, random: &Random) -> Duration {
    let micros = usize::try_from(most.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(random.below(micros) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::health::{Events, Probe};

    fn check() -> HealthCheck {
        let second = Duration::from_secs(1);
        HealthCheck {
            timeout: second,
            intervals: Intervals {
                usual: second,
                unhealthy: 2 * second,
                unhealthy_edge: 3 * second,
                healthy_edge: 4 * second,
                no_traffic: 60 * second,
                no_traffic_healthy: 50 * second,
                initial_jitter: Duration::ZERO,
                jitter: Duration::ZERO,
                jitter_percent: 0,
            },
            unhealthy_threshold: 2,
            healthy_threshold: 2,
            port: None,
            reuses_connections: true,
            alpn: Box::default(),
            events: Events::default(),
            probe: Probe::Tcp {
                send: bytes::Bytes::new(),
                receive: Box::default(),
            },
            degraded: http::HeaderName::from_static("x-degraded"),
            immediate_fail: http::HeaderName::from_static("x-fail"),
        }
    }

    fn new_host() -> Vitals {
        let vitals = Vitals::default();
        vitals.set(Flag::FailedCheck);
        vitals
    }

    #[test]
    fn the_first_probe_decides_alone_and_later_ones_by_thresholds() {
        let (check, vitals) = (check(), new_host());
        let mut course = Course::new(true);
        let first = course.passed(&check, &vitals, false);
        assert_eq!(
            (first.transition, vitals.has(Flag::FailedCheck)),
            (Transition::Changed, false)
        );
        assert_eq!(first.events[0], Some(Event::Added { first: true }));
        let failed = |course: &mut Course| course.failed(&check, &vitals, Failure::TIMEOUT).transition;
        assert_eq!(failed(&mut course), Transition::Pending);
        course.passed(&check, &vitals, false);
        assert_eq!(
            failed(&mut course),
            Transition::Pending,
            "a success between begins anew"
        );
        assert_eq!(failed(&mut course), Transition::Changed);
        assert!(vitals.has(Flag::FailedCheck) && vitals.has(Flag::CheckTimeout));
        assert_eq!(failed(&mut course), Transition::Unchanged);
        assert_eq!(course.passed(&check, &vitals, false).transition, Transition::Pending);
        assert_eq!(course.passed(&check, &vitals, false).transition, Transition::Changed);
        assert!(!vitals.has(Flag::FailedCheck) && !vitals.has(Flag::CheckTimeout));
    }

    #[test]
    fn a_clear_answer_decides_at_once_unless_it_is_worth_another_try() {
        let (check, vitals) = (check(), Vitals::default());
        let mut course = Course::new(false);
        let retriable = Failure {
            retriable: true,
            ..Failure::ACTIVE
        };
        assert_eq!(
            course.failed(&check, &vitals, retriable).transition,
            Transition::Pending
        );
        let told = course.failed(&check, &vitals, Failure::ACTIVE);
        assert_eq!(told.transition, Transition::Changed);
        assert_eq!(told.events, [Some(Event::Ejected(Failure::ACTIVE)), None]);
    }

    #[test]
    fn pauses_are_envoys() {
        let intervals = check().intervals;
        let seconds = |passed, transition, traffic| pause(&intervals, passed, transition, traffic).as_secs();
        use Transition::{Changed, Pending, Unchanged};
        assert_eq!(
            [Unchanged, Changed, Pending].map(|one| seconds(true, one, true)),
            [1, 1, 4]
        );
        assert_eq!(
            [Unchanged, Changed, Pending].map(|one| seconds(false, one, true)),
            [2, 2, 3]
        );
        assert_eq!(
            [Unchanged, Changed, Pending].map(|one| seconds(true, one, false)),
            [50, 50, 60]
        );
        assert_eq!(seconds(false, Unchanged, false), 60);
    }

    #[test]
    fn a_degraded_host_is_well_and_told_of() {
        let (check, vitals) = (check(), new_host());
        let mut course = Course::new(true);
        let told = course.passed(&check, &vitals, true);
        assert_eq!(told.events, [Some(Event::Added { first: true }), Some(Event::Degraded)]);
        assert!(vitals.has(Flag::DegradedCheck));
        let told = course.passed(&check, &vitals, false);
        assert_eq!(
            (told.transition, told.events[1]),
            (Transition::Changed, Some(Event::NoLongerDegraded))
        );
    }
}
