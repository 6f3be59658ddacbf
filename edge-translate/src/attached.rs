//! What an object says that it is for.

pub(crate) use crate::world::is_policy_for;

use crate::{
    api::{Kind, Object},
    world::written,
};

/// Whether an object says that it is attached to another: a policy that names or chooses it, or a route or ListenerSet
/// that names it as its parent. Whether it may be is another question.
pub(crate) fn is_attached_to(object: &Object, other: &Object) -> bool {
    is_policy_for(object, other) || is_child_of(object, other)
}

/// Whether an object is a policy that names or chooses what it is for. A BackendTLSPolicy is none: how a backend is
/// spoken to keeps nobody away.
pub(crate) fn is_policy(object: &Object) -> bool {
    written(object).is_some()
}

fn is_child_of(object: &Object, other: &Object) -> bool {
    let parents = match object {
        Object::HttpRoute(route) => &*route.spec.parent_refs,
        Object::GrpcRoute(route) => &*route.spec.parent_refs,
        Object::TlsRoute(route) => &*route.spec.parent_refs,
        Object::TcpRoute(route) => &*route.spec.parent_refs,
        Object::UdpRoute(route) => &*route.spec.parent_refs,
        _ => &[],
    };
    let (home, metadata) = (&object.metadata().namespace, other.metadata());
    let is_it = |group: &str, kind: &str, namespace: Option<&str>, name: &str| {
        Kind::of(group, kind) == Some(other.kind())
            && (namespace.unwrap_or(home), name) == (&*metadata.namespace, &*metadata.name)
    };
    let of_set = match object {
        Object::ListenerSet(set) => Some(&set.spec.parent_ref),
        _ => None,
    };
    let mut routes = parents.iter();
    routes.any(|parent| is_it(&parent.group, &parent.kind, parent.namespace.as_deref(), &parent.name))
        || of_set.is_some_and(|parent| is_it(&parent.group, &parent.kind, parent.namespace.as_deref(), &parent.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_value;
    use serde_json::{Value, json};

    const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

    fn object(version: &str, kind: &str, namespace: &str, spec: Value) -> Object {
        let metadata = json!({ "name": "n", "namespace": namespace, "labels": { "a": "b" } });
        let value = json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
        from_value(&value).unwrap().0
    }

    #[test]
    fn routes_belong_to_their_parents_and_policies_to_their_targets() {
        let route = |namespace, parent| object(GATEWAY_API, "HTTPRoute", namespace, json!({ "parentRefs": [parent] }));
        let policy = |spec| object("gateway.edge/v1alpha1", "SecurityPolicy", "a", spec);
        let gateway = object(
            GATEWAY_API,
            "Gateway",
            "a",
            json!({ "gatewayClassName": "c", "listeners": [] }),
        );
        assert!(is_attached_to(&route("a", json!({ "name": "n" })), &gateway));
        assert!(is_attached_to(
            &route("b", json!({ "name": "n", "namespace": "a" })),
            &gateway
        ));
        assert!(!is_attached_to(&route("b", json!({ "name": "n" })), &gateway));
        assert!(!is_attached_to(
            &route("a", json!({ "name": "n", "kind": "ListenerSet" })),
            &gateway
        ));
        let target = route("a", json!({ "name": "n" }));
        let elsewhere = route("b", json!({ "name": "n" }));
        let by_name = policy(json!({ "targetRefs": [{ "kind": "HTTPRoute", "name": "n" }] }));
        assert!(is_attached_to(&by_name, &target) && !is_attached_to(&by_name, &elsewhere));
        assert!(is_policy(&by_name) && !is_policy(&target) && !is_policy_for(&target, &gateway));
        assert!(!is_attached_to(&by_name, &gateway));
        let selector = |label: &str| json!({ "kind": "HTTPRoute", "matchLabels": { "a": label } });
        let by_label = |label| policy(json!({ "targetSelectors": [selector(label)] }));
        assert!(is_attached_to(&by_label("b"), &target) && !is_attached_to(&by_label("b"), &elsewhere));
        assert!(!is_attached_to(&by_label("c"), &target));
        let set = object(
            GATEWAY_API,
            "ListenerSet",
            "a",
            json!({ "parentRef": { "name": "n" }, "listeners": [] }),
        );
        assert!(is_attached_to(&set, &gateway) && !is_attached_to(&set, &target));
    }
}
