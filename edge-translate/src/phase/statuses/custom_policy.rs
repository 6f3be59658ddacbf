//! Policies of kinds that only extension services know: whether they are for somebody of ours.

use super::{
    ancestor,
    attached::{missing_section, without_target},
    target::{ancestors_of, targets},
};
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Ancestor, Id, PolicyId},
    phase::policies::custom::may_target,
    status::{Condition, ParentStatus, Status},
};
use std::collections::BTreeMap;

/// The status of a policy; nothing to say while none of its targets hangs under a Gateway of ours.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let kind = Kind::CustomPolicy;
    let object = reader.object(kind, id)?;
    let policy = PolicyId { kind, id };
    let mut said: BTreeMap<Ancestor, Condition> = BTreeMap::new();
    for target in targets(reader, policy, may_target) {
        let accepted = missing_section(reader, target)
            .unwrap_or_else(|| Condition::yes("Accepted", "Accepted", "Policy has been accepted."));
        for ancestor in ancestors_of(reader, target) {
            let known = said.entry(ancestor).or_insert_with(|| accepted.clone());
            // The first word that isn't good stays.
            if known.reason == "Accepted" {
                known.clone_from(&accepted);
            }
        }
    }
    let generation = object.metadata().generation;
    if said.is_empty() {
        let reasons = without_target(reader, policy, object, may_target);
        return Some(ancestor::for_nobody(generation, reasons));
    }
    let entries = said.into_iter().map(|(ancestor, accepted)| ParentStatus {
        parent: reader.parent_reference(ancestor),
        conditions: vec![accepted],
    });
    Some(Some(ancestor::told(reader, generation, entries)))
}
