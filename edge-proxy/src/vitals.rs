//! What the run knows of a host: whether checks and traffic find it well, and since when it is a member.
//!
//! Flags that the control half sets and every thread reads, and counts that workers write for outlier detection.
//! They belong to the host and outlive updates of its cluster's endpoints. The compiled configuration says what a host
//! is; this says how it fares.
//! Deliberately absent: decisions. Which flags follow from what is `health`'s, and who is served by whom
//! [`crate::config::endpoint`]'s.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Something about a host that keeps it from being, or being plainly, healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flag {
    /// Active checks failed, or none has passed yet.
    FailedCheck = 1,
    /// The last failure was a timeout.
    CheckTimeout = 1 << 1,
    /// The host told its checker that it is degraded.
    DegradedCheck = 1 << 2,
    /// Outlier detection has taken it out.
    Ejected = 1 << 3,
    /// No check has ended yet, and it is not to be counted until one has.
    PendingCheck = 1 << 4,
    /// It asked to be left out at once.
    Excluded = 1 << 5,
}

/// A kind of failures in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streak {
    /// Answers of 500 and above.
    ServerError,
    /// Answers of 502, 503 and 504.
    GatewayError,
    /// No connection, no answer.
    LocalOrigin,
}

/// Requests of an interval.
#[derive(Debug, Default)]
pub struct Tally {
    total: AtomicU64,
    successes: AtomicU64,
}

