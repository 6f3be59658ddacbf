//! Running the units of a stage: one after another, or many at a time where many are due.
//!
//! Units of a stage read only what earlier stages left, so that nobody sees in which order they run. What they give is
//! taken in in one order, which is that of units that run one after another: numbers of nodes and lists of readers are
//! the same too, whoever ran them.

use super::{
    Translator, faults,
    key::Key,
    memo::{Given, NodeId, Outcome, Ran},
    reader::Reader,
    value::Value,
};
use edge_ir::{in_shares, is_worth_sharing};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What so many units gave is held before it is taken in.
const AT_A_TIME: usize = 1 << 14;

/// What a unit gave, and what it said if it broke down.
type UnitResult = (Ran<Key, Value>, Option<String>);

impl Translator {
    /// Runs what is due of a stage.
    pub(super) fn run_stage(&mut self, stage: usize) {
        if self.memo.n_due(stage) == 0 {
            return;
        }
        while self.memo.n_due(stage) > 0 {
            if is_worth_sharing(&*self.executor, self.memo.n_due(stage)) {
                self.run_many(stage);
                continue;
            }
            while let Some((id, key)) = self.memo.next_due(stage) {
                let told = self.run(id, key);
                self.take_in(id, key, told);
            }
        }
        self.memo.end_stage(stage);
        self.world.settle();
    }

    fn run_many(&mut self, stage: usize) {
        let due = self.memo.take_due(stage, AT_A_TIME);
        let shared = &*self;
        let run = |share: &[NodeId]| -> Vec<Option<(Key, UnitResult)>> {
            let told = share.iter().map(|id| {
                let key = shared.memo.key(*id)?;
                Some((key, shared.run(*id, key)))
            });
            told.collect()
        };
        let told = in_shares(&*self.executor, &due, 1, run);
        for (id, told) in due.into_iter().zip(told.into_iter().flatten()) {
            if let Some((key, told)) = told {
                self.take_in(id, key, told);
            }
        }
    }

    /// Runs a unit over what is there. Nothing that it can reach is left half done: it only reads, and what it interns
    /// stays true.
    fn run(&self, id: NodeId, key: Key) -> UnitResult {
        let mut fault = None;
        let ran = self.memo.run(id, |reads| {
            let reader = Reader {
                key,
                world: &self.world,
                index: &self.index,
                faults: &self.faults,
                reads,
            };
            let exists = || {
                let subject = key.subject();
                subject.is_some_and(|subject| subject.exists(&self.world, &self.index))
            };
            match catch_unwind(AssertUnwindSafe(|| (self.unit)(&reader))) {
                Ok(Some(value)) => Given::Value(value),
                Ok(None) if exists() => Given::Nothing,
                Err(panic) if exists() => {
                    fault = Some(faults::message(&*panic));
                    Given::Broken
                }
                Ok(None) | Err(_) => Given::Gone,
            }
        });
        (ran, fault)
    }

    fn take_in(&mut self, id: NodeId, key: Key, (ran, fault): UnitResult) {
        self.runs.count(key);
        let outcome = self.memo.take_in(id, ran);
        self.keep_faults(key, fault);
        if let Outcome::Changed(was) = outcome {
            self.memo.touch_id(id);
            let now = self.memo.value(id).cloned();
            self.keep_up(key, was.as_ref(), now.as_ref());
        }
    }
}
