//! EdgePatchPolicies: whose patches a fleet carries, and what their status says once somebody has told what became of
//! them.

use crate::rig::{GATEWAY, Rig};
use edge_ir::{PatchFailure, PatchProblem};
use edge_translate::{Fact, Feature, Settings, api::Kind};
use std::sync::Arc;

fn policy(name: &str, rest: &str) -> String {
    format!(
        r"
apiVersion: gateway.edge/v1alpha1
kind: EdgePatchPolicy
metadata: {{name: {name}}}
spec:
  type: JSONPatch
  targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: g}}
  jsonPatches:
  - type: type.googleapis.com/envoy.config.listener.v3.Listener
    name: tcp-80
    operation: {{op: remove, path: /a}}
{rest}"
    )
}

fn tell(rig: &mut Rig, failures: Option<Vec<PatchFailure>>) {
    rig.tell(Fact::Patched("default/g".into(), failures.map(Arc::new)));
}

/// The policies whose patches the fleet carries, in order.
fn patches(rig: &Rig) -> Vec<&str> {
    rig.fleet().patches.iter().map(|patch| &*patch.origin.name).collect()
}

fn said(rig: &Rig, name: &str) -> Vec<String> {
    rig.reasons(Kind::EdgePatchPolicy, name)
}

#[test]
fn patches_apply_by_priority_age_and_name() {
    let mut rig = Rig::new(GATEWAY);
    rig.put(&policy("b", ""));
    rig.put(&policy("a", ""));
    rig.put(&policy("c", "  priority: -1"));
    assert_eq!(patches(&rig), ["c", "a", "b"]);
    rig.put(&policy("a", "  priority: 7"));
    assert_eq!(patches(&rig), ["c", "b", "a"]);
}

#[test]
fn a_policy_is_programmed_once_somebody_has_applied_it() {
    let mut rig = Rig::new(GATEWAY);
    rig.put(&policy("a", ""));
    rig.put(&policy("b", ""));
    assert_eq!(said(&rig, "a"), ["Accepted Accepted"]);
    tell(&mut rig, Some(Vec::new()));
    assert_eq!(said(&rig, "a"), ["Accepted Accepted", "Programmed Programmed"]);
    let failure = PatchFailure {
        origin: rig.fleet().patches[1].origin.clone(),
        index: 0,
        problem: PatchProblem::NotFound("x".into()),
    };
    tell(&mut rig, Some(vec![failure]));
    assert_eq!(said(&rig, "a"), ["Accepted Accepted", "Programmed Programmed"]);
    assert_eq!(said(&rig, "b"), ["Accepted Accepted", "Programmed ResourceNotFound"]);
    tell(&mut rig, None);
    assert_eq!(said(&rig, "b"), ["Accepted Accepted"]);
}

#[test]
fn nothing_is_patched_where_the_kind_is_switched_off() {
    let mut rig = Rig::new(GATEWAY);
    rig.put(&policy("a", ""));
    rig.translator.set_settings(Settings {
        patch_api: Feature::Disabled,
        ..Settings::default()
    });
    rig.translate();
    assert_eq!(said(&rig, "a"), ["Accepted Disabled"]);
    assert_eq!(patches(&rig), [""; 0]);
}
