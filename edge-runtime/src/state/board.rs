//! Facts about objects, for one reader: keyed, and the latest wins, so nobody ever waits for who reads them.

use edge_translate::api::ObjectKey;
use std::{collections::BTreeSet, fmt};
use tokio::sync::watch;

/// Facts, and the objects about which the reader hasn't heard the latest.
#[derive(Debug, Default)]
pub(super) struct Board<T>(watch::Sender<Facts<T>>);

/// What hangs on a board.
#[derive(Debug, Default)]
pub(super) struct Facts<T> {
    known: T,
    untaken: BTreeSet<ObjectKey>,
}

impl<T> Board<T> {
    /// Changes facts; the objects that are added to the set are news.
    pub(super) fn change(&self, change: impl FnOnce(&mut T, &mut BTreeSet<ObjectKey>)) {
        self.0.send_if_modified(|facts| {
            let before = facts.untaken.len();
            change(&mut facts.known, &mut facts.untaken);
            facts.untaken.len() > before
        });
    }

    /// Reads facts.
    pub(super) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.0.borrow().known)
    }

    /// Reads what is new since the last call, each object once.
    pub(super) fn take<R>(&self, read: impl FnOnce(&T, BTreeSet<ObjectKey>) -> R) -> R {
        let mut untaken = BTreeSet::new();
        self.0.send_if_modified(|facts| {
            untaken = std::mem::take(&mut facts.untaken);
            false
        });
        read(&self.0.borrow().known, untaken)
    }

    /// All these are news: for a reader that begins.
    pub(super) fn begin(&self, all: impl FnOnce(&T) -> BTreeSet<ObjectKey>) {
        self.0.send_modify(|facts| facts.untaken.extend(all(&facts.known)));
    }

    /// Tells when there is something to take.
    pub(super) fn news(&self) -> News<T> {
        News(self.0.subscribe())
    }
}

/// Tells when there is something to take.
pub struct News<T>(watch::Receiver<Facts<T>>);

impl<T> fmt::Debug for News<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("News")
    }
}

impl<T> News<T> {
    /// Resolves when something was put since the last time; never again once nobody can put any more.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
