//! EdgePatchPolicies: whose patches a fleet carries, and what their status says once somebody has told what became of them.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use edge_ir::{PatchFailure, PatchProblem};
use edge_translate::{
    Change, Fact, Feature, Settings, Translation, Translator,
    api::{Kind, ObjectKey},
    load::{Limits, Source, load},
    status::{Condition, StatusBody},
};
use std::{collections::BTreeMap, sync::Arc};

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: edge
  listeners: [{name: a, protocol: HTTP, port: 80}]
";

fn policy(name: &str, rest: &str) -> String {
    format!(
        r"
apiVersion: gateway.edge/v1alpha1
kind: EdgePatchPolicy
metadata: {{name: {name}}}
spec:
  type: JSONPatch
  targetRef: {{group: gateway.networking.k8s.io, kind: Gateway, name: gw}}
  jsonPatches:
  - type: type.googleapis.com/envoy.config.listener.v3.Listener
    name: tcp-80
    operation: {{op: remove, path: /a}}
{rest}"
    )
}

struct Engine {
    translator: Translator,
    heard: BTreeMap<ObjectKey, Vec<Condition>>,
    last: Translation,
}

impl Engine {
    fn new() -> Self {
        let mut engine = Self {
            translator: Translator::new(Settings::default()),
            heard: BTreeMap::new(),
            last: Translation::default(),
        };
        engine.put(WORLD);
        engine
    }

    fn put(&mut self, text: &str) {
        let loaded = load(&Source { name: "world", text }, &Limits::default());
        assert_eq!(loaded.findings, []);
        for object in loaded.objects {
            self.translator.apply(Change::Put(object.object));
        }
        self.translate();
    }

    fn tell(&mut self, failures: Option<Vec<PatchFailure>>) {
        let fact = Fact::Patched("default/gw".into(), failures.map(Arc::new));
        self.translator.apply(Change::Fact(fact));
        self.translate();
    }

    fn translate(&mut self) {
        self.last = self.translator.translate();
        for (key, status) in &self.last.statuses {
            let conditions = match status.as_ref().map(|status| &status.body) {
                Some(StatusBody::Ancestors { ancestors, .. }) => ancestors[0].conditions.clone(),
                _ => Vec::new(),
            };
            self.heard.insert(key.clone(), conditions);
        }
    }

    /// The policies whose patches the fleet carries, in order.
    fn patches(&self) -> Vec<&str> {
        let patches = self.last.fleets["default/gw"].patches.iter();
        patches.map(|patch| &*patch.origin.name).collect()
    }

    /// Type and reason of each condition.
    fn said(&self, name: &str) -> Vec<(&str, &str)> {
        let key = ObjectKey::new(Kind::EdgePatchPolicy, "default", name);
        let conditions = self.heard[&key].iter();
        conditions
            .map(|condition| (condition.kind, &*condition.reason))
            .collect()
    }
}

#[test]
fn patches_apply_by_priority_age_and_name() {
    let mut engine = Engine::new();
    engine.put(&policy("b", ""));
    engine.put(&policy("a", ""));
    engine.put(&policy("c", "  priority: -1"));
    assert_eq!(engine.patches(), ["c", "a", "b"]);
    engine.put(&policy("a", "  priority: 7"));
    assert_eq!(engine.patches(), ["c", "b", "a"]);
}

#[test]
fn a_policy_is_programmed_once_somebody_has_applied_it() {
    let mut engine = Engine::new();
    engine.put(&policy("a", ""));
    engine.put(&policy("b", ""));
    assert_eq!(engine.said("a"), [("Accepted", "Accepted")]);
    engine.tell(Some(Vec::new()));
    assert_eq!(
        engine.said("a"),
        [("Accepted", "Accepted"), ("Programmed", "Programmed")]
    );
    let failure = PatchFailure {
        origin: engine.last.fleets["default/gw"].patches[1].origin.clone(),
        index: 0,
        problem: PatchProblem::NotFound("x".into()),
    };
    engine.tell(Some(vec![failure]));
    assert_eq!(
        engine.said("a"),
        [("Accepted", "Accepted"), ("Programmed", "Programmed")]
    );
    assert_eq!(
        engine.said("b"),
        [("Accepted", "Accepted"), ("Programmed", "ResourceNotFound")]
    );
    engine.tell(None);
    assert_eq!(engine.said("b"), [("Accepted", "Accepted")]);
}

#[test]
fn nothing_is_patched_where_the_kind_is_switched_off() {
    let mut engine = Engine::new();
    engine.put(&policy("a", ""));
    engine.translator.set_settings(Settings {
        patch_api: Feature::Disabled,
        ..Settings::default()
    });
    engine.translate();
    assert_eq!(engine.said("a"), [("Accepted", "Disabled")]);
    assert_eq!(engine.patches(), [""; 0]);
}
