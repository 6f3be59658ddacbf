//! What the controller's own settings decide.

use crate::rig::{GATEWAY, Rig, redirect};
use edge_ir::Placement;
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

/// The EdgeProxy of the class is refused, and the fleets of its Gateways stay who they are.
#[test]
fn fleets_in_the_namespace_of_their_gateway_are_never_shared() {
    let class = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec:
  controllerName: gateway.edge/gatewayclass-controller
  parametersRef: {group: gateway.edge, kind: EdgeProxy, name: shared, namespace: default}
";
    let proxy = "
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: {name: shared}
spec: {mergeGateways: true}
";
    for (placement, fleet) in [(Placement::Gateway, "default/g"), (Placement::Controller, "edge")] {
        let settings = Settings {
            placement,
            ..Settings::default()
        };
        let mut rig = Rig::with(settings, GATEWAY);
        rig.put(&[class, proxy].join("---"));
        let fleets: Vec<&str> = rig.last.fleets.keys().map(|key| key.as_str()).collect();
        assert_eq!(fleets, [fleet]);
        assert_eq!(rig.last.infra.contains_key(fleet), placement == Placement::Controller);
    }
}
