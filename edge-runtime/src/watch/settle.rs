//! When to look: pure bookkeeping over events and instants.

use super::{Stage, Touch};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};
use tokio::time::Instant;

/// How long to wait for more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Quiet that ends the wait.
    pub quiet: Duration,
    /// The longest wait, counted from the first event.
    pub longest: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(10),
            longest: Duration::from_millis(200),
        }
    }
}

/// A burst of events.
#[derive(Clone, Debug)]
pub struct Settling {
    timing: Timing,
    first: Instant,
    last: Instant,
    writing: BTreeSet<PathBuf>,
    finished: BTreeSet<PathBuf>,
    gone: BTreeSet<PathBuf>,
    is_lossy: bool,
}

impl Settling {
    /// A burst that begins now.
    pub fn new(timing: Timing, now: Instant) -> Self {
        Self {
            timing,
            first: now,
            last: now,
            writing: BTreeSet::new(),
            finished: BTreeSet::new(),
            gone: BTreeSet::new(),
            is_lossy: false,
        }
    }

    /// One more event.
    pub fn note(&mut self, touch: Touch, now: Instant) {
        self.last = now;
        let Some(path) = touch.path else {
            self.is_lossy = true;
            return;
        };
        if touch.stage == Stage::Writing {
            self.writing.insert(path);
            return;
        }
        self.writing.remove(&path);
        if touch.stage == Stage::Gone {
            self.gone.insert(path.clone());
        }
        self.finished.insert(path);
    }

    /// When the burst is over, if nothing else happens: sooner when no file is half-written.
    pub fn due(&self) -> Instant {
        let latest = self.first + self.timing.longest;
        match self.writing.is_empty() {
            true => latest.min(self.last + self.timing.quiet),
            false => latest,
        }
    }

    /// Whether it was still going on when it was cut.
    pub fn was_cut_short(&self) -> bool {
        self.first + self.timing.longest < self.last + self.timing.quiet
    }

    /// When it began.
    pub fn first(&self) -> Instant {
        self.first
    }

    /// Files that were written to and not closed since.
    pub fn writing(&self) -> &BTreeSet<PathBuf> {
        &self.writing
    }

    /// Paths that were closed, or came, changed or went as a whole.
    pub fn finished(&self) -> &BTreeSet<PathBuf> {
        &self.finished
    }

    /// Whether events were lost, so that more may have happened than is known.
    pub fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Paths that vanished in it, even if something else is there by now.
    pub fn gone(&self) -> &BTreeSet<PathBuf> {
        &self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &str, stage: Stage) -> Touch {
        Touch {
            path: Some(path.into()),
            stage,
        }
    }

    #[tokio::test]
    async fn quiet_ends_a_burst_and_a_long_one_is_cut() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut settling = Settling::new(Timing::default(), start);
        settling.note(touch("a", Stage::Whole), start);
        assert_eq!(settling.due(), ms(10));
        assert!(!settling.was_cut_short());
        for n in 1..=25 {
            settling.note(touch("a", Stage::Whole), ms(n * 8));
        }
        assert_eq!(settling.due(), ms(200), "the last event was at 200 ms");
        assert!(settling.was_cut_short());
    }

    #[tokio::test]
    async fn a_half_written_file_is_waited_for() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut settling = Settling::new(Timing::default(), start);
        settling.note(touch("a", Stage::Writing), start);
        settling.note(touch("b", Stage::Whole), ms(5));
        assert_eq!(settling.due(), ms(200));
        settling.note(touch("a", Stage::Closed), ms(30));
        assert_eq!(settling.due(), ms(40));
        settling.note(touch("a", Stage::Writing), ms(35));
        settling.note(touch("a", Stage::Gone), ms(36));
        assert_eq!(settling.due(), ms(46), "what is gone is not written any more");
    }
}
