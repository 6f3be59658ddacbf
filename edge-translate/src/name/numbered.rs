//! Values with numbers: equal values have equal numbers.

use rustc_hash::FxHashMap;
use std::{hash::Hash, sync::Arc};

/// Values with numbers from 1; 0 is the default value.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    values: Vec<Arc<T>>,
    numbers: FxHashMap<Arc<T>, u32>,
}

impl<T: Default> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            values: vec![Arc::default()],
            numbers: FxHashMap::default(),
        }
    }
}

impl<T: Eq + Hash> Numbered<T> {
    /// How many numbers there are, the default's included.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The number of a value.
    pub(super) fn number(&mut self, value: T) -> u32 {
        if value == *self.values[0] {
            return 0;
        }
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let value = Arc::new(value);
        self.values.push(Arc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    /// Numbers come from here alone. One that doesn't is a bug, which costs the unit that has it (`engine/faults`): the
    /// default would say that no policy decides anything, and open what is protected.
    pub(super) fn value(&self, number: u32) -> Arc<T> {
        Arc::clone(&self.values[number as usize])
    }
}
