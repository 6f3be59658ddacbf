//! How an object takes another's place without a moment in which fewer serve.

use super::{
    seen::{ObjectId, Seen, View},
    write::id,
};
use edge_infra::{Object, ObjectKind};
use serde_json::Value;

/// Kinds of objects that run pods.
pub(super) const WORKLOADS: [ObjectKind; 2] = [ObjectKind::Deployment, ObjectKind::DaemonSet];

fn runs_pods(kind: ObjectKind) -> bool {
    WORKLOADS.contains(&kind)
}

/// Whether an object that isn't wanted any more is needed until what is wanted has taken its place: a workload that serves,
/// or the ServiceAccount that pods may run with.
pub(super) fn is_needed(old: &ObjectId, seen: &Seen, wanted: &[Object], view: &View) -> bool {
    let serving = seen.pods(old.kind).1;
    let Some(successor) = wanted.iter().find(|object| runs_pods(object.kind)) else {
        return false;
    };
    if old.kind == ObjectKind::ServiceAccount {
        return is_in_use(&old.name, view);
    }
    let pods = view.get(&id(successor));
    let (aims_at, available) = pods.map_or((0, 0), |seen| seen.pods(successor.kind));
    runs_pods(old.kind) && serving > 0 && available < serving.min(aims_at).max(1)
}

/// Whether pods may run with an account: their tokens are worth nothing without it.
fn is_in_use(account: &str, view: &View) -> bool {
    let mut workloads = view.iter().filter(|(id, _)| runs_pods(id.kind));
    workloads.any(|(id, seen)| seen.account() == Some(account) || seen.is_rolling(id.kind))
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
    fn an_account_stays_until_no_pod_may_run_with_it() {
        let (account, old) = seen(
            ObjectKind::ServiceAccount,
            json!({"metadata": {"name": "old", "namespace": "ns"}}),
        );
        let workload = |account: &str, generation: i64, status: Value| {
            json!({
                "metadata": {"name": "n", "namespace": "ns", "generation": generation},
                "spec": {"template": {"spec": {"serviceAccountName": account}}},
                "status": status,
            })
        };
        let deployed = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2});
        let halfway = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1});
        let daemons = json!({"observedGeneration": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 1});
        let all_daemons = json!({"observedGeneration": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2});
        let wanted = [object(ObjectKind::Deployment, json!({}))];
        for (kind, workload, is_kept, why) in [
            (
                ObjectKind::Deployment,
                workload("old", 2, deployed.clone()),
                true,
                "the new template isn't seen yet",
            ),
            (
                ObjectKind::Deployment,
                workload("new", 3, deployed.clone()),
                true,
                "nobody has begun to replace pods",
            ),
            (
                ObjectKind::Deployment,
                workload("new", 2, halfway),
                true,
                "pods are being replaced",
            ),
            (
                ObjectKind::Deployment,
                workload("new", 2, deployed),
                false,
                "all are replaced",
            ),
            (
                ObjectKind::DaemonSet,
                workload("new", 2, daemons),
                true,
                "one is replaced",
            ),
            (
                ObjectKind::DaemonSet,
                workload("new", 2, all_daemons),
                false,
                "all daemons are replaced",
            ),
        ] {
            let view = View::from([(account.clone(), Arc::clone(&old)), seen(kind, workload)]);
            assert_eq!(is_needed(&account, &old, &wanted, &view), is_kept, "{why}");
            assert!(!is_needed(&account, &old, &[], &view), "nothing is wanted");
        }
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
