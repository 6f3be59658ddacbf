//! When a status is written in which nothing but counts has changed: pure.
//!
//! A Gateway counts the routes that are attached to it, so each of a thousand routes that come together would have it
//! written again. The first change is written at once; while more follow, the next waits until they pause, or for as
//! long as a count may be old. Whatever else a status says is never kept waiting.

use edge_translate::api::ObjectKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// A pause after which counts are taken to be what they will be; changes that are further apart aren't held up.
const QUIET: Duration = Duration::from_secs(1);
/// The longest that a count is old.
const LONGEST: Duration = Duration::from_secs(10);

/// Objects whose counts were written, or change, not long ago.
#[derive(Default)]
pub(super) struct Counts(BTreeMap<ObjectKey, Counted>);

struct Counted {
    /// When counts alone were written last.
    written: Instant,
    /// When those that wait changed last.
    changed: Option<Instant>,
}

impl Counted {
    fn due(&self) -> Option<Instant> {
        Some((self.changed? + QUIET).min(self.written + LONGEST))
    }
}

impl Counts {
    /// Whether an object in which only counts differ is written now. If not, it is [due](Self::due) later.
    pub(super) fn may_be_written(&mut self, key: &ObjectKey, now: Instant) -> bool {
        self.0
            .retain(|_, counted| counted.changed.is_some() || now < counted.written + QUIET);
        if let Some(counted) = self.0.get_mut(key)
            && counted.due().is_none_or(|due| now < due)
        {
            counted.changed = Some(now);
            return false;
        }
        let counted = Counted {
            written: now,
            changed: None,
        };
        self.0.insert(key.clone(), counted);
        true
    }

    /// An object needs nothing more, or is written anyway.
    pub(super) fn over(&mut self, key: &ObjectKey) {
        if let Some(counted) = self.0.get_mut(key) {
            counted.changed = None;
        }
    }

    /// When something is to be written that waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(Counted::due).min()
    }

    /// What is to be written by now, for as long as nobody says that it is [over](Self::over).
    pub(super) fn due_at(&self, now: Instant) -> BTreeSet<ObjectKey> {
        let is_due = |counted: &Counted| counted.due().is_some_and(|due| due <= now);
        let due = self.0.iter().filter(|(_, counted)| is_due(counted));
        due.map(|(key, _)| key.clone()).collect()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.values().filter(|counted| counted.changed.is_some()).count()
    }

    /// Nothing is written any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::api::Kind;

    /// Lets a count change at these times, in milliseconds, and gives the times of writes.
    fn writes(changes: &[u64]) -> Vec<u64> {
        let (key, begun) = (ObjectKey::new(Kind::Gateway, "ns", "a"), Instant::now());
        let at = |millis: u64| begun + Duration::from_millis(millis);
        let (mut counts, mut written) = (Counts::default(), Vec::new());
        let mut due = |counts: &mut Counts, until: Instant| {
            while let Some(due) = counts.due().filter(|due| *due <= until) {
                assert_eq!(counts.due_at(due), [key.clone()].into());
                assert!(counts.may_be_written(&key, due), "it is due");
                written.push(due);
            }
        };
        let mut at_once = Vec::new();
        for change in changes {
            due(&mut counts, at(*change));
            if counts.may_be_written(&key, at(*change)) {
                at_once.push(at(*change));
            }
        }
        due(&mut counts, at(1_000_000));
        assert_eq!(counts.waiting(), 0);
        written.extend(at_once);
        written.sort_unstable();
        let millis = |time: Instant| u64::try_from((time - begun).as_millis()).unwrap();
        written.into_iter().map(millis).collect()
    }

    #[test]
    fn a_burst_is_written_at_its_start_and_at_its_end() {
        let burst: Vec<u64> = (0..500).map(|n| n * 10).collect();
        assert_eq!(writes(&burst), [0, 5990]);
    }

    #[test]
    fn what_goes_on_for_long_is_written_now_and_then() {
        let long: Vec<u64> = (0..2500).map(|n| n * 10).collect();
        assert_eq!(writes(&long), [0, 10_000, 20_000, 25_990]);
    }

    #[test]
    fn changes_that_come_alone_are_written_at_once() {
        assert_eq!(writes(&[0, 2_000, 4_000]), [0, 2_000, 4_000]);
        assert_eq!(writes(&[0, 500]), [0, 1_500]);
    }

    #[test]
    fn what_is_written_anyway_waits_no_longer() {
        let (key, now) = (ObjectKey::new(Kind::Gateway, "ns", "a"), Instant::now());
        let mut counts = Counts::default();
        assert!(counts.may_be_written(&key, now) && !counts.may_be_written(&key, now));
        assert_eq!(counts.waiting(), 1);
        counts.over(&key);
        assert_eq!((counts.waiting(), counts.due()), (0, None));
    }
}
