//! What is known of questions, and what is still to be asked.

use super::question::{Question, QuestionKey, Resources};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is served; none while a service that may not fail open fails.
    pub answer: Option<Answer>,
    /// What went wrong. With an answer beside it: of a service that may fail open.
    pub problem: Option<Problem>,
}

/// What all services together made of what they were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The resource: the bytes that were asked about where nothing is changed.
    One(Bytes),
    /// All resources of the kinds that were asked about, and what else was added.
    All(Resources),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In words.
    pub text: Arc<str>,
    /// Whose fault it is.
    pub cause: Cause,
}

/// Whose fault it is that there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The service can't be reached, or doesn't answer in time: nobody knows what it would say.
    Unreachable,
    /// It answered, with an error or with what can't be used.
    Refused,
}

/// A question that nobody has answered well.
#[derive(Clone, Debug)]
pub struct PendingQuestion {
    /// Which of all questions this is; one that was forgotten and asked again has another number.
    pub number: u64,
    /// What is asked.
    pub question: Arc<Question>,
}

/// What is known of questions, and what is still to be asked.
#[derive(Debug, Default)]
pub struct Answers {
    pub(super) outcomes: BTreeMap<QuestionKey, Outcome>,
    questions: BTreeMap<QuestionKey, PendingQuestion>,
    /// Whose answers were needed since the round began.
    used: BTreeSet<QuestionKey>,
    n_asked: u64,
}

impl Answers {
    /// Takes what came of a question, unless it isn't asked any more. What failed stays a question.
    pub fn take(&mut self, key: QuestionKey, number: u64, outcome: Outcome) {
        if self.questions.get(&key).is_some_and(|asked| asked.number == number) {
            if outcome.problem.is_none() {
                self.questions.remove(&key);
            }
            self.outcomes.insert(key, outcome);
        }
    }

    /// Forgets every answer: the services are others.
    pub fn forget(&mut self) {
        let n_asked = self.n_asked;
        *self = Self {
            n_asked,
            ..Self::default()
        };
    }

    /// Begins to look at all fleets.
    pub fn begin(&mut self) {
        self.used.clear();
    }

    /// Forgets what no fleet needed since the round began.
    pub fn end(&mut self) {
        self.outcomes.retain(|key, _| self.used.contains(key));
        self.questions.retain(|key, _| self.used.contains(key));
    }

    /// What is to be asked, or asked again.
    pub fn questions(&self) -> &BTreeMap<QuestionKey, PendingQuestion> {
        &self.questions
    }

    /// A result of before needs these answers still.
    pub(super) fn reuse(&mut self, keys: &[QuestionKey]) {
        self.used.extend(keys);
    }

    /// What is known of a question, which is to be asked if that is nothing.
    pub(super) fn ask(&mut self, question: Question) -> (QuestionKey, Option<&Outcome>) {
        let key = question.key();
        self.used.insert(key);
        let outcome = self.outcomes.get(&key);
        if outcome.is_none() {
            self.questions.entry(key).or_insert_with(|| {
                self.n_asked += 1;
                PendingQuestion {
                    number: self.n_asked,
                    question: Arc::new(question),
                }
            });
        }
        (key, outcome)
    }
}
