//! What stays of before while something stands at its last good version: it may need what is gone by now.

use super::{Hooked, is_unchanged};
use crate::{
    lower::with_filters_of,
    snapshot::{ResourceType, Section, Snapshot},
};
use std::sync::Arc;

impl Hooked {
    /// A snapshot with what of the one before may be needed.
    pub(super) fn with_what_may_be_needed(&self, snapshot: Snapshot) -> Snapshot {
        self.with_filters_of_before(self.with_what_has_gone(snapshot))
    }

    /// Keeps what is gone and may be needed by what isn't served as it should be.
    fn with_what_has_gone(&self, snapshot: Snapshot) -> Snapshot {
        let kinds = [
            ResourceType::Cluster,
            ResourceType::Endpoints,
            ResourceType::Secret,
            ResourceType::Routes,
        ];
        kinds.into_iter().fold(snapshot, |snapshot, kind| {
            let section = Arc::clone(snapshot.section(kind));
            let before = self.served.section(kind).entries().iter();
            let gone: Vec<_> = before.filter(|entry| section.get(&entry.name).is_none()).collect();
            if gone.is_empty() {
                return snapshot;
            }
            let all: Vec<_> = section.entries().iter().chain(gone).cloned().collect();
            let section = Section::new(all);
            let entries = section.entries().to_vec();
            snapshot.with(kind, self.section(&Arc::new(section), kind, entries))
        })
    }

    /// Leaves on the chains of listeners what routes of before may need.
    fn with_filters_of_before(&self, snapshot: Snapshot) -> Snapshot {
        let base = Arc::clone(snapshot.section(ResourceType::Listener));
        let before = self.served.section(ResourceType::Listener);
        let widened = base.entries().iter().map(|entry| {
            let Some(served) = before.get(&entry.name).filter(|served| !is_unchanged(served, entry)) else {
                return Arc::clone(entry);
            };
            match with_filters_of(served, entry) {
                Some(both) if both == **served => Arc::clone(served),
                Some(both) => Arc::new(both),
                None => Arc::clone(entry),
            }
        });
        let section = self.section(&base, ResourceType::Listener, widened.collect());
        snapshot.with(ResourceType::Listener, section)
    }
}
