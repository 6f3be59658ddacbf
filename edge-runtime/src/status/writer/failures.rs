//! Statuses that couldn't be written, and when they are tried again: pure.
//!
//! What fails for one reason is one class: one is told, and all are tried again together, after pauses that grow for as
//! long as any of them fails.

use crate::backoff::Backoff;
use edge_translate::api::ObjectKey;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// The first and the longest pause after what failed.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// After what was refused: its object may be defined otherwise by then, but that is rare.
const AFTER_REFUSALS: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(600));
/// The class of what was refused.
const REFUSED: &str = "refused";

/// What fails at the moment, by class.
#[derive(Default)]
pub(super) struct Failures(BTreeMap<String, Class>);

struct Class {
    backoff: Backoff,
    /// When what waits is tried again.
    due: Option<Instant>,
    waiting: BTreeSet<ObjectKey>,
    /// What is being tried again.
    tried: BTreeSet<ObjectKey>,
}

impl Failures {
    /// A write failed. Whether its class is news.
    pub(super) fn failed(&mut self, class: String, key: ObjectKey, now: Instant) -> bool {
        self.add(class, PAUSES, key, now)
    }

    /// A write was refused. That is told of each object, so that it is no news here.
    pub(super) fn refused(&mut self, key: ObjectKey, now: Instant) {
        self.add(REFUSED.to_owned(), AFTER_REFUSALS, key, now);
    }

    fn add(&mut self, class: String, pauses: Backoff, key: ObjectKey, now: Instant) -> bool {
        self.0.retain(|name, other| *name == class || other.lose(&key));
        let is_news = !self.0.contains_key(&class);
        let class = self.0.entry(class).or_insert(Class {
            backoff: pauses,
            due: None,
            waiting: BTreeSet::new(),
            tried: BTreeSet::new(),
        });
        class.tried.remove(&key);
        class.waiting.insert(key);
        if class.due.is_none() {
            class.due = Some(now + class.backoff.pause());
        }
        is_news
    }

    /// An object carries what it is to carry, or can't. Whether it was the last that failed of a class.
    pub(super) fn over(&mut self, key: &ObjectKey) -> bool {
        let before = self.0.len();
        self.0.retain(|_, class| class.lose(key));
        self.0.len() < before
    }

    /// When something is to be tried again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|class| class.due).min()
    }

    /// What is to be tried again now.
    pub(super) fn take_due(&mut self, now: Instant) -> BTreeSet<ObjectKey> {
        let mut taken = BTreeSet::new();
        for class in self
            .0
            .values_mut()
            .filter(|class| class.due.is_some_and(|due| due <= now))
        {
            class.due = None;
            taken.extend(class.waiting.iter().cloned());
            class.tried.append(&mut class.waiting);
        }
        taken
    }

    /// Nothing is tried any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Class {
    /// An object is no part of it any more. Whether any is left.
    fn lose(&mut self, key: &ObjectKey) -> bool {
        self.waiting.remove(key);
        self.tried.remove(key);
        !(self.waiting.is_empty() && self.tried.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::api::Kind;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::Gateway, "ns", name)
    }

    #[test]
    fn pauses_grow_while_a_class_fails_and_one_is_told() {
        let (mut failures, mut now) = (Failures::default(), Instant::now());
        let forbidden = || "403 Gateway".to_owned();
        assert!(failures.failed(forbidden(), key("a"), now));
        assert!(!failures.failed(forbidden(), key("b"), now));
        for (least, most) in [(2, 3), (4, 5), (8, 10), (16, 20), (32, 39), (60, 72), (60, 72)] {
            let due = failures.due().unwrap();
            let pause = due - now;
            assert!(
                pause >= Duration::from_secs(least) && pause < Duration::from_secs(most),
                "{pause:?}"
            );
            assert!(failures.take_due(now).is_empty(), "not before its time");
            now = due;
            assert_eq!(failures.take_due(now), [key("a"), key("b")].into());
            assert!(!failures.failed(forbidden(), key("a"), now));
            assert!(!failures.failed(forbidden(), key("b"), now));
        }
        // What others can do doesn't shorten it, and it is over with the last.
        assert!(!failures.over(&key("other")));
        assert!(!failures.over(&key("a")));
        assert!(failures.over(&key("b")));
        assert_eq!(failures.due(), None);
        assert!(failures.failed(forbidden(), key("a"), now), "and news again");
        assert!(failures.due().unwrap() < now + Duration::from_secs(3));
    }

    #[test]
    fn what_was_refused_is_tried_again_after_long_pauses() {
        let (mut failures, mut now) = (Failures::default(), Instant::now());
        failures.failed("500 Gateway".to_owned(), key("a"), now);
        for (least, most) in [(60, 72), (120, 144), (240, 288), (480, 576), (600, 720), (600, 720)] {
            failures.refused(key("a"), now);
            let pause = failures.due().unwrap() - now;
            let bounds = Duration::from_secs(least)..Duration::from_secs(most);
            assert!(bounds.contains(&pause), "{pause:?}");
            now += pause;
            assert_eq!(failures.take_due(now), [key("a")].into());
        }
        assert!(failures.over(&key("a")));
    }

    #[test]
    fn an_object_fails_for_one_reason_at_a_time() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        failures.failed("403 Gateway".to_owned(), key("a"), now);
        assert!(failures.failed("500 Gateway".to_owned(), key("a"), now));
        assert!(failures.over(&key("a")));
        assert_eq!(failures.due(), None);
    }
}
