//! What a cluster's objects say beside what they wish for: the statuses that they carry, and those that can't be read.
//!
//! The provider writes it, whoever writes statuses reads it. Keyed, and the latest wins, as in the ledger: nobody waits.

use edge_translate::api::{ObjectKey, ParentReference};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::watch;

/// The status that an object carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Tells this state of the object from others: what is written on top of another is refused.
    pub version: Arc<str>,
    /// The status as JSON; a tree takes ten times the memory.
    pub status: Option<Arc<str>>,
}

/// An object that can't be read as what it is. What it said last is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// What is wrong with it.
    pub message: Arc<str>,
    /// Its generation.
    pub generation: i64,
    /// What it says that it belongs to.
    pub parents: Box<[ParentReference]>,
}

/// What objects carry.
#[derive(Debug, Default)]
pub struct Mirror(watch::Sender<Image>);

#[derive(Debug, Default)]
struct Image {
    seen: BTreeMap<ObjectKey, Seen>,
    malformed: BTreeMap<ObjectKey, Arc<Malformed>>,
    /// Objects that carry another status than the reader has heard of.
    untaken: BTreeSet<ObjectKey>,
}

/// What a provider has seen of an object.
#[derive(Debug)]
pub struct Sight {
    /// The object.
    pub key: ObjectKey,
    /// Its status; `None`: the object is gone.
    pub seen: Option<Seen>,
    /// Why it can't be read, if it can't.
    pub malformed: Option<Malformed>,
}

impl Mirror {
    /// Takes note of what was seen.
    pub fn put(&self, sights: Vec<Sight>) {
        self.0.send_if_modified(|image| {
            let before = image.untaken.len();
            for sight in sights {
                image.put(sight);
            }
            image.untaken.len() != before
        });
    }

    /// Takes note of what an object carries after a write of ours on top of a version, before it comes back. If the
    /// object is known at another version by now, that one is at least as new: nobody can have written in between.
    pub fn wrote(&self, key: &ObjectKey, base: &str, seen: Seen) {
        self.0.send_if_modified(|image| {
            if let Some(known) = image.seen.get_mut(key)
                && &*known.version == base
            {
                *known = seen;
            }
            false
        });
    }

    /// Objects whose status is another than at the last call.
    pub fn take(&self) -> BTreeSet<ObjectKey> {
        let mut taken = BTreeSet::new();
        self.0.send_if_modified(|image| {
            taken = std::mem::take(&mut image.untaken);
            false
        });
        taken
    }

    /// The next [`take`](Self::take) gives everything: for a reader that begins.
    pub fn begin(&self) {
        self.0.send_modify(|image| {
            image.untaken.extend(image.seen.keys().cloned());
            image.untaken.extend(image.malformed.keys().cloned());
        });
    }

    /// What an object carries.
    pub fn seen(&self, key: &ObjectKey) -> Option<Seen> {
        self.0.borrow().seen.get(key).cloned()
    }

    /// Why an object can't be read.
    pub fn malformed(&self, key: &ObjectKey) -> Option<Arc<Malformed>> {
        self.0.borrow().malformed.get(key).cloned()
    }

    /// Tells when there is something to take.
    pub fn news(&self) -> MirrorNews {
        MirrorNews(self.0.subscribe())
    }
}

impl Image {
    fn put(&mut self, sight: Sight) {
        let Sight { key, seen, malformed } = sight;
        let is_same_reading = self.malformed.get(&key).map(|known| &**known) == malformed.as_ref();
        let before = self.seen.get(&key);
        let is_same_status = before.map(|seen| &seen.status) == seen.as_ref().map(|seen| &seen.status);
        if !is_same_reading || !is_same_status {
            self.untaken.insert(key.clone());
        }
        match malformed {
            Some(malformed) => drop(self.malformed.insert(key.clone(), Arc::new(malformed))),
            None => drop(self.malformed.remove(&key)),
        }
        match seen {
            Some(seen) => drop(self.seen.insert(key, seen)),
            None => drop(self.seen.remove(&key)),
        }
    }
}

/// Tells when a [`Mirror`] has something to take.
#[derive(Debug)]
pub struct MirrorNews(watch::Receiver<Image>);

impl MirrorNews {
    /// Resolves when something was put since the last time; never again once the mirror is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::api::Kind;

    #[test]
    fn what_has_come_since_a_write_isnt_forgotten_for_it() {
        let (mirror, key) = (Mirror::default(), ObjectKey::new(Kind::Gateway, "ns", "gw"));
        let seen = |version: &str| Seen {
            version: version.into(),
            status: Some(format!("{{\"of\":{version}}}").into()),
        };
        let put = |version: &str| {
            let sight = Sight {
                key: key.clone(),
                seen: Some(seen(version)),
                malformed: None,
            };
            mirror.put(vec![sight]);
        };
        put("4");
        mirror.wrote(&key, "4", seen("5"));
        assert_eq!(mirror.seen(&key), Some(seen("5")));
        // Somebody writes on top of our next write, and the watch is faster than the answer to it.
        put("6");
        put("7");
        mirror.wrote(&key, "5", seen("6"));
        assert_eq!(mirror.seen(&key), Some(seen("7")));
        assert_eq!(mirror.take(), [key.clone()].into(), "it is looked at again");
    }
}