impl Tally {
    fn count(&self, is_success: bool) {
        self.total.fetch_add(1, Ordering::Relaxed);
        if is_success {
            self.successes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many there were and how many of them succeeded, since the last call.
    pub fn take(&self) -> (u64, u64) {
        (
            self.total.swap(0, Ordering::Relaxed),
            self.successes.swap(0, Ordering::Relaxed),
        )
    }
}

/// See the module.
#[derive(Debug)]
pub struct Vitals {
    flags: AtomicU32,
    streaks: [AtomicU32; 3],
    /// A streak that has reached its limit, by bits of [`Streak`].
    suspicions: AtomicU32,
    /// Answers of the host.
    pub answers: Tally,
    /// Connections and waits, where they are told apart from answers.
    pub local: Tally,
    /// Milliseconds of the process at which it became a member that serves.
    since: AtomicU64,
    /// What its reports of load make it weigh.
    pub reported: ReportedWeight,
    /// How often it was found to be ill.
    failures: AtomicU32,
}

impl Default for Vitals {
    fn default() -> Self {
        let vitals = Self {
            flags: AtomicU32::new(0),
            streaks: Default::default(),
            suspicions: AtomicU32::new(0),
            answers: Tally::default(),
            local: Tally::default(),
            since: AtomicU64::new(0),
            reported: ReportedWeight::default(),
            failures: AtomicU32::new(0),
        };
        vitals.begin(Instant::now());
        vitals
    }
}

/// The moment from which a process counts.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// A moment in milliseconds of the process.
fn millis(moment: Instant) -> u64 {
    let since = moment.saturating_duration_since(epoch()).as_millis();
    u64::try_from(since).unwrap_or(u64::MAX)
}

/// What the reports of a host make it weigh, and since when there are some.
#[derive(Debug)]
pub struct ReportedWeight {
    weight: AtomicU32,
    /// [`Self::NEVER`] when there is none.
    first: AtomicU64,
    last: AtomicU64,
}

impl Default for ReportedWeight {
    fn default() -> Self {
        Self {
            weight: AtomicU32::new(1),
            first: AtomicU64::new(Self::NEVER),
            last: AtomicU64::new(0),
        }
    }
}

impl ReportedWeight {
    const NEVER: u64 = u64::MAX;

    /// A report has come.
    pub fn tell(&self, weight: u32, now: Instant) {
        let now = millis(now);
        self.weight.store(weight, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        // Others may say the same at the same time: either is right.
        if self.first.load(Ordering::Relaxed) == Self::NEVER {
            self.first.store(now, Ordering::Relaxed);
        }
    }

    /// The weight, if reports have come for long enough and the last of them still counts. After that all begins anew.
    pub fn weight(&self, now: Instant, blackout: Duration, expiration: Duration) -> Option<u32> {
        let first = self.first.load(Ordering::Relaxed);
        if first == Self::NEVER {
            return None;
        }
        let now = millis(now);
        let since = |moment: u64| Duration::from_millis(now.saturating_sub(moment));
        if since(first) < blackout {
            return None;
        }
        if since(self.last.load(Ordering::Relaxed)) > expiration {
            self.first.store(Self::NEVER, Ordering::Relaxed);
            return None;
        }
        Some(self.weight.load(Ordering::Relaxed))
    }
}

impl Vitals {
    /// Whether a flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.load(Ordering::Relaxed) & flag as u32 != 0
    }

    /// Sets a flag; true if it was not set.
    pub fn set(&self, flag: Flag) -> bool {
        let is_new = self.flags.fetch_or(flag as u32, Ordering::Relaxed) & flag as u32 == 0;
        if is_new && matches!(flag, Flag::FailedCheck | Flag::Ejected) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    /// How often it was found to be ill: connections from before the last time may be what is ill, and are used for
    /// nothing new, as in Envoy.
    pub fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Clears a flag; true if it was set.
    pub fn clear(&self, flag: Flag) -> bool {
        self.flags.fetch_and(!(flag as u32), Ordering::Relaxed) & flag as u32 != 0
    }

    /// Counts an answer; true when a streak has just reached one of the limits: server errors, gateway errors.
    pub fn answered(&self, status: u16, limits: (u32, u32)) -> bool {
        let is_failure = status >= 500;
        self.answers.count(!is_failure);
        if !is_failure {
            self.forget(Streak::ServerError);
            self.forget(Streak::GatewayError);
            return false;
        }
        let mut reached = false;
        if matches!(status, 502..=504) {
            reached |= self.fail(Streak::GatewayError, limits.1);
        } else {
            self.forget(Streak::GatewayError);
        }
        reached | self.fail(Streak::ServerError, limits.0)
    }

    /// Counts that there was a way to the host.
    pub fn reached(&self) {
        self.local.count(true);
        self.forget(Streak::LocalOrigin);
    }

    /// Counts that there was none; true when that streak has just reached its limit.
    pub fn missed(&self, limit: u32) -> bool {
        self.local.count(false);
        self.fail(Streak::LocalOrigin, limit)
    }

    fn fail(&self, streak: Streak, limit: u32) -> bool {
        let reached = self.streaks[streak as usize].fetch_add(1, Ordering::Relaxed) + 1 == limit;
        if reached {
            self.suspicions.fetch_or(1 << streak as u32, Ordering::Relaxed);
        }
        reached
    }

    /// A streak is over.
    pub fn forget(&self, streak: Streak) {
        let count = &self.streaks[streak as usize];
        // Usually there was none, and a line that is only read is shared by all workers.
        if count.load(Ordering::Relaxed) != 0 {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// The streaks that have reached their limits since the last call.
    pub fn suspicions(&self) -> impl Iterator<Item = Streak> {
        let bits = match self.suspicions.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.suspicions.swap(0, Ordering::Relaxed),
        };
        [Streak::ServerError, Streak::GatewayError, Streak::LocalOrigin]
            .into_iter()
            .filter(move |streak| bits & (1 << *streak as u32) != 0)
    }

    /// It serves from now on.
    pub fn begin(&self, now: Instant) {
        self.since.store(millis(now), Ordering::Relaxed);
    }

    /// How long it has served.
    pub fn age(&self, now: Instant) -> Duration {
        let now = now.saturating_duration_since(epoch());
        now.saturating_sub(Duration::from_millis(self.since.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_is_reported_once_when_it_reaches_its_limit() {
        let vitals = Vitals::default();
        assert!(!vitals.answered(500, (3, 2)) && !vitals.answered(503, (3, 2)));
        assert!(!vitals.answered(200, (3, 2)), "an answer that is none begins anew");
        assert!(!vitals.answered(503, (3, 2)) && vitals.answered(502, (3, 2)));
        assert_eq!(vitals.suspicions().collect::<Vec<_>>(), [Streak::GatewayError]);
        assert!(vitals.answered(500, (3, 2)), "gateway errors are server errors too");
        assert_eq!(vitals.suspicions().collect::<Vec<_>>(), [Streak::ServerError]);
        assert!(!vitals.answered(500, (3, 2)), "beyond the limit nothing is said");
        assert_eq!(vitals.suspicions().count(), 0);
        assert_eq!((vitals.answers.take(), vitals.answers.take()), ((7, 1), (0, 0)));
    }

    #[test]
    fn a_reported_weight_counts_between_its_blackout_and_its_expiration() {
        let reported = ReportedWeight::default();
        let second = Duration::from_secs(1);
        let start = Instant::now() + second;
        let at = |seconds: u32| start + second * seconds;
        let weight = |seconds: u32| reported.weight(at(seconds), second * 10, second * 60);
        assert_eq!(weight(100), None, "nothing was reported");
        reported.tell(7, at(0));
        reported.tell(8, at(5));
        assert_eq!((weight(9), weight(10), weight(65)), (None, Some(8), Some(8)));
        assert_eq!(weight(66), None, "the last report is too old");
        reported.tell(9, at(70));
        assert_eq!((weight(75), weight(80)), (None, Some(9)), "all begins anew");
    }

    #[test]
    fn flags_say_whether_they_changed() {
        let vitals = Vitals::default();
        assert!(vitals.set(Flag::Ejected) && !vitals.set(Flag::Ejected) && vitals.has(Flag::Ejected));
        assert!(!vitals.has(Flag::FailedCheck) && vitals.clear(Flag::Ejected) && !vitals.clear(Flag::Ejected));
        assert_eq!(vitals.failures(), 1);
        assert!(vitals.set(Flag::DegradedCheck) && vitals.set(Flag::FailedCheck) && vitals.set(Flag::Ejected));
        assert_eq!(vitals.failures(), 3);
    }
}
