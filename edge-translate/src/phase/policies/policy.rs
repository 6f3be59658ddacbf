//! What every policy answers, whatever its kind: what attachment and statuses ask.

use super::{
    extension::{self, Allowed},
    merge,
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
    how.is_some_and(merge::is_merge)
}

/// How a policy stands under a Gateway.
#[derive(Default)]
pub(crate) struct Standing {
    /// Why it is invalid; none where it is valid.
    pub(crate) fault: Option<Arc<str>>,
    /// What it waits for, and what becomes of requests until then; none where it is in force or invalid.
    pub(crate) awaited: Option<Arc<str>>,
}

impl Standing {
    /// Whether it is valid, and waits for nothing.
    pub(crate) fn is_in_force(&self) -> bool {
        self.fault.is_none() && self.awaited.is_none()
    }

    fn of(settled: Result<(), Arc<str>>) -> Self {
        Self {
            fault: settled.err(),
            awaited: None,
        }
    }
}

/// How a policy, merged into that of a parent if it merges with one, stands under a Gateway.
pub(crate) fn standing(reader: &Reader<'_>, policy: PolicyId, parent: Option<Id>, gateway: Id) -> Standing {
    let standing = match policy.kind {
        Kind::BackendTrafficPolicy => {
            let settled = traffic::under(reader, policy.id, parent);
            settled.map(|settled| Standing::of(settled.map(drop)))
        }
        Kind::SecurityPolicy => {
            let settled = security::under(reader, policy.id, parent);
            settled.map(|settled| of_security(reader, settled))
        }
        Kind::EdgeExtensionPolicy => {
            let draft = extension::under(reader, policy.id, parent);
            draft.map(|draft| draft.standing(reader, Allowed::of(reader, gateway).as_deref()))
        }
        Kind::ClientTrafficPolicy => {
            let policy = reader.client_policy(policy.id);
            policy.map(|policy| Standing::of(policy.settled.as_ref().map(drop).map_err(Arc::clone)))
        }
        _ => None,
    };
    standing.unwrap_or_default()
}

fn of_security(reader: &Reader<'_>, settled: security::Settled) -> Standing {
    match settled {
        Ok(security) => Standing {
            fault: security::fault_of_backends(reader, security),
            awaited: None,
        },
        Err(Unsettled::Invalid(why)) => Standing::of(Err(why)),
        Err(Unsettled::Waiting(what)) => Standing {
            fault: None,
            awaited: Some(format!("{what} Until then requests are answered 500.").into()),
        },
    }
}
