//! Files that are not read yet because they don't look finished.
//!
//! A file that is open for writing is waited for, and so is one that has become empty: whoever saves by truncating
//! first is about to write. Both waits end, for a writer may keep its file open for ever, and an empty file may be
//! meant.
//!
//! While many files change one after another, as in a checkout, what is gone from one of them may come back in another.
//! A burst that is still going on when it is looked at waits with removals: a guard that moves is never gone.

use super::Settling;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// How long a file may stay as it is before it is taken for finished.
const LONGEST: Duration = Duration::from_secs(2);
/// How long removals wait for a burst to go on, and for its end.
const PAUSE: Duration = Duration::from_secs(1);
const BURST: Duration = Duration::from_secs(10);

/// Until when files are waited for.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    written: BTreeMap<PathBuf, Instant>,
    emptied: BTreeMap<PathBuf, Instant>,
    burst: Option<Burst>,
}

/// Many changes one after another.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// When its end is no longer waited for.
    latest: Instant,
    /// When it is taken for over, if nothing else happens.
    until: Instant,
}

/// The files that are waited for at one look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Open for writing.
    pub(crate) written: BTreeSet<PathBuf>,
    /// Empty for so long that they are meant to be.
    pub(crate) empty: BTreeSet<PathBuf>,
    /// What becomes of objects that are gone.
    pub(crate) removals: Removals,
}

/// What becomes of objects that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Removals {
    /// They are told.
    #[default]
    Told,
    /// They stay for now, for they may come back elsewhere.
    Wait,
}

impl Waits {
    /// Whether a file is being written. Events name what a link leads to.
    pub(crate) fn is_written(&self, path: &Path) -> bool {
        let real = || path.canonicalize().is_ok_and(|real| self.written.contains(&real));
        self.written.contains(path) || (!self.written.is_empty() && real())
    }
}

impl Patience {
    /// Takes in what happened.
    pub(crate) fn note(&mut self, burst: &Settling, now: Instant) {
        self.written.retain(|path, _| !burst.finished().contains(path));
        let until = now + LONGEST;
        self.written
            .extend(burst.writing().iter().map(|path| (path.clone(), until)));
        self.burst = burst.goes_on().then(|| {
            let latest = self.burst.map_or(now + BURST, |before| before.latest);
            Burst {
                latest,
                until: latest.min(now + PAUSE),
            }
        });
    }

    /// Takes in which files a look has found emptied.
    pub(crate) fn note_emptied(&mut self, found: BTreeSet<PathBuf>, now: Instant) {
        self.emptied.retain(|path, _| found.contains(path));
        for path in found {
            self.emptied.entry(path).or_insert(now + LONGEST);
        }
    }

    /// What a look has to leave alone, and what not any more.
    pub(crate) fn waits(&mut self, now: Instant) -> Waits {
        self.written.retain(|_, until| *until > now);
        let burst = self.burst.filter(|burst| burst.until > now);
        if burst.is_none() {
            self.burst = None;
        }
        let is_over = |(path, until): (&PathBuf, &Instant)| (*until <= now).then(|| path.clone());
        Waits {
            written: self.written.keys().cloned().collect(),
            empty: self.emptied.iter().filter_map(is_over).collect(),
            removals: match burst {
                Some(_) => Removals::Wait,
                None => Removals::Told,
            },
        }
    }

    /// When the first wait is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        let burst = self.burst.map(|burst| burst.until);
        self.written
            .values()
            .chain(self.emptied.values())
            .copied()
            .chain(burst)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{Stage, Timing, Touch};

    #[tokio::test]
    async fn every_wait_ends() {
        let start = Instant::now();
        let mut patience = Patience::default();
        let burst = |stage| {
            let mut burst = Settling::new(Timing::default(), start);
            let path = Some("a".into());
            burst.note(Touch { path, stage }, start);
            burst
        };
        patience.note(&burst(Stage::Writing), start);
        assert_eq!(patience.waits(start).written, ["a".into()].into());
        assert_eq!(patience.next(), Some(start + LONGEST));
        patience.note(&burst(Stage::Closed), start);
        assert!(patience.waits(start).written.is_empty() && patience.next().is_none());
        patience.note(&burst(Stage::Writing), start);
        assert!(
            patience.waits(start + LONGEST).written.is_empty(),
            "its writer keeps it open"
        );

        let mut long = Settling::new(Timing::default(), start);
        let end = long.due() + Timing::default().longest;
        let path = Some("c".into());
        long.note(
            Touch {
                path,
                stage: Stage::Gone,
            },
            end,
        );
        let mut patience = Patience::default();
        patience.note(&long, end);
        assert_eq!(patience.waits(end).removals, Removals::Wait, "it goes on");
        assert_eq!(patience.next(), Some(end + PAUSE));
        assert_eq!(
            patience.waits(end + PAUSE).removals,
            Removals::Told,
            "nothing came after it"
        );
        for second in 0..10 {
            let now = end + Duration::from_secs(second);
            patience.note(&long, now);
            assert_eq!(patience.waits(now).removals, Removals::Wait);
        }
        assert_eq!(patience.waits(end + BURST).removals, Removals::Told, "it never ends");
        patience.note(&long, end);
        patience.note(&burst(Stage::Closed), end);
        assert_eq!(patience.waits(end).removals, Removals::Told, "all is quiet");

        let later = start + LONGEST / 2;
        let mut patience = Patience::default();
        patience.note_emptied(["b".into()].into(), start);
        patience.note_emptied(["b".into()].into(), later);
        assert!(patience.waits(later).empty.is_empty());
        assert_eq!(
            patience.waits(start + LONGEST).empty,
            ["b".into()].into(),
            "counted from the first look"
        );
        patience.note_emptied(BTreeSet::new(), later);
        assert_eq!(patience.next(), None);
    }
}
