//! What has to be written so that a class stays while there are Gateways of it, and no longer: pure.
//!
//! Gateway API has a finalizer for that. Without it, deleting the class would take all fleets of it down at once.

use super::lay::{Needed, Part, Says};
use crate::state::ObservedStatus;
use edge_translate::api::{CLASS_IN_USE, ObjectKey};
use serde_json::json;
use std::collections::BTreeSet;

/// Whether there are Gateways of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// There are.
    Used,
    /// There is none.
    Unused,
}

/// Classes of which what is to be said doesn't wait until they are held, since their metadata couldn't be written.
///
/// A class is asked to be held first, and said anything of then. Where the API server doesn't take that, or doesn't
/// keep it, it is given up: its status is written all the same. It is asked for again once the class or what is to be
/// said of it has changed, it is gone, or what failed is tried again.
#[derive(Debug, Default)]
pub(super) struct Unheld(BTreeSet<ObjectKey>);

impl Unheld {
    /// The metadata of a class couldn't be written.
    pub(super) fn give_up(&mut self, key: ObjectKey) {
        self.0.insert(key);
    }

    /// It is tried again before anything else is said.
    pub(super) fn ask_again(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    /// Whether that was given up.
    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.0.contains(key)
    }

    /// Whoever writes begins anew.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What has to be written of a class of ours, or nothing if it is held as it should be.
pub(super) fn needed(seen: &ObservedStatus, used: Use) -> Option<Needed> {
    let finalizers = seen.finalizers.as_ref()?;
    let (ours, others): (Vec<&str>, Vec<&str>) = finalizers
        .names
        .iter()
        .map(String::as_str)
        .partition(|name| *name == CLASS_IN_USE);
    let wanted: Vec<&str> = match (used, ours.is_empty()) {
        (Use::Used, true) if !finalizers.is_deleted => others.into_iter().chain([CLASS_IN_USE]).collect(),
        (Use::Unused, false) => others,
        _ => return None,
    };
    let metadata = json!({ "resourceVersion": &*seen.version, "finalizers": wanted });
    Some(Needed {
        patch: json!({ "metadata": metadata }),
        says: Says::Facts,
        part: Part::Metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Finalizers;
    use edge_translate::api::Kind;
    use serde_json::Value;

    fn written(metadata: &Value, used: Use) -> Option<Value> {
        let seen = ObservedStatus {
            version: "7".into(),
            status: None,
            finalizers: Finalizers::of(Kind::GatewayClass, &serde_json::from_value(metadata.clone()).unwrap()),
        };
        needed(&seen, used).map(|needed| needed.patch["metadata"].clone())
    }

    #[test]
    fn a_class_is_held_while_it_is_used_beside_what_others_wait_for() {
        let with = |names: &[&str]| json!({ "finalizers": names });
        let patch = |names: &[&str]| Some(json!({ "resourceVersion": "7", "finalizers": names }));
        assert_eq!(written(&json!({}), Use::Used), patch(&[CLASS_IN_USE]));
        assert_eq!(written(&with(&["theirs"]), Use::Used), patch(&["theirs", CLASS_IN_USE]));
        assert_eq!(written(&with(&[CLASS_IN_USE]), Use::Used), None);
        assert_eq!(
            written(&with(&[CLASS_IN_USE, "theirs"]), Use::Unused),
            patch(&["theirs"])
        );
        assert_eq!(written(&with(&["theirs"]), Use::Unused), None);
    }

    #[test]
    fn a_class_that_goes_is_let_go_and_not_held_any_more() {
        let deleted = |names: &[&str]| json!({ "finalizers": names, "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(written(&deleted(&["theirs"]), Use::Used), None, "nobody may add one");
        assert_eq!(written(&deleted(&[CLASS_IN_USE]), Use::Used), None);
        let nothing = json!({ "resourceVersion": "7", "finalizers": [] });
        assert_eq!(written(&deleted(&[CLASS_IN_USE]), Use::Unused), Some(nothing));
    }
}
