//! Policies of kinds that only extension services know: whether they are for somebody of ours.

use super::{
    ancestor::order,
    attached::{has_reasons, missing_section, without_target},
    target::{ancestors_of, targets},
};
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Ancestor, Id, PolicyId},
    phase::policies::custom::may_target,
    status::{Condition, ParentStatus, Status, StatusBody},
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
    let observed_generation = object.metadata().generation;
    if said.is_empty() {
        let body = StatusBody::Unattached(without_target(reader, policy, object, may_target));
        return Some(has_reasons(&body).then_some(Status {
            observed_generation,
            body,
        }));
    }
    let entries = said.into_iter().map(|(ancestor, accepted)| ParentStatus {
        parent: reader.parent_reference(ancestor),
        conditions: vec![accepted],
    });
    let mut ancestors: Vec<_> = entries.collect();
    ancestors.sort_by(|a, b| order(&a.parent).cmp(&order(&b.parent)));
    let body = StatusBody::Ancestors {
        controller_name: reader.settings().controller_name.clone(),
        ancestors,
    };
    Some(Some(Status {
        observed_generation,
        body,
    }))
}
