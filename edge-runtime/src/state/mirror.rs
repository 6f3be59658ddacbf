//! What a cluster's objects say beside what they wish for: the statuses that they carry, what classes wait for before
//! they go, and which objects can't be read.
//!
//! The provider writes it, whoever writes statuses reads it. Keyed, and the latest wins, as in the ledger: nobody
//! waits.

use super::board::{Board, News};
use edge_translate::api::{Kind, ObjectKey, ParentReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The status that an object carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedStatus {
    /// Tells this state of the object from others: what is written on top of another is refused.
    pub version: Arc<str>,
    /// The status as JSON; a tree takes ten times the memory.
    pub status: Option<Arc<str>>,
    /// Of a GatewayClass; of other kinds nobody asks.
    pub finalizers: Option<Arc<Finalizers>>,
}

/// What an object waits for before it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalizers {
    /// All of them.
    pub names: Vec<String>,
    /// Somebody has deleted it: no more can be added.
    pub is_deleted: bool,
}

impl Finalizers {
    /// Those in the metadata of an object, if it is of a kind that we hold.
    pub fn of(kind: Kind, metadata: &ObjectMeta) -> Option<Arc<Self>> {
        let held = || Self {
            names: metadata.finalizers.clone().unwrap_or_default(),
            is_deleted: metadata.deletion_timestamp.is_some(),
        };
        (kind == Kind::GatewayClass).then(|| Arc::new(held()))
    }
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
pub struct Mirror(Board<Image>);

/// What stands in a [`Mirror`].
#[derive(Debug, Default)]
pub struct Image {
    seen: BTreeMap<ObjectKey, ObservedStatus>,
    malformed: BTreeMap<ObjectKey, Arc<Malformed>>,
}

/// What a provider has seen of an object.
#[derive(Debug)]
pub struct Sight {
    /// The object.
    pub key: ObjectKey,
    /// Its status; `None`: the object is gone.
    pub seen: Option<ObservedStatus>,
    /// Why it can't be read, if it can't.
    pub malformed: Option<Malformed>,
}

impl Mirror {
    /// Takes note of what was seen.
    pub fn put(&self, sights: Vec<Sight>) {
        self.0.change(|image, untaken| {
            let differing = sights.into_iter().filter_map(|sight| image.put(sight));
            untaken.extend(differing);
        });
    }

    /// Takes note of what an object carries after a write of ours on top of a version, before it comes back. If the
    /// object is known at another version by now, that one is at least as new: nobody can have written in between.
    pub fn wrote(&self, key: &ObjectKey, base: &str, seen: ObservedStatus) {
        self.0.change(|image, _| {
            if let Some(known) = image.seen.get_mut(key)
                && &*known.version == base
            {
                *known = seen;
            }
        });
    }

    /// Objects that carry something else than at the last call.
    pub fn take(&self) -> BTreeSet<ObjectKey> {
        self.0.take(|_, untaken| untaken)
    }

    /// The next [`take`](Self::take) gives everything: for a reader that begins.
    pub fn begin(&self) {
        self.0
            .begin(|image| image.seen.keys().chain(image.malformed.keys()).cloned().collect());
    }

    /// What an object carries.
    pub fn seen(&self, key: &ObjectKey) -> Option<ObservedStatus> {
        self.0.read(|image| image.seen.get(key).cloned())
    }

    /// Why an object can't be read.
    pub fn malformed(&self, key: &ObjectKey) -> Option<Arc<Malformed>> {
        self.0.read(|image| image.malformed.get(key).cloned())
    }

    /// Tells when there is something to take.
    pub fn news(&self) -> News<Image> {
        self.0.news()
    }
}

impl Image {
    /// The object, if it carries another status than before, or can be read no longer or again.
    fn put(&mut self, sight: Sight) -> Option<ObjectKey> {
        let Sight { key, seen, malformed } = sight;
        let is_same_reading = self.malformed.get(&key).map(|known| &**known) == malformed.as_ref();
        let carried = |seen: &'_ ObservedStatus| (seen.status.clone(), seen.finalizers.clone());
        let is_same_status = self.seen.get(&key).map(carried) == seen.as_ref().map(carried);
        match malformed {
            Some(malformed) => drop(self.malformed.insert(key.clone(), Arc::new(malformed))),
            None => drop(self.malformed.remove(&key)),
        }
        match seen {
            Some(seen) => drop(self.seen.insert(key.clone(), seen)),
            None => drop(self.seen.remove(&key)),
        }
        (!is_same_reading || !is_same_status).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_since_a_write_isnt_forgotten_for_it() {
        let (mirror, key) = (Mirror::default(), ObjectKey::new(Kind::Gateway, "ns", "gw"));
        let seen = |version: &str| ObservedStatus {
            version: version.into(),
            status: Some(format!("{{\"of\":{version}}}").into()),
            finalizers: None,
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
