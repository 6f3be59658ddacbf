//! How an object takes another's place without a moment in which fewer serve.

use super::{
    seen::{ObjectId, ObservedObject, View},
    write::id,
};
use crate::cluster::objects::WORKLOADS;
use edge_infra::{Object, ObjectKind};
use serde_json::Value;
use std::sync::Arc;

fn runs_pods(kind: ObjectKind) -> bool {
    WORKLOADS.contains(&kind)
}

/// Whether an object that isn't wanted any more is needed until what is wanted has taken its place: a workload that
/// serves, the ServiceAccount that pods may run with, and, where a fleet moves to another namespace, what stands beside
/// such a workload: without the Service nobody would reach its pods.
pub(super) fn is_needed(old: &ObjectId, seen: &ObservedObject, wanted: &[Object], view: &View) -> bool {
    let Some(successor) = wanted.iter().find(|object| runs_pods(object.kind)) else {
        return false;
    };
    match old.kind {
        ObjectKind::ServiceAccount => is_in_use(old, view),
        kind if runs_pods(kind) => serves_alone(kind, seen, successor, view),
        _ => old.namespace != successor.namespace && workloads(&old.namespace, view).next().is_some(),
    }
}

/// Whether a workload serves, and its successor has fewer pods that do.
fn serves_alone(kind: ObjectKind, seen: &ObservedObject, successor: &Object, view: &View) -> bool {
    let serving = seen.pods(kind).1;
    let pods = view.get(&id(successor));
    let (aims_at, available) = pods.map_or((0, 0), |seen| seen.pods(successor.kind));
    serving > 0 && available < serving.min(aims_at).max(1)
}

/// Whether pods may run with an account: their tokens are worth nothing without it.
fn is_in_use(account: &ObjectId, view: &View) -> bool {
    workloads(&account.namespace, view)
        .any(|(id, seen)| seen.account() == Some(&*account.name) || seen.is_rolling(id.kind))
}

/// Workloads of a namespace, those that leave among them.
fn workloads<'v>(namespace: &str, view: &'v View) -> impl Iterator<Item = (&'v ObjectId, &'v Arc<ObservedObject>)> {
    view.iter()
        .filter(move |(id, _)| &*id.namespace == namespace && runs_pods(id.kind))
}

/// Whether an object is wanted that the one that is there can't be turned into: an API server refuses to change some
/// fields of a Service for as long as it lives.
pub(super) fn must_be_remade(existing: &ObservedObject, wanted: &Object) -> bool {
    if wanted.kind != ObjectKind::Service {
        return false;
    }
    let (now, then) = (&existing.object["spec"], &wanted.body["spec"]);
    let turns =
        |field: &str| matches!((now.pointer(field), then.pointer(field)), (Some(now), Some(then)) if now != then);
    // The proxies answer to the other family already, so the addresses of the first are worth nothing.
    let turns_family = turns("/ipFamilies/0");
    let turns_address = turns("/clusterIP") || turns("/clusterIPs/0") || is_headless(now) != is_headless(then);
    turns_family || turns_address || turns_balancer(existing, wanted)
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIP"] == "None"
}

/// Whether another load balancer is to be in charge of a Service. What somebody else has said of that is theirs to say.
fn turns_balancer(existing: &ObservedObject, wanted: &Object) -> bool {
    let (now, then) = (&existing.object["spec"], &wanted.body["spec"]);
    let is_balanced = [now, then].iter().all(|spec| spec["type"] == "LoadBalancer");
    let class = |spec: &Value| spec["loadBalancerClass"].as_str().map(str::to_owned);
    let is_other = match (class(now), class(then)) {
        (Some(_), None) => existing.class_is_ours(),
        (now, then) => now != then,
    };
    is_balanced && is_other
}

