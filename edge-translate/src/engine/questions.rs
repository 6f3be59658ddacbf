//! Questions to the outside: which stand, and who is woken by an answer.
//!
//! A question stands for as long as a unit reads its answer, which the memo knows: its node comes with the first reader
//! and goes with the last.

use super::{
    Translator,
    key::{Key, QuestionKey},
};
use crate::{
    api::Timestamp,
    fact::{Fact, Question, QuestionChanges},
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
            // What nobody asks would be out of date by the time that somebody does.
            Fact::Port(port, holder) => {
                let asked = QuestionKey::Port(port);
                if self.asked.contains(&asked) && self.world.set_port_holder(port, holder) {
                    self.memo.touch(Key::Fact(asked));
                }
            }
            Fact::Module(wanted, found) => {
                let module = self.world.module_id(&wanted);
                let asked = QuestionKey::Module(module);
                if self.asked.contains(&asked) && self.world.set_module(module, Some(found)) {
                    self.memo.touch(Key::Fact(asked));
                }
            }
            Fact::Document(url, fetched) => {
                let url = self.world.sym(&url);
                let asked = QuestionKey::Document(url);
                if self.asked.contains(&asked) && self.world.set_document(url, Some(fetched)) {
                    self.memo.touch(Key::Fact(asked));
                }
            }
        }
    }

    fn learn_time(&mut self, now: Timestamp) {
        let was = self.world.set_now(now);
        let turned: Vec<QuestionKey> = match was {
            None => self.asked.iter().copied().filter(is_time).collect(),
            Some(was) if was == now => return,
            Some(was) => {
                let (before, after) = (was.min(now), was.max(now));
                let between = (Excluded(QuestionKey::Time(before)), Included(QuestionKey::Time(after)));
                self.asked.range(between).copied().collect()
            }
        };
        for asked in turned {
            self.memo.touch(Key::Fact(asked));
        }
    }

    /// What came up and what went since the last translation.
    pub(super) fn wanted(&mut self) -> QuestionChanges {
        let turned: BTreeSet<QuestionKey> = self.memo.take_turned().into_iter().filter_map(asked).collect();
        let mut wanted = QuestionChanges::default();
        for asked in turned {
            if self.memo.holds(Key::Fact(asked)) {
                if self.asked.insert(asked) {
                    wanted.added.push(self.question(asked));
                }
            } else if self.asked.remove(&asked) {
                self.forget(asked);
                wanted.removed.push(self.question(asked));
            }
        }
        wanted.added.sort_unstable();
        wanted.removed.sort_unstable();
        wanted
    }

    /// Forgets an answer that nobody asks for any more.
    fn forget(&mut self, asked: QuestionKey) {
        match asked {
            QuestionKey::Time(_) => {}
            QuestionKey::Port(port) => _ = self.world.set_port_holder(port, None),
            QuestionKey::Document(url) => _ = self.world.set_document(url, None),
            QuestionKey::Module(module) => _ = self.world.set_module(module, None),
        }
    }

    fn question(&self, asked: QuestionKey) -> Question {
        match asked {
            QuestionKey::Time(time) => Question::Time(time),
            QuestionKey::Port(port) => Question::Port(port),
            QuestionKey::Document(url) => Question::Document(self.world.text(url)),
            QuestionKey::Module(module) => Question::Module(self.world.wanted_module(module)),
        }
    }

    /// All that is asked.
    pub(super) fn questions(&self) -> BTreeSet<Question> {
        self.asked.iter().map(|asked| self.question(*asked)).collect()
    }
}

fn is_time(asked: &QuestionKey) -> bool {
    matches!(asked, QuestionKey::Time(_))
}

fn asked(key: Key) -> Option<QuestionKey> {
    match key {
        Key::Fact(asked) => Some(asked),
        _ => None,
    }
}
