//! Documents and modules that translation has asked for and heard nothing of yet.
//!
//! Nobody waits for them but the first publication, and that for a while: proxies that ran before this controller serve
//! by what was fetched then, and what waits for a fetch is closed.

use super::is_fetched;
use edge_translate::{Fact, Question, QuestionChanges};
use std::{
    collections::BTreeSet,
    sync::Arc,
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
            questions
                .iter()
                .filter(|question| is_fetched(question))
                .cloned()
                .collect()
        };
        let removed: BTreeSet<Question> = fetched(&wanted.removed);
        self.questions.retain(|question| !removed.contains(question));
        let mut added: BTreeSet<Question> = fetched(&wanted.added);
        self.questions.append(&mut added);
    }

    /// Takes note of an answer, whatever it is.
    pub(super) fn take(&mut self, answer: &Fact) {
        let question = match answer {
            Fact::Document(url, _) => Question::Document(Arc::clone(url)),
            Fact::Module(wanted, _) => Question::Module(Arc::clone(wanted)),
            Fact::Time(_) | Fact::Port(..) | Fact::Patched(..) => return,
        };
        self.questions.remove(&question);
    }

    /// Whether the first publication waits.
    pub(super) fn must_wait(&mut self) -> bool {
        let patience = self.patience;
        if self.questions.is_empty() || patience.is_zero() {
            return false;
        }
        let until = *self.until.get_or_insert_with(|| {
            let (n, seconds) = (self.questions.len(), patience.as_secs());
            tracing::info!(
                "nothing is published until {n} documents or modules were asked for, {seconds} s at the most"
            );
            Instant::now() + patience
        });
        let must_wait = Instant::now() < until;
        if !must_wait {
            self.end();
        }
        must_wait
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