/// Whether what an API server would make of a probe is another Service than the one that is there, in what it never
/// changes of one. Each has an address of its own, so that counts only where one is asked for and given.
pub(super) fn is_another(existing: &ObservedObject, made: &ObservedObject, probe: &Value) -> bool {
    let [now, then] = [existing, made].map(|seen| &seen.object["spec"]);
    let differs = |field: &str| now.pointer(field) != then.pointer(field);
    let wish = &probe["spec"]["clusterIP"];
    let is_given = wish.is_string() && then["clusterIP"] == *wish;
    differs("/ipFamilies/0")
        || differs("/loadBalancerClass")
        || is_headless(now) != is_headless(then)
        || (is_given && differs("/clusterIP"))
}

/// What is wanted of a Service that stays what it is, since the next would be no other one: all that can be changed.
pub(super) fn kept(existing: &ObservedObject, wanted: &Object) -> Object {
    let (now, mut kept) = (&existing.object["spec"], wanted.clone());
    let Some(spec) = kept.body["spec"].as_object_mut() else {
        return kept;
    };
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "loadBalancerClass"] {
        let is_ours = spec.remove(field).is_some() || (field == "loadBalancerClass" && existing.class_is_ours());
        if let Some(value) = now.get(field).filter(|_| is_ours) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    kept
}

/// What names of probes begin with; an API server makes up the rest.
const PROBE: &str = "edge-probe-";

/// What an API server says of a probe, as said of the object that is wanted: the same each time.
pub(super) fn said_of_wanted(text: &str, name: &str) -> String {
    let mut parts = text.split(PROBE);
    let start = parts.next().unwrap_or_default().to_owned();
    parts.fold(start, |said, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
        said + name + rest
    })
}

