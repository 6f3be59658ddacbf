//! Values with numbers: equal values have equal numbers.
//!
//! Units number values while they run, on however many threads. What was numbered when they began is read without a
//! lock; what is new stands behind one until [`Numbered::settle`], when nobody else has the table. So which number a
//! new value gets is a matter of who comes first, and never decides anything that can be seen.

use crate::place::{Place, hash_of, spread};
use hashbrown::HashTable;
use std::{
    hash::Hash,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Values with numbers from 0, which is the first that there was: the default value, where the table began with one.
#[derive(Debug)]
pub(super) struct Numbered<T: ?Sized> {
    settled: Numbers<T>,
    fresh: Mutex<Numbers<T>>,
}

/// A value of a table. Nobody counts who holds one that is settled: threads would wait for each other's counts.
#[derive(Debug)]
pub(crate) enum TableRef<'a, T: ?Sized> {
    /// It was there when units began.
    Settled(&'a Arc<T>),
    /// It is new.
    Fresh(Arc<T>),
}

impl<T: ?Sized> TableRef<'_, T> {
    /// The value for whoever keeps it.
    pub(crate) fn share(self) -> Arc<T> {
        match self {
            Self::Settled(value) => Arc::clone(value),
            Self::Fresh(value) => value,
        }
    }
}

impl<T: ?Sized> Deref for TableRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Settled(value) => value,
            Self::Fresh(value) => value,
        }
    }
}

/// Some of the values, and their numbers; the very first needn't be among these.
#[derive(Debug)]
struct Numbers<T: ?Sized> {
    values: Vec<Arc<T>>,
    places: HashTable<Place>,
}

impl<T: ?Sized> Numbers<T> {
    fn of(values: Vec<Arc<T>>) -> Self {
        Self {
            values,
            places: HashTable::new(),
        }
    }

    fn add(&mut self, value: Arc<T>, place: Place) {
        self.values.push(value);
        self.places.insert_unique(place.spread(), place, Place::spread);
    }
}

impl<T: ?Sized + Eq> Numbers<T> {
    /// The number of a value with this hash; the first of these has that number.
    fn find(&self, first: usize, hash: u32, value: &T) -> Option<u32> {
        let is_it = |place: &Place| place.hash == hash && *self.values[place.number as usize - first] == *value;
        self.places.find(spread(hash), is_it).map(|place| place.number)
    }
}

impl<T: Default> Default for Numbered<T> {
    fn default() -> Self {
        Self::beginning_with(Arc::default())
    }
}

/// The same where no value is there before others.
#[derive(Debug)]
pub(super) struct NumberedFromNone<T: ?Sized>(pub(super) Numbered<T>);

impl<T: ?Sized> Default for NumberedFromNone<T> {
    fn default() -> Self {
        Self(Numbered::empty())
    }
}

impl<T: ?Sized> Numbered<T> {
    /// A table in which a value has number 0.
    pub(super) fn beginning_with(first: Arc<T>) -> Self {
        Self {
            settled: Numbers::of(vec![first]),
            ..Self::empty()
        }
    }

    /// A table without any.
    fn empty() -> Self {
        Self {
            settled: Numbers::of(Vec::new()),
            fresh: Mutex::new(Numbers::of(Vec::new())),
        }
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.settled.values.len() + self.fresh().values.len()
    }

    /// Nothing that holds the lock leaves a table half done.
    fn fresh(&self) -> MutexGuard<'_, Numbers<T>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers come from here alone. One that doesn't is a bug, which costs the unit that has it (`engine/faults`): the
    /// default would say that no policy decides anything, and open what is protected.
    pub(super) fn value(&self, number: u32) -> TableRef<'_, T> {
        let settled = &self.settled.values;
        match settled.get(number as usize) {
            Some(value) => TableRef::Settled(value),
            None => TableRef::Fresh(Arc::clone(&self.fresh().values[number as usize - settled.len()])),
        }
    }
}

impl<T: ?Sized + Eq + Hash> Numbered<T> {
    /// The number of a value, which is kept as `shared` makes it if it is new.
    pub(super) fn number_of(&self, value: &T, shared: impl FnOnce() -> Arc<T>) -> u32 {
        if self.is_first(value) {
            return 0;
        }
        let hash = hash_of(value);
        if let Some(number) = self.settled.find(0, hash, value) {
            return number;
        }
        let first = self.settled.values.len();
        let mut fresh = self.fresh();
        if let Some(number) = fresh.find(first, hash, value) {
            return number;
        }
        let number = u32::try_from(first + fresh.values.len()).unwrap_or(u32::MAX);
        fresh.add(shared(), Place { hash, number });
        number
    }

    /// Looked at before all others: most values are the default one, and need no hash then.
    fn is_first(&self, value: &T) -> bool {
        self.settled.values.first().is_some_and(|first| **first == *value)
    }

    /// The same where nobody else has the table, which takes no lock.
    pub(super) fn number_alone(&mut self, value: &T, shared: impl FnOnce() -> Arc<T>) -> u32 {
        self.settle();
        if self.is_first(value) {
            return 0;
        }
        let hash = hash_of(value);
        if let Some(number) = self.settled.find(0, hash, value) {
            return number;
        }
        let number = u32::try_from(self.settled.values.len()).unwrap_or(u32::MAX);
        self.settled.add(shared(), Place { hash, number });
        number
    }

    /// Moves what is new to where no lock is needed, and keeps none of the room that it took.
    pub(super) fn settle(&mut self) {
        let fresh = self.fresh.get_mut().unwrap_or_else(PoisonError::into_inner);
        if fresh.values.is_empty() {
            return;
        }
        let Numbers { values, places } = std::mem::replace(fresh, Numbers::of(Vec::new()));
        self.settled.values.extend(values);
        let settled = &mut self.settled.places;
        settled.reserve(places.len(), Place::spread);
        for place in places {
            settled.insert_unique(place.spread(), place, Place::spread);
        }
    }
}

impl<T: Eq + Hash> Numbered<T> {
    /// The number of a value.
    pub(super) fn number(&self, value: T) -> u32 {
        if self.is_first(&value) {
            return 0;
        }
        // Not `number_of`: what is new is moved into its place, and made without a copy.
        if let Some(number) = self.settled.find(0, hash_of(&value), &value) {
            return number;
        }
        let value = Arc::new(value);
        self.number_of(&value, || Arc::clone(&value))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what threads share is tried on threads")]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn equal_values_have_one_number_on_whichever_threads_they_come() {
        let mut table: Numbered<String> = Numbered::default();
        for round in 1..4usize {
            let words: Vec<String> = (0..100 * round).map(|n| n.to_string()).collect();
            let numbers = || -> Vec<u32> { words.iter().map(|word| table.number(word.clone())).collect() };
            let (mine, theirs) = thread::scope(|scope| {
                let other = scope.spawn(numbers);
                (numbers(), other.join().unwrap())
            });
            assert_eq!(mine, theirs);
            assert_eq!(table.len(), round + words.len());
            for _ in 0..2 {
                let values: Vec<String> = mine.iter().map(|n| String::clone(&table.value(*n))).collect();
                assert_eq!(values, words);
                table.settle();
            }
            let alone: Vec<u32> = words
                .iter()
                .map(|word| table.number_alone(word, || Arc::new(word.clone())))
                .collect();
            assert_eq!(alone, mine);
            let other = format!("{round} alone");
            let number = table.number_alone(&other, || Arc::new(other.clone()));
            assert_eq!(table.number(other), number);
        }
        assert_eq!(table.number(String::new()), 0);
    }
}
