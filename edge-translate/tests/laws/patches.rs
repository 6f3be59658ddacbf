//! Policies that patch what proxies are sent, in histories of their own: in the worlds of all laws they would make
//! every world another.

use crate::{
    history::{Edit, edit},
    words::{CLASSES, GATEWAYS, NAMESPACES, maybe, metadata, one_of, read},
};
use edge_translate::api::{Kind, ObjectKey};
use proptest::{prelude::*, sample};
use serde_json::{Value, json};

/// An edit, most of the time of patches.
pub(crate) fn patching() -> impl Strategy<Value = Edit> {
    let key = (sample::select(NAMESPACES), sample::select(&["x0", "x1"]));
    prop_oneof![
        3 => patch_policy().prop_map(|policy| Edit::Put(read(policy))),
        1 => key.prop_map(|(ns, name)| Edit::Remove(ObjectKey::new(Kind::EdgePatchPolicy, ns, name))),
        2 => edit(),
    ]
}

/// Patches of what proxies are sent. What they do to it is no matter of translation.
fn patch_policy() -> impl Strategy<Value = Value> {
    const GROUP: &str = "gateway.networking.k8s.io";
    let target = prop_oneof![
        4 => one_of(GATEWAYS).prop_map(|name| json!({"group": GROUP, "kind": "Gateway", "name": name})),
        2 => one_of(CLASSES).prop_map(|name| json!({"group": GROUP, "kind": "GatewayClass", "name": name})),
        1 => one_of(GATEWAYS).prop_map(|name| json!({"group": GROUP, "kind": "HTTPRoute", "name": name})),
    ];
    (metadata(&["x0", "x1"]), target, maybe(&["a", "b"]), 0..3_i32).prop_map(|(metadata, target, value, priority)| {
        let operation = json!({"op": "add", "path": "/stat_prefix", "value": value});
        json!({"apiVersion": "gateway.edge/v1alpha1", "kind": "EdgePatchPolicy", "metadata": metadata, "spec": {
            "type": "JSONPatch", "targetRef": target, "priority": priority, "jsonPatches": [
                {"type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "tcp-80", "operation": operation},
            ],
        }})
    })
}
