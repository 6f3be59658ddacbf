//! What the controller's own settings decide.

use crate::rig::{GATEWAY, Rig, redirect};
use edge_translate::{Settings, api::Kind, config::EdgeGateway, status::Truth};

const LIMITED: &str = "
apiVersion: gateway.edge/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: limited}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}]
  rateLimit: {global: {rules: [{limit: {requests: 1, unit: Hour}}]}}
";

#[test]
fn limits_of_all_proxies_need_a_service() {
    let without = Settings::of(&EdgeGateway::default(), None);
    let mut rig = Rig::with(without, &[GATEWAY, &redirect("route"), LIMITED].join("---"));
    let accepted = |rig: &Rig| {
        rig.condition(Kind::BackendTrafficPolicy, "limited", "Accepted")
            .unwrap()
    };
    let refused = accepted(&rig);
    assert_eq!(refused.status, Truth::False);
    let why = "set rateLimit in the EdgeGateway configuration";
    assert!(refused.message.contains(why), "{refused:?}");
    rig.translator.set_settings(Settings::default());
    rig.translate();
    assert_eq!(accepted(&rig).status, Truth::True);
}
