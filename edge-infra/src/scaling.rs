//! The autoscaler and the disruption budget of a fleet, where an EdgeProxy asks for them.

use crate::{
    Object, ObjectKind,
    metadata::{name, object},
};
use edge_ir::{Infra, StringMap};
use serde_json::{Value, json};

/// The load of the cpu, in percent of what is requested, that an autoscaler aims at.
const CPU_PERCENT: u32 = 80;

pub(crate) fn autoscaler(infra: &Infra) -> Option<Object> {
    let settings = infra.proxy.cluster.autoscaler.as_ref()?;
    let cpu = || {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_PERCENT});
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
    };
    let mut spec = json!({
        "scaleTargetRef": {
            "apiVersion": ObjectKind::Deployment.api_version(),
            "kind": ObjectKind::Deployment.as_str(),
            "name": name(infra, ObjectKind::Deployment),
        },
        "maxReplicas": settings.max_replicas,
        "metrics": if settings.metrics.is_empty() { cpu() } else { json!(settings.metrics) },
    });
    if let Some(least) = settings.min_replicas {
        spec["minReplicas"] = least.into();
    }
    if let Some(behavior) = &settings.behavior {
        spec["behavior"] = behavior.clone();
    }
    let none = StringMap::new();
    Some(object(
        infra,
        ObjectKind::Autoscaler,
        (&none, &none),
        json!({"spec": spec}),
    ))
}

pub(crate) fn budget(infra: &Infra) -> Option<Object> {
    let settings = infra.proxy.cluster.budget.as_ref()?;
    let mut spec = json!({"selector": {"matchLabels": infra.labels}});
    match (&settings.min_available, &settings.max_unavailable) {
        (None, None) => spec["minAvailable"] = Value::from(1),
        (Some(least), _) => spec["minAvailable"] = least.clone(),
        (None, Some(most)) => spec["maxUnavailable"] = most.clone(),
    }
    let none = StringMap::new();
    Some(object(infra, ObjectKind::Budget, (&none, &none), json!({"spec": spec})))
}
