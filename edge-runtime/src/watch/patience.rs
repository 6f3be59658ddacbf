//! Files that are not read yet because they don't look finished.
//!
//! A file that is open for writing is waited for, and so is one that has become empty: whoever saves by truncating
//! first is about to write. Both waits end, for a writer may keep its file open for ever, and an empty file may be
//! meant.
//!
//! While files change one after another, as in a checkout or where a folder is copied from elsewhere, what is gone from
//! one of them may come back in another. So what is gone stays until nothing has changed for a while, unless one file
//! alone changed: a guard that moves is never gone.

use super::Settling;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// How long a file may stay as it is before it is taken for finished.
const LONGEST: Duration = Duration::from_secs(2);
/// How long nothing must have changed before removals are told, and how long that is waited for at the most.
const PAUSE: Duration = Duration::from_secs(1);
const BURST: Duration = Duration::from_secs(10);

/// Until when files are waited for.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    written: BTreeMap<PathBuf, Instant>,
    emptied: BTreeMap<PathBuf, Instant>,
    /// Removals that wait.
    removals: Option<Quiet>,
    /// When a look found something changed last.
    changed: Option<Instant>,
    /// Whether more events followed when the last ones were looked at.
    is_cut: bool,
}

/// The quiet that something waits for.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    /// When it is no longer waited for.
    latest: Instant,
    /// When it is there, if nothing else happens.
    until: Instant,
}

/// What a look has found that has to be waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Files that held objects and are empty.
    pub(crate) emptied: BTreeSet<PathBuf>,
    /// How many files changed.
    pub(crate) n_changed: usize,
    /// Whether something is gone and wasn't told.
    pub(crate) has_removals: bool,
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
    /// They are told if no more than one file has changed.
    ToldOfOne,
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
        self.is_cut = burst.goes_on();
    }

    /// Takes in what a look has found.
    pub(crate) fn note_found(&mut self, found: Found, now: Instant) {
        self.emptied.retain(|path, _| found.emptied.contains(path));
        for path in found.emptied {
            self.emptied.entry(path).or_insert(now + LONGEST);
        }
        if found.n_changed > 0 {
            self.changed = Some(now);
        }
        self.removals = match self.removals {
            _ if !found.has_removals => None,
            Some(waits) if found.n_changed == 0 => Some(waits),
            waits => {
                let latest = waits.map_or(now + BURST, |waits| waits.latest);
                let until = latest.min(now + PAUSE);
                Some(Quiet { latest, until })
            }
        };
    }

    /// What a look has to leave alone, and what not any more.
    pub(crate) fn waits(&mut self, now: Instant) -> Waits {
        self.written.retain(|_, until| *until > now);
        let is_busy = self.changed.is_some_and(|changed| now < changed + PAUSE);
        let removals = match self.removals {
            Some(waits) if waits.until <= now => Removals::Told,
            Some(_) => Removals::Wait,
            None if is_busy || self.is_cut => Removals::Wait,
            None => Removals::ToldOfOne,
        };
        self.is_cut = false;
        let is_over = |(path, until): (&PathBuf, &Instant)| (*until <= now).then(|| path.clone());
        Waits {
            written: self.written.keys().cloned().collect(),
            empty: self.emptied.iter().filter_map(is_over).collect(),
            removals,
        }
    }

    /// When the first wait is over.
    pub(crate) fn next(&self) -> Option<Instant> {
        let removals = self.removals.map(|waits| waits.until);
        self.written
            .values()
            .chain(self.emptied.values())
            .copied()
            .chain(removals)
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

        let later = start + LONGEST / 2;
        let mut patience = Patience::default();
        let emptied = || Found {
            emptied: ["b".into()].into(),
            ..Found::default()
        };
        patience.note_found(emptied(), start);
        patience.note_found(emptied(), later);
        assert!(patience.waits(later).empty.is_empty());
        assert_eq!(
            patience.waits(start + LONGEST).empty,
            ["b".into()].into(),
            "counted from the first look"
        );
        patience.note_found(Found::default(), later);
        assert_eq!(patience.next(), None);
    }
    #[tokio::test]
    async fn what_is_gone_waits_for_quiet_unless_one_file_alone_changed() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let found = |n_changed, has_removals| Found {
            n_changed,
            has_removals,
            ..Found::default()
        };
        let mut patience = Patience::default();
        assert_eq!(patience.waits(start).removals, Removals::ToldOfOne);
        patience.note_found(found(1, false), start);
        assert_eq!(
            patience.waits(ms(500)).removals,
            Removals::Wait,
            "something changed just now"
        );
        patience.note_found(found(1, true), ms(500));
        assert_eq!(patience.waits(ms(1400)).removals, Removals::Wait);
        patience.note_found(found(1, true), ms(1400));
        assert_eq!(patience.next(), Some(ms(2400)), "from the last change");
        patience.note_found(found(0, true), ms(2000));
        assert_eq!(patience.next(), Some(ms(2400)));
        assert_eq!(patience.waits(ms(2400)).removals, Removals::Told);
        patience.note_found(found(0, false), ms(2400));
        assert_eq!(patience.next(), None);
        assert_eq!(patience.waits(ms(3000)).removals, Removals::ToldOfOne);
        // Several at once.
        patience.note_found(found(2, true), ms(3000));
        for step in 1..=11 {
            let now = ms(3000 + step * 900);
            assert_eq!(patience.waits(now).removals, Removals::Wait);
            patience.note_found(found(1, true), now);
        }
        assert_eq!(patience.waits(ms(13_000)).removals, Removals::Told, "it never ends");
    }

    #[tokio::test]
    async fn what_goes_on_is_no_quiet() {
        let start = Instant::now();
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
        assert_eq!(patience.waits(end).removals, Removals::Wait);
        patience.note_found(Found::default(), end);
        assert_eq!(patience.waits(end).removals, Removals::ToldOfOne);
    }
}
