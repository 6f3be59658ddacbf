//! What every watch has told, and what follows for the world: pure, so that every history can be tested.
//!
//! Three rules:
//!
//! * What can't be read changes nothing: a malformed object's last good form stays in force until it is mended or gone.
//! * What a list that is complete doesn't hold any more is gone, whatever was missed before it.
//! * Secrets and ConfigMaps are known by name, and read while something names them. An object that names one which was
//!   not read yet is told together with it, so that nothing is judged by what is only on its way.

use super::{
    arrived::{Content, Taken},
    follow::{News, Source},
};
use crate::{
    cluster::ReadKind,
    state::{Malformed, Sight},
};
use edge_translate::{
    Change,
    api::{Kind, Object, ObjectKey, Scope},
    needed_of_controller,
    status::has_status,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All that is known.
#[derive(Default)]
pub(super) struct Table {
    /// Namespace of the controller, whose own Secrets objects may need without naming them.
    home: Arc<str>,
    sources: BTreeMap<Source, WatchState>,
    /// Secrets and ConfigMaps that objects name.
    references: BTreeMap<ObjectKey, Box<[ObjectKey]>>,
    /// How many objects name each of those.
    needed: BTreeMap<ObjectKey, usize>,
    /// Every Secret and ConfigMap that there is.
    documents: BTreeMap<ObjectKey, Document>,
    /// Objects that wait for what they name to be read.
    waiting: BTreeMap<ObjectKey, Object>,
    /// What those named before: it stays until they are told.
    outdated: BTreeMap<ObjectKey, Vec<ObjectKey>>,
    /// Objects that can't be read, and why.
    malformed: BTreeMap<ObjectKey, Arc<str>>,
    changes: Vec<Change>,
    sights: Vec<Sight>,
    /// Malformed objects that haven't been told.
    told: Vec<(ObjectKey, Arc<str>)>,
    /// What is to be read.
    unread: BTreeSet<ObjectKey>,
    /// What is being read.
    reading: BTreeSet<ObjectKey>,
}

/// What a watch has told.
#[derive(Default)]
struct WatchState {
    keys: BTreeSet<ObjectKey>,
    /// What the list that is coming in holds so far.
    listing: Option<BTreeSet<ObjectKey>>,
    /// Whether a list was complete.
    is_complete: bool,
}

/// A Secret or ConfigMap.
struct Document {
    /// The version that there is.
    version: Box<str>,
    /// The one that the world has.
    read: Option<Box<str>>,
}

/// What is new since it was taken last.
#[derive(Default)]
pub(super) struct Turned {
    pub(super) changes: Vec<Change>,
    pub(super) sights: Vec<Sight>,
    /// Objects that turned out to be malformed, and what is wrong with them.
    pub(super) malformed: Vec<(ObjectKey, Arc<str>)>,
}

impl Turned {
    /// Adds what has come after it.
    pub(super) fn append(&mut self, mut later: Self) {
        self.changes.append(&mut later.changes);
        self.sights.append(&mut later.sights);
        self.malformed.append(&mut later.malformed);
    }
}

impl Table {
    /// Nothing is known yet. Some Secrets are needed whatever objects name.
    pub(super) fn new(home: &Arc<str>, secrets: &BTreeSet<ObjectKey>) -> Self {
        Self {
            home: Arc::clone(home),
            needed: secrets.iter().map(|key| (key.clone(), 1)).collect(),
            ..Self::default()
        }
    }

    /// Begins to hear of a source.
    pub(super) fn add(&mut self, source: Source) {
        self.sources.entry(source).or_default();
    }

    /// A source is heard of in another way from now on: what it holds may be read otherwise there.
    pub(super) fn begin_anew(&mut self, source: &Source) {
        if let Some(held) = self.sources.get_mut(source) {
            held.is_complete = false;
        }
    }

    /// Nothing more will be heard of a source, and what it held doesn't count any more.
    pub(super) fn drop(&mut self, source: &Source) {
        for key in self.sources.remove(source).unwrap_or_default().keys {
            self.forget(&key);
        }
        self.release();
    }

    /// Whether every source has told all that it had.
    pub(super) fn is_complete(&self) -> bool {
        self.sources.values().all(|held| held.is_complete) && self.waiting.is_empty()
    }

    /// Whether a source has told all that it had.
    pub(super) fn is_source_complete(&self, source: &Source) -> bool {
        self.sources.get(source).is_some_and(|held| held.is_complete)
    }

    /// Whether there are objects of a kind, readable or not.
    pub(super) fn holds(&self, kind: &ReadKind) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|(source, held)| source.kind == *kind && !held.keys.is_empty())
    }

    /// Sources that haven't told all that they had.
    pub(super) fn incomplete(&self) -> impl Iterator<Item = &Source> {
        self.sources
            .iter()
            .filter(|(_, held)| !held.is_complete)
            .map(|(source, _)| source)
    }

    /// Takes in what a source says.
    pub(super) fn take(&mut self, source: &Source, news: News) {
        match news {
            News::Begin => {
                if let Some(held) = self.sources.get_mut(source) {
                    held.listing = Some(BTreeSet::new());
                }
            }
            News::Put(taken) => {
                if let Some(held) = self.sources.get_mut(source) {
                    held.keys.insert(taken.key.clone());
                    if let Some(listing) = &mut held.listing {
                        listing.insert(taken.key.clone());
                    }
                    self.put(*taken);
                }
            }
            News::Gone(key) => {
                let was_held = self.sources.get_mut(source).is_some_and(|held| held.keys.remove(&key));
                if was_held {
                    self.forget(&key);
                    self.release();
                }
            }
            News::Complete => self.complete(source),
            News::Fails(_) | News::Works | News::Unserved => {}
        }
    }

    fn complete(&mut self, source: &Source) {
        let Some(held) = self.sources.get_mut(source) else {
            return;
        };
        held.is_complete = true;
        let listed = held.listing.take().unwrap_or_default();
        let vanished: Vec<ObjectKey> = held.keys.difference(&listed).cloned().collect();
        held.keys = listed;
        for key in &vanished {
            self.forget(key);
        }
        self.release();
    }

    fn put(&mut self, taken: Taken) {
        let Taken {
            key,
            version,
            content,
            references,
            seen,
        } = taken;
        let malformed = match content {
            Content::Unread => return self.note(key, version),
            Content::Object(object) => {
                self.malformed.remove(&key);
                let own = needed_of_controller(&object, &self.home);
                self.refer(&key, references.into_iter().chain(own).collect());
                match self.is_settled(&key) {
                    true => self.tell(&key, object),
                    false => drop(self.waiting.insert(key.clone(), object)),
                }
                None
            }
            Content::Malformed(malformed) => {
                self.note_malformed(&key, &malformed);
                Some(malformed)
            }
        };
        if has_status(key.kind) {
            self.sights.push(Sight { key, seen, malformed });
        }
    }

    /// An object is as it says, and what it named before isn't needed for its sake any more.
    fn tell(&mut self, key: &ObjectKey, object: Object) {
        self.waiting.remove(key);
        self.changes.push(Change::Put(object));
        self.let_go(key);
    }

    fn let_go(&mut self, key: &ObjectKey) {
        for reference in self.outdated.remove(key).unwrap_or_default() {
            self.unneed(&reference);
        }
    }

    fn note_malformed(&mut self, key: &ObjectKey, malformed: &Malformed) {
        let message = &malformed.message;
        let before = self.malformed.insert(key.clone(), Arc::clone(message));
        if before.as_ref() != Some(message) {
            self.told.push((key.clone(), Arc::clone(message)));
        }
    }

    /// A Secret or ConfigMap is there, at this version.
    fn note(&mut self, key: ObjectKey, version: Box<str>) {
        let is_needed = self.needed.contains_key(&key);
        let document = self.documents.entry(key.clone()).or_insert(Document {
            version: Box::default(),
            read: None,
        });
        document.version = version;
        if is_needed && document.read.as_ref() != Some(&document.version) {
            self.unread.insert(key);
        }
    }

    /// Takes down what an object names now.
    fn refer(&mut self, key: &ObjectKey, references: Box<[ObjectKey]>) {
        let before = match references.is_empty() {
            true => self.references.remove(key),
            false => self.references.insert(key.clone(), references.clone()),
        };
        for reference in &references {
            let count = self.needed.entry(reference.clone()).or_default();
            *count += 1;
            if *count == 1 && self.documents.contains_key(reference) {
                self.unread.insert(reference.clone());
            }
        }
        if let Some(before) = before {
            self.outdated.entry(key.clone()).or_default().extend(before);
        }
    }

    fn unneed(&mut self, reference: &ObjectKey) {
        let Some(count) = self.needed.get_mut(reference) else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.needed.remove(reference);
            self.unread.remove(reference);
            let document = self.documents.get_mut(reference);
            if document.is_some_and(|document| document.read.take().is_some()) {
                self.changes.push(Change::Remove(reference.clone()));
            }
        }
    }

    /// Whether everything that an object names was read, or isn't there.
    fn is_settled(&self, key: &ObjectKey) -> bool {
        let references = self.references.get(key).into_iter().flatten();
        references
            .into_iter()
            .all(|reference| match self.documents.get(reference) {
                Some(document) => document.read.is_some(),
                None => self.is_listed(reference),
            })
    }

    /// Whether it would be known if such a Secret or ConfigMap were there.
    fn is_listed(&self, key: &ObjectKey) -> bool {
        let of = |namespace: Option<&Arc<str>>| {
            self.sources.get(&Source {
                kind: ReadKind::Known(key.kind),
                namespace: namespace.cloned(),
            })
        };
        match of(None).or_else(|| of(Some(&key.namespace))) {
            Some(held) => held.is_complete,
            // Nobody looks there.
            None => true,
        }
    }

    /// Objects that wait no longer are told.
    fn release(&mut self) {
        let settled: Vec<ObjectKey> = self
            .waiting
            .keys()
            .filter(|key| self.is_settled(key))
            .cloned()
            .collect();
        for key in settled {
            if let Some(object) = self.waiting.remove(&key) {
                self.tell(&key, object);
            }
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        if matches!(key.kind, Kind::Secret | Kind::ConfigMap) {
            self.unread.remove(key);
            if self
                .documents
                .remove(key)
                .is_some_and(|document| document.read.is_some())
            {
                self.changes.push(Change::Remove(key.clone()));
            }
            return;
        }
        self.malformed.remove(key);
        self.waiting.remove(key);
        self.changes.push(Change::Remove(key.clone()));
        self.refer(key, Box::default());
        self.let_go(key);
        if has_status(key.kind) {
            self.sights.push(Sight {
                key: key.clone(),
                seen: None,
                malformed: None,
            });
        }
    }

    /// Secrets and ConfigMaps that are to be read now, and that nobody is reading yet.
    pub(super) fn take_unread(&mut self) -> BTreeSet<ObjectKey> {
        let unread = std::mem::take(&mut self.unread).into_iter();
        let (later, now): (BTreeSet<_>, BTreeSet<_>) = unread.partition(|key| self.reading.contains(key));
        self.unread = later;
        self.reading.extend(now.iter().cloned());
        now
    }

    /// A Secret or ConfigMap couldn't be read. Whether anything is still waiting for it, so that it is to be tried
    /// again.
    pub(super) fn is_still_wanted(&mut self, key: &ObjectKey) -> bool {
        let is_wanted = self.needed.contains_key(key) && self.documents.contains_key(key);
        if !is_wanted {
            self.reading.remove(key);
        }
        is_wanted
    }

    /// A Secret or ConfigMap was read; `None`: there is none.
    pub(super) fn read(&mut self, key: &ObjectKey, taken: Option<Taken>) {
        self.reading.remove(key);
        if !self.needed.contains_key(key) {
            return;
        }
        match (taken, self.documents.get_mut(key)) {
            (Some(taken), Some(document)) => {
                // What was read is at least as new as what its watch had told when it was asked for. If the watch has
                // told of another version since, it is among the unread; if it hasn't yet, it will.
                if document.version == taken.version {
                    self.unread.remove(key);
                }
                document.read = Some(taken.version);
                match taken.content {
                    Content::Object(object) => self.changes.push(Change::Put(object)),
                    Content::Malformed(malformed) => self.note_malformed(key, &malformed),
                    Content::Unread => {}
                }
            }
            // Its watch has said already that it is gone.
            (_, None) => {}
            (None, Some(_)) => self.forget(key),
        }
        self.release();
    }

    /// What is new since the last call.
    pub(super) fn take_turned(&mut self) -> Turned {
        Turned {
            changes: std::mem::take(&mut self.changes),
            sights: std::mem::take(&mut self.sights),
            malformed: std::mem::take(&mut self.told),
        }
    }
}

/// The sources that a kind needs, given the namespaces that count; `None`: all.
pub(super) fn sources(kind: &ReadKind, namespaces: Option<&BTreeSet<Arc<str>>>) -> Vec<Source> {
    match (kind.scope(), namespaces) {
        (Scope::Namespaced, Some(namespaces)) => namespaces
            .iter()
            .map(|namespace| Source {
                kind: kind.clone(),
                namespace: Some(Arc::clone(namespace)),
            })
            .collect(),
        _ => vec![Source {
            kind: kind.clone(),
            namespace: None,
        }],
    }
}
