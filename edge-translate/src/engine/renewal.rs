//! Beginning anew, so that what came and went is forgotten.
//!
//! Names and decisions are numbered, and a number may stand anywhere in the memo, the indexes and other numbers' keys.
//! So none is ever taken back. Instead an engine that has numbered far more than its world can need makes a new one of
//! the same world, and goes on as that one. By the laws it gives the same: all objects in any order make the same
//! fleets and statuses as the history that led to them. That costs a translation from scratch, once for as many new
//! names as the world has, so that each of them pays for a share that doesn't grow.

use super::Translator;
use crate::change::Change;
use std::sync::Arc;

/// Numbers that are always allowed beyond twice those of the world: a small world isn't worth the bother.
const SPARE: usize = 512;
/// One object of so many new numbers must have changed or gone: a world that only grows has nothing to forget.
const NUMBERS_AN_OBJECT: usize = 16;

/// How much was numbered, and might be forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Numbers after the first translation of this engine, which needed all of them.
    pub(super) needed: Option<usize>,
    /// Objects that changed or went since then.
    turned: usize,
}

impl Growth {
    /// An object that was there changed or went.
    pub(super) fn turn(&mut self) {
        self.turned += 1;
    }
}

impl Translator {
    /// How many names and decisions are remembered. It follows the world, if not at once: what came and went is
    /// forgotten when there is as much of it as of the world.
    pub fn names(&self) -> usize {
        self.world.numbers()
    }

    /// Forgets what came and went, if it is time to. What the last translation gave stays true.
    pub(super) fn renew_if_outgrown(&mut self) {
        let numbers = self.world.numbers();
        let Some(needed) = self.growth.needed else {
            self.growth.needed = Some(numbers);
            return;
        };
        let new = numbers.saturating_sub(needed);
        // A unit that broke down has a last good value, which no new engine would find.
        if new > needed + SPARE && self.growth.turned > new / NUMBERS_AN_OBJECT && self.faults.is_empty() {
            self.renew();
        }
    }

    /// Begins anew with the same world.
    pub(super) fn renew(&mut self) {
        let mut fresh = Self::over(self.world.emptied(), self.unit).run_by(Arc::clone(&self.executor));
        for object in self.world.everything() {
            fresh.apply(Change::Put(object));
        }
        // What it says of itself has been said.
        fresh.update();
        fresh.growth.needed = Some(fresh.world.numbers());
        debug_assert_eq!(fresh.questions(), self.questions(), "a question came up or went");
        *self = fresh;
    }
}