/// A Service like the one that is wanted, under a name that nobody has: an API server that would take this one takes
/// that one in the place of the one that is there. What the two have in common, and only one at a time can have, is
/// left out.
pub(super) fn probe(existing: &ObservedObject, wanted: &Object) -> Value {
    let mut probe = wanted.body.clone();
    let taken = |pointer: &str| existing.object.pointer(pointer).cloned().unwrap_or_default();
    let (addresses, health) = (taken("/spec/clusterIPs"), taken("/spec/healthCheckNodePort"));
    let ports = taken("/spec/ports");
    let node_ports: Vec<&Value> = ports
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| &port["nodePort"])
        .collect();
    if let Some(metadata) = probe["metadata"].as_object_mut() {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), PROBE.into());
    }
    let Some(spec) = probe["spec"].as_object_mut() else {
        return probe;
    };
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if node_ports.contains(&&port["nodePort"])
            && let Some(port) = port.as_object_mut()
        {
            port.remove("nodePort");
        }
    }
    if spec.get("healthCheckNodePort") == Some(&health) {
        spec.remove("healthCheckNodePort");
    }
    let is_taken = |address: &Value| address != "None" && addresses.as_array().is_some_and(|all| all.contains(address));
    if spec.get("clusterIP").is_some_and(is_taken) {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    } else if let Some(Value::Array(all)) = spec.get_mut("clusterIPs") {
        // The first is what it is about; the others come by themselves.
        all.truncate(1);
    }
    probe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::FIELD_MANAGER;
    use serde_json::json;

    fn object(kind: ObjectKind, spec: Value) -> Object {
        Object {
            kind,
            namespace: "ns".into(),
            name: "n".into(),
            body: json!({"spec": spec}),
        }
    }

    fn seen(kind: ObjectKind, content: Value) -> (ObjectId, Arc<ObservedObject>) {
        let mut object = json!({"metadata": {"name": "n", "namespace": "ns"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(content.as_object().unwrap().clone());
        let object = serde_json::from_value(object).unwrap();
        (ObjectId::of(kind, &object), Arc::new(ObservedObject::new(kind, object)))
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
    fn what_leads_to_pods_in_another_namespace_stays_until_they_have_gone() {
        let status = json!({"status": {"availableReplicas": 1}});
        let (service, old) = seen(ObjectKind::Service, json!({}));
        let pods = seen(ObjectKind::Deployment, status);
        let view = View::from([(service.clone(), Arc::clone(&old)), pods]);
        let elsewhere = Object {
            namespace: "gateways".into(),
            ..object(ObjectKind::Deployment, json!({}))
        };
        assert!(is_needed(&service, &old, std::slice::from_ref(&elsewhere), &view));
        assert!(
            !is_needed(&service, &old, &[elsewhere], &View::new()),
            "no pods are left"
        );
        let here = object(ObjectKind::Deployment, json!({}));
        assert!(!is_needed(&service, &old, &[here], &view), "another one leads to them");
        assert!(!is_needed(&service, &old, &[], &view), "nothing is wanted");
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
            let moved = ObjectId {
                namespace: "left".into(),
                ..account.clone()
            };
            assert!(!is_needed(&moved, &old, &wanted, &view), "these pods are elsewhere");
            assert!(!is_needed(&account, &old, &[], &view), "nothing is wanted");
        }
    }

    #[test]
    fn a_service_is_remade_for_what_no_api_server_changes() {
        let balanced = |class: Option<&str>| json!({"type": "LoadBalancer", "loadBalancerClass": class});
        let by_us = json!({"managedFields": [{
            "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:loadBalancerClass": {}}},
        }]});
        let by_nobody = json!({});
        for (metadata, existing, wanted, is_remade) in [
            (
                &by_nobody,
                json!({"ipFamilies": ["IPv4"]}),
                json!({"ipFamilies": ["IPv6"]}),
                true,
            ),
            (
                &by_nobody,
                json!({"ipFamilies": ["IPv4"]}),
                json!({"ipFamilies": ["IPv4", "IPv6"]}),
                false,
            ),
            // Nobody knows its family.
            (&by_nobody, json!({}), json!({"ipFamilies": ["IPv6"]}), false),
            (
                &by_nobody,
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "10.0.0.2"}),
                true,
            ),
            (
                &by_nobody,
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "10.0.0.1"}),
                false,
            ),
            (
                &by_nobody,
                json!({"clusterIP": "10.0.0.1"}),
                json!({"type": "NodePort"}),
                false,
            ),
            (
                &by_nobody,
                json!({"clusterIP": "None"}),
                json!({"type": "NodePort"}),
                true,
            ),
            (
                &by_nobody,
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "None"}),
                true,
            ),
            (&by_nobody, balanced(Some("a")), balanced(Some("b")), true),
            (&by_nobody, balanced(None), balanced(Some("b")), true),
            (&by_us, balanced(Some("a")), balanced(None), true),
            // Somebody else's webhook has put it there.
            (&by_nobody, balanced(Some("a")), balanced(None), false),
            (&by_nobody, json!({"type": "ClusterIP"}), balanced(Some("b")), false),
        ] {
            let (_, seen) = seen(ObjectKind::Service, json!({"metadata": metadata, "spec": existing}));
            let wanted = object(ObjectKind::Service, wanted);
            assert_eq!(must_be_remade(&seen, &wanted), is_remade, "{existing} {}", wanted.body);
        }
    }

    #[test]
    fn a_service_stays_where_the_next_would_be_no_other_one() {
        let service = |spec: Value| seen(ObjectKind::Service, json!({"spec": spec})).1;
        let balanced = |family: &str, class: &str| json!({"ipFamilies": [family], "loadBalancerClass": class});
        for (existing, asked, made, is_other, why) in [
            (
                balanced("IPv4", "a"),
                json!({}),
                balanced("IPv4", "a"),
                false,
                "a webhook gives each this class",
            ),
            (
                balanced("IPv4", "a"),
                balanced("IPv6", "b"),
                balanced("IPv6", "a"),
                true,
                "it has the family at least",
            ),
            (
                balanced("IPv6", "a"),
                balanced("IPv6", "b"),
                balanced("IPv6", "a"),
                false,
                "and no more than that",
            ),
            (
                balanced("IPv4", "a"),
                balanced("IPv4", "b"),
                balanced("IPv4", "c"),
                true,
                "it settles at that",
            ),
            (
                json!({"clusterIP": "10.0.0.1"}),
                json!({}),
                json!({"clusterIP": "10.0.0.2"}),
                false,
                "nobody asks for one",
            ),
            (
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "10.0.0.3"}),
                json!({"clusterIP": "10.0.0.3"}),
                true,
                "this one is asked for",
            ),
            (
                json!({"clusterIP": "10.0.0.1"}),
                json!({"clusterIP": "None"}),
                json!({"clusterIP": "None"}),
                true,
                "it is to have none",
            ),
            (
                json!({"clusterIP": "None"}),
                json!({}),
                json!({"clusterIP": "None"}),
                false,
                "all are headless here",
            ),
        ] {
            let (existing, made) = (service(existing), service(made));
            assert_eq!(is_another(&existing, &made, &json!({"spec": asked})), is_other, "{why}");
        }
    }

    #[test]
    fn what_stays_for_what_it_is_is_not_asked_to_be_another() {
        let existing = json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "loadBalancerClass": "a"});
        let (_, there) = seen(ObjectKind::Service, json!({"spec": existing}));
        let kept = |spec: Value| super::kept(&there, &object(ObjectKind::Service, spec)).body["spec"].clone();
        assert_eq!(
            kept(json!({"ipFamilies": ["IPv6", "IPv4"], "loadBalancerClass": "b", "ports": [{"port": 81}]})),
            json!({"ipFamilies": ["IPv4"], "loadBalancerClass": "a", "ports": [{"port": 81}]})
        );
        assert_eq!(kept(json!({"clusterIP": "None"})), json!({"clusterIP": "10.0.0.1"}));
        assert_eq!(
            kept(json!({"ports": []})),
            json!({"ports": []}),
            "what others have said is theirs"
        );
        let by_us = json!({"managedFields": [{
            "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:loadBalancerClass": {}}},
        }]});
        let (_, ours) = seen(
            ObjectKind::Service,
            json!({"metadata": by_us, "spec": {"loadBalancerClass": "a"}}),
        );
        let kept = super::kept(&ours, &object(ObjectKind::Service, json!({"ports": []}))).body;
        assert_eq!(
            kept["spec"],
            json!({"loadBalancerClass": "a", "ports": []}),
            "it can't be taken back"
        );
    }

    #[test]
    fn what_the_running_service_has_is_not_asked_for_once_more_to_see_whether_it_is_granted() {
        let existing = json!({"clusterIPs": ["10.0.0.1", "fd00::1"], "healthCheckNodePort": 30010, "ports": [{"nodePort": 30001}]});
        let (_, seen) = seen(ObjectKind::Service, json!({"spec": existing}));
        let wanted = |spec: Value| {
            let mut wanted = object(ObjectKind::Service, spec);
            wanted.body["metadata"] = json!({"name": "n", "labels": {"a": "b"}});
            probe(&seen, &wanted)
        };
        let ports = json!([{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30002}]);
        let asked = wanted(json!({
            "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2", "fd00::1"], "healthCheckNodePort": 30010, "ports": ports,
        }));
        let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30002}]);
        assert_eq!(
            asked["metadata"],
            json!({"generateName": "edge-probe-", "labels": {"a": "b"}})
        );
        assert_eq!(
            asked["spec"],
            json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": ports})
        );
        let same = wanted(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "loadBalancerClass": "b"}));
        assert_eq!(same["spec"], json!({"loadBalancerClass": "b"}));
        let headless = wanted(json!({"clusterIP": "None", "clusterIPs": ["None"]}));
        assert_eq!(headless["spec"], json!({"clusterIP": "None", "clusterIPs": ["None"]}));
    }
}
