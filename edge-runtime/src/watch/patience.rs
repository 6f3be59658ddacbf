//! Files that are not read yet because they don't look finished.
//!
//! A file that is open for writing is waited for, and so is one that has become empty: whoever saves by truncating
//! first is about to write. Both waits end, for a writer may keep its file open for ever, and an empty file may be
//! meant.
//!
//! While files change one after another, as in a checkout or where a folder is copied from elsewhere, what is gone from
//! one of them may come back in another, and a file that is gone may just be made anew. So what is gone stays until
//! nothing has changed for a while, unless one file alone changed and is there: a guard that moves is never gone. What
//! was written together with a removal that waits waits with it, but not as long.

use super::Settling;
use edge_translate::edits::Removals;
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
/// How long edits wait, at the most, for what is gone with them: others may never rest.
const EDIT: Duration = Duration::from_secs(2);

/// Until when files are waited for.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    written: BTreeMap<PathBuf, Instant>,
    emptied: BTreeMap<PathBuf, Instant>,
    /// Removals that wait.
    removals: Option<Quiet>,
    /// Until when edits are held.
    edits: Option<Instant>,
    /// Files that have changed just now, or while removals wait, and when they did last.
    changed: BTreeMap<PathBuf, Instant>,
    /// Whether more events followed when the last ones were looked at.
    is_cut_short: bool,
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
pub(crate) struct LookFindings {
    /// Files that held objects and are empty.
    pub(crate) emptied: BTreeSet<PathBuf>,
    /// Files that came, changed or went.
    pub(crate) changed: BTreeSet<PathBuf>,
    /// Whether something is gone and wasn't told.
    pub(crate) has_removals: bool,
    /// Whether edits wait together with that.
    pub(crate) has_edits: bool,
}

/// The files that are waited for at one look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Open for writing.
    pub(crate) written: BTreeSet<PathBuf>,
    /// Empty for so long that they are meant to be.
    pub(crate) empty: BTreeSet<PathBuf>,
    /// How far the wait for objects that are gone has come.
    pub(crate) removals: RemovalWait,
    /// Files that have changed so shortly before that one edit may go on.
    pub(crate) busy: BTreeSet<PathBuf>,
    /// Whether more is known to have happened than was looked at.
    pub(crate) is_cut_short: bool,
}

/// How far the wait for objects that are gone has come: they may come back elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RemovalWait {
    /// It is over.
    #[default]
    Over,
    /// It is over if nothing more has changed.
    OverInQuiet,
    /// It is over for edits and what is gone with them.
    OverForEdits,
    /// It goes on.
    Open,
}

