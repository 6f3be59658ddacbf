//! What every policy answers, whatever its kind: what attachment and statuses ask.

use super::{
    extension::{self, Allowed},
    security::{self, Unsettled},
    traffic,
};
use crate::{
    api::{Kind, MergeType},
    engine::reader::Reader,
    name::{Id, PolicyId},
    phase::precedence::Seniority,
};
use std::sync::Arc;

/// What decides how a policy stands to others.
pub(crate) struct Profile<'a> {
    /// Age and name, which decide between policies for the same.
    pub(crate) seniority: &'a Seniority,
    /// How it merges into that of a parent; it stands alone where this is absent.
    merge: Option<&'a MergeType>,
}

/// How a policy stands to others; none when it doesn't exist or its kind isn't in force.
pub(crate) fn profile<'a>(reader: &Reader<'a>, policy: PolicyId) -> Option<Profile<'a>> {
    match policy.kind {
        Kind::BackendTrafficPolicy => {
            let policy = reader.traffic_policy(policy.id)?;
            Some(Profile {
                seniority: &policy.seniority,
                merge: policy.merge.as_ref(),
            })
        }
        Kind::SecurityPolicy => {
            let policy = reader.security_policy(policy.id)?;
            Some(Profile {
                seniority: &policy.seniority,
                merge: policy.merge.as_ref(),
            })
        }
        Kind::EdgeExtensionPolicy => {
            let policy = reader.extension_policy(policy.id)?;
            Some(Profile {
                seniority: &policy.seniority,
                merge: policy.merge.as_ref(),
            })
        }
        Kind::ClientTrafficPolicy => Some(Profile {
            seniority: &reader.client_policy(policy.id)?.seniority,
            merge: None,
        }),
        _ => None,
    }
}

/// Whether a policy merges into that of a parent.
pub(crate) fn merges(reader: &Reader<'_>, policy: PolicyId) -> bool {
    let how = profile(reader, policy).and_then(|profile| profile.merge);
    matches!(how, Some(MergeType::StrategicMerge | MergeType::JsonMerge))
}

/// Why a policy, merged into that of a parent if it merges with one, is invalid under a Gateway; none where it is valid.
pub(crate) fn fault(reader: &Reader<'_>, policy: PolicyId, parent: Option<Id>, gateway: Id) -> Option<Arc<str>> {
    match policy.kind {
        Kind::BackendTrafficPolicy => traffic::under(reader, policy.id, parent)?.err(),
        Kind::SecurityPolicy => match security::under(reader, policy.id, parent)? {
            Ok(security) => security::fault_of_backends(reader, security),
            Err(Unsettled::Invalid(why)) => Some(why),
            Err(Unsettled::Waiting(_)) => None,
        },
        Kind::EdgeExtensionPolicy => {
            let allowed = Allowed::of(reader, gateway);
            let draft = extension::under(reader, policy.id, parent)?;
            draft.settle(reader, allowed.as_deref()).fault
        }
        Kind::ClientTrafficPolicy => reader.client_policy(policy.id)?.settled.clone().err(),
        _ => None,
    }
}

/// What a policy, merged into that of a parent if it merges with one, waits for under a Gateway, and what becomes of
/// requests until then; none where it is in force or invalid.
pub(crate) fn awaited(reader: &Reader<'_>, policy: PolicyId, parent: Option<Id>, gateway: Id) -> Option<Arc<str>> {
    match policy.kind {
        Kind::SecurityPolicy => match security::under(reader, policy.id, parent)? {
            Err(Unsettled::Waiting(what)) => Some(format!("{what} Until then requests are answered 500.").into()),
            Ok(_) | Err(Unsettled::Invalid(_)) => None,
        },
        Kind::EdgeExtensionPolicy => {
            let allowed = Allowed::of(reader, gateway);
            let draft = extension::under(reader, policy.id, parent)?;
            draft.settle(reader, allowed.as_deref()).awaited
        }
        _ => None,
    }
}
