//! Documents and modules that translation has asked for and heard nothing of yet.
//!
//! Nobody waits for them but the first publication, and that for a while: proxies that ran before this controller serve
//! by what was fetched then, and what waits for a fetch is closed.

use edge_translate::{Fact, Question, QuestionChanges};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// What nothing was heard of, and until when that is waited for.
pub(super) struct Unanswered {
    questions: BTreeSet<Question>,
    patience: Duration,
    until: Option<Instant>,
}

impl Unanswered {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            questions: BTreeSet::new(),
            patience,
            until: None,
        }
    }

    /// Follows what translation asks.
    pub(super) fn follow(&mut self, wanted: &QuestionChanges) {
        let fetched = |questions: &[Question]| {
            let fetched = questions.iter().filter(|question| question.is_fetched());
            fetched.cloned().collect()
        };
        let removed: BTreeSet<Question> = fetched(&wanted.removed);
        self.questions.retain(|question| !removed.contains(question));
        let mut added: BTreeSet<Question> = fetched(&wanted.added);
        self.questions.append(&mut added);
    }

    /// Takes note of an answer, whatever it is.
    pub(super) fn take(&mut self, answer: &Fact) {
        if let Some(question) = answer.question() {
            self.questions.remove(&question);
        }
    }

    /// Begins the wait of the first publication, where something is waited for, and ends it when it was long enough.
    pub(super) fn advance(&mut self) {
        if self.is_due() {
            self.end();
        }
        if self.until.is_some() || self.questions.is_empty() || self.patience.is_zero() {
            return;
        }
        let (n, seconds) = (self.questions.len(), self.patience.as_secs());
        tracing::info!("nothing is published until {n} documents or modules were asked for, {seconds} s at the most");
        self.until = Some(Instant::now() + self.patience);
    }

    /// Whether the first publication waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait().is_some()
    }

    /// How long that still is.
    pub(super) fn wait(&self) -> Option<Duration> {
        let until = self.until.filter(|_| !self.questions.is_empty())?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Whether it has waited for long enough.
    pub(super) fn is_due(&self) -> bool {
        self.wait().is_some_and(|wait| wait.is_zero())
    }

    /// It is over: nothing is waited for any more.
    pub(super) fn end(&mut self) {
        self.until = None;
        self.patience = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::Fetched;

    #[test]
    fn the_first_publication_waits_for_what_is_fetched_and_not_for_ever() {
        let url = "https://example.com/";
        let asked = |patience| {
            let mut unanswered = Unanswered::new(patience);
            unanswered.follow(&QuestionChanges {
                added: vec![Question::Document(url.into())],
                removed: Vec::new(),
            });
            unanswered.advance();
            unanswered
        };
        let mut unanswered = asked(Duration::from_secs(60));
        assert!(unanswered.is_waiting() && !unanswered.is_due());
        unanswered.advance();
        assert!(unanswered.is_waiting(), "it begins once");
        unanswered.take(&Fact::Document(url.into(), Fetched::Failed("gone".into())));
        assert!(!unanswered.is_waiting() && unanswered.wait().is_none());
        assert!(!asked(Duration::ZERO).is_waiting(), "nothing is waited for");
        let mut unanswered = asked(Duration::from_nanos(1));
        while !unanswered.is_due() {}
        unanswered.advance();
        assert!(!unanswered.is_waiting() && !unanswered.is_due(), "it is over");
    }
}
