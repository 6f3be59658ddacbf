//! Names, labels, annotations and owners of objects.

use crate::{Installation, Object, ObjectKind};
use edge_ir::{ClusterSettings, Infra, StringMap, WorkloadKind, label};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The name of the object of a kind: generated, unless the EdgeProxy gives one.
pub fn name(infra: &Infra, kind: ObjectKind) -> Arc<str> {
    let settings = &infra.proxy.cluster;
    let given = match kind {
        ObjectKind::ServiceAccount => settings.account_name.as_ref(),
        ObjectKind::ConfigMap => None,
        ObjectKind::Service => settings.service.name.as_ref(),
        ObjectKind::Deployment | ObjectKind::DaemonSet => settings.workload.name.as_ref(),
        ObjectKind::Autoscaler => settings.autoscaler.as_ref().and_then(|a| a.name.as_ref()),
        ObjectKind::Budget => settings.budget.as_ref().and_then(|b| b.name.as_ref()),
    };
    Arc::clone(given.unwrap_or(&infra.name))
}

/// The kind of a fleet's workload.
pub(crate) fn workload_kind(settings: &ClusterSettings) -> ObjectKind {
    match settings.workload.kind {
        WorkloadKind::Deployment => ObjectKind::Deployment,
        WorkloadKind::DaemonSet => ObjectKind::DaemonSet,
    }
}

/// An object with what every object of a fleet carries. Labels and annotations are those of this kind alone; those that
/// the Gateway asks for are added, and those that tell the fleet's objects from others win.
pub(crate) fn object(infra: &Infra, kind: ObjectKind, own: (&StringMap, &StringMap), content: Value) -> Object {
    let name = name(infra, kind);
    let mut metadata = json!({
        "name": name,
        "namespace": infra.namespace,
        "labels": labels(infra, own.0),
    });
    let annotations = merged([&infra.annotations, own.1]);
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    // Others may use an account that an EdgeProxy names, or have made it: it must not go with one of them.
    let is_shared = kind == ObjectKind::ServiceAccount && infra.proxy.cluster.account_name.is_some();
    if let Some(owner) = infra.owner.as_ref().filter(|_| !is_shared) {
        metadata["ownerReferences"] = json!([owner]);
    }
    let mut body = json!({"apiVersion": kind.api_version(), "kind": kind.as_str(), "metadata": metadata});
    if let (Value::Object(body), Value::Object(content)) = (&mut body, content) {
        body.extend(content);
    }
    Object {
        kind,
        namespace: Arc::clone(&infra.namespace),
        name,
        body,
    }
}

/// What a GatewayClass owns, with the controller as a second owner. A class that is deleted stays while it has Gateways
/// (`gateway-exists-finalizer`), but where it is deleted with its dependents first, the cluster's garbage collector
/// takes these at once, whatever holds the class; unless they have another owner that stays ("Foreground cascading
/// deletion"). Once the controller is uninstalled, the class is their only owner, and they go with it. Where the
/// controller is no Deployment, nothing would keep them, so nothing owns them.
pub(crate) fn guard(mut object: Object, installation: &Installation) -> Object {
    let Some(metadata) = object.body["metadata"].as_object_mut() else {
        return object;
    };
    let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
    if let Some(owners) = owners.filter(|owners| owners.iter().any(|owner| owner["kind"] == "GatewayClass")) {
        match &installation.controller {
            Some(controller) => owners.push(json!(controller)),
            None => drop(metadata.remove("ownerReferences")),
        }
    }
    object
}

/// Labels: the object's own, those that the Gateway asks for, and last those that tell fleets from each other. These
/// are nobody else's to set, not even one that this fleet hasn't got: its pods would answer for a fleet that has.
pub(crate) fn labels(infra: &Infra, own: &StringMap) -> Map<String, Value> {
    let mut labels = merged([&infra.extra_labels, own]);
    labels.retain(|label, _| !label::ALL.contains(&label.as_str()));
    labels.extend(merged([&infra.labels]));
    labels
}

/// The later wins.
pub(crate) fn merged<'a>(maps: impl IntoIterator<Item = &'a StringMap>) -> Map<String, Value> {
    maps.into_iter()
        .flatten()
        .map(|(key, value)| (key.to_string(), Value::from(&**value)))
        .collect()
}
