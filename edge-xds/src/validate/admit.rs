//! Lets a new snapshot in, but for what a proxy would refuse.
//!
//! Only what is new since the last admitted snapshot is looked at. A refused resource is replaced by its last admitted
//! version, or left out if there is none. Of a route table only the refused virtual hosts are left out: the others
//! belong to other people.

use super::{Validator, Violation};
use crate::snapshot::{Body, Entry, Piece, ResourceType, Section, Snapshot};
use edge_ir::Origins;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A resource that was kept back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its kind.
    pub kind: ResourceType,
    /// Its name.
    pub name: Arc<str>,
    /// What is wrong with it.
    pub violation: Violation,
    /// The objects it came from.
    pub origins: Origins,
}

impl Validator<'_> {
    /// The part of a snapshot that may be served, given what is served now, and what was kept back.
    pub fn admit(&mut self, served: &Snapshot, next: &Snapshot) -> (Snapshot, Vec<Quarantined>) {
        let mut admitted = next.clone();
        let mut kept_back = Vec::new();
        for kind in ResourceType::ALL {
            let (before, after) = (served.section(kind), next.section(kind));
            if Arc::ptr_eq(before, after) {
                continue;
            }
            let first = kept_back.len();
            let entries = after.entries().iter();
            let entries = entries.filter_map(|entry| {
                let served = before.get(&entry.name);
                if served.is_some_and(|served| Arc::ptr_eq(served, entry)) {
                    return Some(Arc::clone(entry));
                }
                self.admit_entry(kind, served, entry, &mut kept_back)
            });
            let entries: Vec<Arc<Entry>> = entries.collect();
            if kept_back.len() > first {
                admitted = admitted.with(kind, Arc::new(Section::new(entries)));
            }
        }
        (admitted, kept_back)
    }

    fn admit_entry(
        &mut self,
        kind: ResourceType,
        served: Option<&Arc<Entry>>,
        entry: &Arc<Entry>,
        kept_back: &mut Vec<Quarantined>,
    ) -> Option<Arc<Entry>> {
        let mut keep_back = |violation: Violation| {
            let (name, origins) = (Arc::clone(&entry.name), Arc::clone(&entry.origins));
            kept_back.push(Quarantined {
                kind,
                name,
                violation,
                origins,
            });
        };
        let pieces = match &entry.body {
            Body::Whole(bytes) => {
                let Err(violation) = self.validate(kind.type_url(), bytes) else {
                    return Some(Arc::clone(entry));
                };
                keep_back(violation);
                return served.cloned();
            }
            Body::Rope { pieces, .. } => pieces,
        };
        // Pieces of a message are messages of the same type, each with a part of the fields.
        let known: FxHashSet<*const Piece> = served.map(|served| piece_pointers(served)).unwrap_or_default();
        let before = pieces.len();
        let good: Vec<Arc<Piece>> = pieces
            .iter()
            .filter(|piece| {
                known.contains(&Arc::as_ptr(piece))
                    || self
                        .validate(kind.type_url(), piece.bytes())
                        .map_err(&mut keep_back)
                        .is_ok()
            })
            .cloned()
            .collect();
        if good.len() == before {
            return Some(Arc::clone(entry));
        }
        Some(Arc::new(Entry::new(
            &*entry.name,
            Body::rope(good.into()),
            Arc::clone(&entry.origins),
        )))
    }
}

fn piece_pointers(entry: &Entry) -> FxHashSet<*const Piece> {
    match &entry.body {
        Body::Whole(_) => FxHashSet::default(),
        Body::Rope { pieces, .. } => pieces.iter().map(Arc::as_ptr).collect(),
    }
}
