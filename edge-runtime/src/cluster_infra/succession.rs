//! How an object takes another's place without a moment in which fewer serve.

use super::{
    seen::{ObjectId, Seen, View},
    write::id,
};
use edge_infra::{Object, ObjectKind};
use serde_json::Value;

/// Kinds of objects that run pods.
pub(super) const WORKLOADS: [ObjectKind; 2] = [ObjectKind::Deployment, ObjectKind::DaemonSet];

/// Whether a workload that isn't wanted any more still serves while the wanted one can't take its place.
pub(super) fn is_needed(old: &ObjectId, seen: &Seen, wanted: &[Object], view: &View) -> bool {
    let serving = seen.pods(old.kind).1;
    let runs_pods = |kind: ObjectKind| WORKLOADS.contains(&kind);
    let Some(successor) = wanted.iter().find(|object| runs_pods(object.kind)) else {
        return false;
    };
    let pods = view.get(&id(successor));
    let (aims_at, available) = pods.map_or((0, 0), |seen| seen.pods(successor.kind));
    runs_pods(old.kind) && serving > 0 && available < serving.min(aims_at).max(1)
}

/// Whether an object is wanted that the one that is there can't be turned into: a Service keeps its first family for
/// life. The proxies answer to the other family already, so its addresses are worth nothing.
pub(super) fn must_be_remade(existing: &Value, wanted: &Object) -> bool {
    let family = |object: &Value| object.pointer("/spec/ipFamilies/0").cloned();
    let families = (family(existing), family(&wanted.body));
    wanted.kind == ObjectKind::Service && matches!(families, (Some(existing), Some(wanted)) if existing != wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn object(kind: ObjectKind, spec: Value) -> Object {
        Object {
            kind,
            namespace: "ns".into(),
            name: "n".into(),
            body: json!({"spec": spec}),
        }
    }

    fn seen(kind: ObjectKind, content: Value) -> (ObjectId, Arc<Seen>) {
        let mut object = json!({"metadata": {"name": "n", "namespace": "ns"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(content.as_object().unwrap().clone());
        let object = serde_json::from_value(object).unwrap();
        (ObjectId::of(kind, &object), Arc::new(Seen::new(kind, object)))
    }

    #[test]
    fn a_workload_stays_until_its_successor_has_as_many_pods_as_it_is_to_have() {
        let deployment = |serving: u32| {
            seen(
                ObjectKind::Deployment,
                json!({"spec": {"replicas": 2}, "status": {"availableReplicas": serving}}),
            )
        };
        let daemons = |aims_at: u32, available: u32| {
            let status = json!({"desiredNumberScheduled": aims_at, "numberAvailable": available});
            seen(ObjectKind::DaemonSet, json!({"status": status}))
        };
        let wanted = [object(ObjectKind::DaemonSet, json!({}))];
        for (serving, successor, is_kept) in [
            (2, None, true),
            (2, Some((0, 0)), true),
            (2, Some((3, 1)), true),
            (2, Some((3, 2)), false),
            (2, Some((1, 1)), false),
            (0, Some((1, 0)), false),
        ] {
            let (id, old) = deployment(serving);
            let mut view = View::from([(id.clone(), Arc::clone(&old))]);
            view.extend(successor.map(|(aims_at, available)| daemons(aims_at, available)));
            assert_eq!(is_needed(&id, &old, &wanted, &view), is_kept, "{serving} {successor:?}");
            assert!(!is_needed(&id, &old, &[], &view), "nothing is wanted");
        }
        let (id, service) = seen(ObjectKind::Service, json!({}));
        assert!(!is_needed(&id, &service, &wanted, &View::new()));
    }

    #[test]
    fn a_service_is_remade_for_another_first_family_only() {
        let service = |families: Value| object(ObjectKind::Service, json!({"ipFamilies": families}));
        let existing = json!({"spec": {"ipFamilies": ["IPv4"]}});
        assert!(must_be_remade(&existing, &service(json!(["IPv6"]))));
        assert!(!must_be_remade(&existing, &service(json!(["IPv4", "IPv6"]))));
        assert!(
            !must_be_remade(&json!({}), &service(json!(["IPv6"]))),
            "nobody knows its family"
        );
    }
}
