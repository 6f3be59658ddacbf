//! Pauses before what has failed is tried again: longer each time, and never the same for all who failed together.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// What went well for so long has earned the first pause again.
const STABLE: Duration = Duration::from_secs(60);

/// The pauses of something that fails again and again: each twice the one before.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Between a first and a longest pause.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        jittered(pause)
    }

    /// What has failed now had run for so long before.
    pub fn ran(&mut self, time: Duration) {
        if time >= STABLE {
            self.reset();
        }
    }

    /// It works again, or something else is tried.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A time and up to a fifth more, so that those who failed together don't come back together.
pub fn jittered(time: Duration) -> Duration {
    let fifth = u64::try_from(time.as_millis() / 5).unwrap_or(u64::MAX).max(1);
    time + Duration::from_millis(random() % fifth)
}

/// Another number every time; not a secret.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_a_stable_run_is_rewarded() {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
        let is_about = |pause: Duration, millis: u64| {
            let exact = Duration::from_millis(millis);
            assert!(pause >= exact && pause < exact * 6 / 5, "{pause:?} for {exact:?}");
        };
        for millis in [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000] {
            is_about(backoff.pause(), millis);
        }
        backoff.ran(Duration::from_secs(1));
        is_about(backoff.pause(), 30000);
        backoff.ran(STABLE);
        is_about(backoff.pause(), 250);
        is_about(backoff.pause(), 500);
        backoff.reset();
        is_about(backoff.pause(), 250);
    }
}
