//! The accounts of other replicas, and for how long they hold. Pure but for the time, which it is told.
//!
//! An account holds while it is renewed, by our own clock: as long as its Lease says, from when it was seen to change.
//! While we can't renew our own, nobody can be expected to, so nothing runs out; then everybody has that long again.

use super::account::Account;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// A Lease that was seen.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    /// Its name.
    pub(super) name: String,
    /// Its version: another one with each renewal.
    pub(super) version: String,
    /// How long it holds.
    pub(super) duration: Duration,
    /// The account in it.
    pub(super) text: String,
}

/// All accounts but our own.
#[derive(Debug)]
pub(super) struct Others {
    own: String,
    known: BTreeMap<Arc<str>, Other>,
    /// Those that a list has told of that isn't complete yet.
    listed: Option<BTreeSet<Arc<str>>>,
    /// Since when our own renewals succeed.
    renewing: Option<Instant>,
}

#[derive(Debug)]
struct Other {
    version: String,
    duration: Duration,
    account: Account,
    /// Since when it has been seen like that.
    since: Instant,
}

impl Others {
    /// All beside the one with this name.
    pub(super) fn beside(own: &str) -> Self {
        Self {
            own: own.to_owned(),
            known: BTreeMap::new(),
            listed: None,
            renewing: None,
        }
    }

    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// A Lease is there. One whose text can't be read says nothing.
    pub(super) fn hear(&mut self, heard: Heard, now: Instant) {
        if heard.name == self.own {
            return;
        }
        let name: Arc<str> = heard.name.into();
        if let Some(listed) = &mut self.listed {
            listed.insert(Arc::clone(&name));
        }
        if self
            .known
            .get(&name)
            .is_some_and(|known| known.version == heard.version)
        {
            return;
        }
        let other = Other {
            version: heard.version,
            duration: heard.duration,
            account: Account::from_text(&heard.text).unwrap_or_default(),
            since: now,
        };
        self.known.insert(name, other);
    }

    /// The list is complete: what it didn't tell of is gone.
    pub(super) fn complete(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.known.retain(|name, _| listed.contains(name));
        }
    }

    /// A Lease is gone.
    pub(super) fn forget(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// Our own renewal has succeeded.
    pub(super) fn we_renewed(&mut self, now: Instant) {
        self.renewing.get_or_insert(now);
    }

    /// Our own renewal has failed.
    pub(super) fn we_did_not_renew(&mut self) {
        self.renewing = None;
    }

    /// Those that hold, by name.
    pub(super) fn that_hold(&self, now: Instant) -> impl Iterator<Item = (&Arc<str>, &Account)> {
        let holds = move |other: &Other| self.end(other).is_none_or(|end| now < end);
        let holding = self.known.iter().filter(move |(_, other)| holds(other));
        holding.map(|(name, other)| (name, &other.account))
    }

    /// When the next one runs out, of those that haven't yet.
    pub(super) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let ends = self.known.values().filter_map(|other| self.end(other));
        ends.filter(|end| *end > now).min()
    }

    fn end(&self, other: &Other) -> Option<Instant> {
        Some(self.renewing?.max(other.since) + other.duration)
    }
}
