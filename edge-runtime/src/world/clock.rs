//! The clock, as far as translation asks for it: the time is told before every translation, and when a time that was
//! asked for has come there is another.

use edge_translate::{Fact, Question, QuestionChanges, api::Timestamp};
use jiff::Timestamp as Moment;
use std::{collections::BTreeSet, ops::Bound, time::Duration};

/// The longest wait: a machine that slept, or a clock that was set, is noticed by then.
const LONGEST: Duration = Duration::from_secs(3600);

/// Times that translation asked for, and the time that it was told last.
#[derive(Default)]
pub(super) struct Clock {
    asked: BTreeSet<Question>,
    told: Option<Timestamp>,
}

impl Clock {
    /// The time, to be told.
    pub(super) fn tell(&mut self) -> Fact {
        let now = now();
        self.told = Some(now);
        Fact::Time(now)
    }

    /// Takes down what is asked and no longer asked.
    pub(super) fn follow(&mut self, wanted: &QuestionChanges) {
        let is_time = |question: &&Question| matches!(question, Question::Time(_));
        self.asked.extend(wanted.added.iter().filter(is_time).cloned());
        for question in &wanted.removed {
            self.asked.remove(question);
        }
    }

    /// How long until a time comes that was asked for; none if no more will.
    pub(super) fn wait(&self) -> Option<Duration> {
        let left = self.next()?.0.saturating_sub(now().0);
        Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)).min(LONGEST))
    }

    /// Whether a time has come that was asked for and not told.
    pub(super) fn is_due(&self) -> bool {
        self.next().is_some_and(|next| next <= now())
    }

    fn next(&self) -> Option<Timestamp> {
        let told = Question::Time(self.told?);
        let mut ahead = self.asked.range((Bound::Excluded(told), Bound::Unbounded));
        match ahead.next()? {
            Question::Time(time) => Some(*time),
            Question::Port(_) | Question::Document(_) | Question::Module(_) => None,
        }
    }
}

fn now() -> Timestamp {
    Timestamp(Moment::now().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_the_next_time_that_is_asked_for() {
        let mut clock = Clock::default();
        assert_eq!((clock.wait(), clock.is_due()), (None, false), "nobody asks");
        let Fact::Time(told) = clock.tell() else {
            panic!("a clock tells the time");
        };
        let at = |seconds: i64| Question::Time(Timestamp(told.0 + seconds));
        let mut wanted = QuestionChanges {
            added: vec![at(-10), at(2), at(100_000)],
            removed: vec![],
        };
        clock.follow(&wanted);
        assert!(clock.wait().is_some_and(|wait| wait <= Duration::from_secs(2)));
        std::mem::swap(&mut wanted.added, &mut wanted.removed);
        wanted.removed.pop();
        clock.follow(&wanted);
        assert_eq!((clock.wait(), clock.is_due()), (Some(LONGEST), false));
        // Told long ago: what came since is due.
        clock.told = Some(Timestamp(told.0 - 100));
        clock.follow(&QuestionChanges {
            added: vec![at(-10)],
            removed: vec![],
        });
        assert_eq!((clock.wait(), clock.is_due()), (Some(Duration::ZERO), true));
    }
}
