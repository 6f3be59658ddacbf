//! Policies that are read and not honoured yet, under each Gateway and ListenerSet that their targets hang under: none
//! of them is accepted, and the message says what becomes of what they cover.

use super::ancestor::{order, written};
use crate::{
    api::{Generic, Kind, Object},
    engine::reader::Reader,
    name::{Id, PolicyId},
    status::{Condition, ParentStatus, Status, StatusBody},
    world::{named_targets, policy_of, protects},
};
use std::sync::Arc;

/// Whether a kind is such a policy.
pub(super) fn is_policy(kind: Kind) -> bool {
    matches!(kind, Kind::EdgeExtensionPolicy)
}

/// The status of a policy; nothing to say while none of its targets hangs under a Gateway of ours.
pub(super) fn status(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    let object = reader.object(kind, id)?;
    let policy = policy_of(object)?;
    let ancestors = reader.policy_ancestors(PolicyId { kind, id });
    let mut ancestors: Vec<_> = ancestors.map(|ancestor| written(reader, ancestor)).collect();
    if ancestors.is_empty() {
        return Some(without_target(reader, id, policy));
    }
    ancestors.sort_by(|a, b| order(a).cmp(&order(b)));
    let refused = Condition::no("Accepted", "Invalid", message(kind, object));
    let entry = |ancestor| ParentStatus {
        parent: Arc::new(ancestor),
        conditions: vec![refused.clone()],
    };
    let body = StatusBody::Ancestors {
        controller_name: reader.settings().controller_name.clone(),
        ancestors: ancestors.into_iter().map(entry).collect(),
    };
    Some(Some(Status {
        observed_generation: policy.metadata.generation,
        body,
    }))
}

/// A policy whose targets don't exist has no ancestor to say so under.
fn without_target(reader: &Reader<'_>, id: Id, policy: &Generic) -> Option<Status> {
    let namespace = &policy.metadata.namespace;
    let reasons: Vec<String> = named_targets(&policy.spec)
        .filter(|target| {
            let target_id = Id {
                namespace: id.namespace,
                name: reader.sym(target.name),
            };
            reader.object(target.kind, target_id).is_none()
        })
        .map(|target| {
            format!(
                "spec.targetRefs: there is no {} {namespace}/{}",
                target.kind, target.name
            )
        })
        .collect();
    (!reasons.is_empty()).then_some(Status {
        observed_generation: policy.metadata.generation,
        body: StatusBody::Unattached(reasons),
    })
}

fn message(kind: Kind, object: &Object) -> String {
    let (what, effect) = match (kind, protects(object)) {
        (kind, true) => (
            kind.as_str().to_owned(),
            "until the policy goes, what it covers answers 500, and nothing is let through that isn't HTTP",
        ),
        (kind, false) => (kind.as_str().to_owned(), "the policy has no effect"),
    };
    format!("{what} is not supported by this version: {effect}.")
}