impl RemovalWait {
    /// What becomes of objects that are gone, after a look that found this.
    pub(crate) fn now(self, found: &LookFindings) -> Removals {
        match self {
            Self::Over => Removals::Tell,
            Self::OverInQuiet if found.changed.is_empty() => Removals::Tell,
            Self::OverForEdits => Removals::TellWithEdits,
            Self::OverInQuiet | Self::Open => Removals::Hold,
        }
    }
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
        self.is_cut_short = burst.was_cut_short();
    }

    /// Takes in what a look has found.
    pub(crate) fn note_found(&mut self, found: LookFindings, now: Instant) {
        self.emptied.retain(|path, _| found.emptied.contains(path));
        for path in found.emptied {
            self.emptied.entry(path).or_insert(now + LONGEST);
        }
        self.edits = found.has_edits.then(|| self.edits.unwrap_or(now + EDIT));
        let is_quiet = found.changed.is_empty();
        self.changed.extend(found.changed.into_iter().map(|path| (path, now)));
        if !found.has_removals {
            self.removals = None;
            return;
        }
        if self.removals.is_some() && is_quiet {
            return;
        }
        let latest = self.removals.map_or(now + BURST, |waits| waits.latest);
        let until = latest.min(now + PAUSE);
        self.removals = Some(Quiet { latest, until });
    }

    /// What a look has to leave alone, and what not any more.
    pub(crate) fn waits(&mut self, now: Instant) -> Waits {
        self.written.retain(|_, until| *until > now);
        if self.removals.is_none() {
            self.changed.retain(|_, changed| now < *changed + PAUSE);
        }
        let removals = match self.removals {
            Some(waits) if waits.latest <= now => RemovalWait::Over,
            Some(waits) if waits.until <= now => RemovalWait::OverInQuiet,
            _ if self.edits.is_some_and(|until| until <= now) => RemovalWait::OverForEdits,
            _ => RemovalWait::Open,
        };
        let is_over = |(path, until): (&PathBuf, &Instant)| (*until <= now).then(|| path.clone());
        Waits {
            written: self.written.keys().cloned().collect(),
            empty: self.emptied.iter().filter_map(is_over).collect(),
            removals,
            busy: self.changed.keys().cloned().collect(),
            is_cut_short: std::mem::take(&mut self.is_cut_short),
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
            .chain(self.edits)
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
        let emptied = || LookFindings {
            emptied: ["b".into()].into(),
            ..LookFindings::default()
        };
        patience.note_found(emptied(), start);
        patience.note_found(emptied(), later);
        assert!(patience.waits(later).empty.is_empty());
        assert_eq!(
            patience.waits(start + LONGEST).empty,
            ["b".into()].into(),
            "counted from the first look"
        );
        patience.note_found(LookFindings::default(), later);
        assert_eq!(patience.next(), None);
    }

    fn found(changed: &[&str], has_removals: bool) -> LookFindings {
        LookFindings {
            changed: changed.iter().map(PathBuf::from).collect(),
            has_removals,
            ..LookFindings::default()
        }
    }

    #[tokio::test]
    async fn what_is_gone_waits_for_quiet() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let mut patience = Patience::default();
        assert_eq!(patience.waits(start).removals, RemovalWait::Open);
        patience.note_found(found(&["a"], false), start);
        assert_eq!(patience.waits(ms(500)).busy, ["a".into()].into(), "it changed just now");
        patience.note_found(found(&["b"], true), ms(500));
        assert_eq!(patience.waits(ms(1400)).removals, RemovalWait::Open);
        patience.note_found(found(&["c"], true), ms(1400));
        assert_eq!(patience.next(), Some(ms(2400)), "from the last change");
        patience.note_found(found(&[], true), ms(2000));
        assert_eq!(patience.next(), Some(ms(2400)));
        let waits = patience.waits(ms(2400));
        assert_eq!(waits.removals, RemovalWait::OverInQuiet);
        assert_eq!(waits.busy, ["a", "b", "c"].map(PathBuf::from).into(), "all of one edit");
        patience.note_found(found(&[], false), ms(2400));
        assert_eq!(patience.next(), None);
        assert_eq!(patience.waits(ms(3400)).busy, [].into());
        // It never ends.
        patience.note_found(found(&["a"], true), ms(3000));
        for step in 1..=11 {
            let now = ms(3000 + step * 900);
            assert_eq!(patience.waits(now).removals, RemovalWait::Open);
            patience.note_found(found(&["a"], true), now);
        }
        assert_eq!(patience.waits(ms(13_000)).removals, RemovalWait::Over);
    }

    #[tokio::test]
    async fn edits_wait_for_what_is_gone_with_them_no_longer_than_they_must() {
        let start = Instant::now();
        let ms = |n| start + Duration::from_millis(n);
        let with_edits = || LookFindings {
            has_edits: true,
            ..found(&["a"], true)
        };
        let mut patience = Patience::default();
        for n in [0, 900, 1800] {
            patience.note_found(with_edits(), ms(n));
        }
        assert_eq!(patience.waits(ms(1999)).removals, RemovalWait::Open);
        assert_eq!(patience.next(), Some(ms(2000)), "counted from the first");
        assert_eq!(patience.waits(ms(2000)).removals, RemovalWait::OverForEdits);
        patience.note_found(found(&["a"], true), ms(2000));
        assert_eq!(patience.next(), Some(ms(3000)));
        patience.note_found(with_edits(), ms(2900));
        assert_eq!(patience.next(), Some(ms(3900)), "where nothing else changes");
    }

    #[tokio::test]
    async fn what_goes_on_is_told_once() {
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
        assert!(patience.waits(end).is_cut_short);
        patience.note_found(LookFindings::default(), end);
        assert!(!patience.waits(end).is_cut_short);
    }
}
