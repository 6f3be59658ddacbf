//! Questions to the outside: which stand, and who is woken by an answer.
//!
//! A question stands for as long as a unit reads its answer, which the memo knows: its node comes with the first reader
//! and goes with the last.

use super::{Translator, key::Key};
use crate::{
    api::Timestamp,
    fact::{Fact, Question, Wanted},
    name::FleetId,
};
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Included},
};

impl Translator {
    /// Takes an answer in.
    pub(super) fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Time(now) => self.learn_time(now),
            Fact::Patched(fleet, failures) => {
                let fleet = FleetId(self.world.sym(&fleet));
                if self.world.set_patch_failures(fleet, failures) {
                    self.memo.touch(Key::Patched(fleet));
                }
            }
            Fact::Port(port, holder) => {
                let question = Question::Port(port);
                // What nobody asks would be out of date by the time that somebody does.
                if self.asked.contains(&question) && self.world.set_port_holder(port, holder) {
                    self.memo.touch(Key::Fact(question));
                }
            }
        }
    }

    fn learn_time(&mut self, now: Timestamp) {
        let was = self.world.set_now(now);
        let turned: Vec<Question> = match was {
            None => self.asked.iter().copied().filter(is_time).collect(),
            Some(was) if was == now => return,
            Some(was) => {
                let (before, after) = (was.min(now), was.max(now));
                let between = (Excluded(Question::Time(before)), Included(Question::Time(after)));
                self.asked.range(between).copied().collect()
            }
        };
        for question in turned {
            self.memo.touch(Key::Fact(question));
        }
    }

    /// What came up and what went since the last translation.
    pub(super) fn wanted(&mut self) -> Wanted {
        let turned: BTreeSet<Question> = self.memo.take_turned().into_iter().filter_map(question).collect();
        let mut wanted = Wanted::default();
        for question in turned {
            if self.memo.holds(Key::Fact(question)) {
                if self.asked.insert(question) {
                    wanted.added.push(question);
                }
            } else if self.asked.remove(&question) {
                if let Question::Port(port) = question {
                    self.world.set_port_holder(port, None);
                }
                wanted.removed.push(question);
            }
        }
        wanted
    }
}

fn is_time(question: &Question) -> bool {
    matches!(question, Question::Time(_))
}

fn question(key: Key) -> Option<Question> {
    match key {
        Key::Fact(question) => Some(question),
        _ => None,
    }
}
