//! Requests that are refused while too few succeed (Envoy's `admission_control`).
//!
//! Of the last seconds it is counted how many requests there were and how many went well. Where Envoy counts for
//! each of its threads, all workers count together here: what is few doesn't depend on how many of them there are.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// When requests are refused, and what has become of the last ones.
#[derive(Debug)]
pub struct Admission {
    /// How long is looked back.
    pub window: Duration,
    /// How steep the chance to be refused rises: its root of this degree.
    pub aggression: f64,
    /// So large a share should succeed.
    pub success: f64,
    /// With fewer requests a second none is refused.
    pub min_rate: u32,
    /// The chance to be refused is never larger.
    pub max_rejection: f64,
    /// Statuses of success.
    pub http: Box<[Range<u16>]>,
    /// Statuses of calls that are success.
    pub grpc: Box<[u32]>,
    /// What was.
    pub history: SharedHistory,
}

/// What has become of the last requests, on all workers.
#[allow(
    clippy::disallowed_types,
    reason = "held for counting, which waits for nothing; after a panic the counts are as good as before"
)]
pub type SharedHistory = std::sync::Mutex<History>;

/// Requests by the second, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<(Instant, Counts)>,
    all: Counts,
}

/// How many requests, and how many of them went well.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    successes: u64,
}

impl History {
    /// Forgets what is too long ago.
    fn forget(&mut self, now: Instant, window: Duration) {
        while let Some((begun, counts)) = self.seconds.front()
            && now.saturating_duration_since(*begun) >= window
        {
            self.all.requests -= counts.requests;
            self.all.successes -= counts.successes;
            self.seconds.pop_front();
        }
    }
}

impl Admission {
    /// Whether a request with this random number is refused.
    pub fn refuses(&self, now: Instant, random: u64) -> bool {
        let counts = {
            let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.forget(now, self.window);
            history.all
        };
        let seconds = self.window.as_secs().max(1);
        if counts.requests / seconds < u64::from(self.min_rate) {
            return false;
        }
        let (requests, successes) = (counts.requests as f64, counts.successes as f64);
        let missing = (requests - successes / self.success) / (requests + 1.0);
        let chance = missing.max(0.0).powf(1.0 / self.aggression).min(self.max_rejection);
        // As fine as Envoy's.
        const GRAINS: u64 = 10_000;
        chance * GRAINS as f64 > (random % GRAINS) as f64
    }

    /// Notes what has become of a request.
    pub fn note(&self, now: Instant, is_success: bool) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.forget(now, self.window);
        let is_current = history
            .seconds
            .back()
            .is_some_and(|(begun, _)| now.saturating_duration_since(*begun) < Duration::from_secs(1));
        if !is_current {
            history.seconds.push_back((now, Counts::default()));
        }
        let History { seconds, all } = &mut *history;
        for counts in [all].into_iter().chain(seconds.back_mut().map(|(_, counts)| counts)) {
            counts.requests += 1;
            counts.successes += u64::from(is_success);
        }
    }

    /// Whether a response is success.
    pub fn is_http_success(&self, status: u16) -> bool {
        self.http.iter().any(|range| range.contains(&status))
    }

    /// Whether a call is.
    pub fn is_grpc_success(&self, status: u32) -> bool {
        self.grpc.contains(&status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(min_rate: u32) -> Admission {
        Admission {
            window: Duration::from_secs(10),
            aggression: 1.0,
            success: 0.5,
            min_rate,
            max_rejection: 0.8,
            http: [200..300, 404..405].into(),
            grpc: [0].into(),
            history: SharedHistory::default(),
        }
    }

    #[test]
    fn the_more_fails_the_more_is_refused() {
        let now = Instant::now();
        let refused = |successes: usize, failures: usize| {
            let admission = admission(0);
            (0..successes).for_each(|_| admission.note(now, true));
            (0..failures).for_each(|_| admission.note(now, false));
            (0..10_000).filter(|random| admission.refuses(now, *random)).count()
        };
        assert_eq!(refused(0, 0), 0);
        assert_eq!(refused(50, 50), 0);
        // (100 - 25 / 0.5) / 101 = 0.495…
        assert_eq!(refused(25, 75), 4951);
        assert_eq!(refused(0, 100), 8000);
    }

    #[test]
    fn what_is_long_ago_and_what_is_seldom_counts_for_nothing() {
        let (admission, now) = (admission(2), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        (0..19).for_each(|_| admission.note(now, false));
        assert!(!admission.refuses(now, 0));
        admission.note(later(5), false);
        assert!(admission.refuses(later(5), 0) && admission.refuses(later(9), 0));
        // Only one is left.
        assert!(!admission.refuses(later(10), 0));
        assert!(admission.is_http_success(404) && !admission.is_http_success(500) && !admission.is_grpc_success(1));
    }
}
