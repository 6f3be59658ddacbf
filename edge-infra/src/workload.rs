//! The Deployment or DaemonSet of a fleet, or of the service of rate limits.

use crate::{
    Object, ObjectKind,
    metadata::{object, workload_kind},
};
use edge_ir::{Infra, StringMap};
use serde_json::{Value, json};

/// Of pods from this template.
pub(crate) fn workload(infra: &Infra, template: &Value) -> Object {
    let settings = &infra.proxy.cluster.workload;
    let kind = workload_kind(&infra.proxy.cluster);
    let mut spec = json!({
        "selector": {"matchLabels": infra.labels},
        "template": template,
        "revisionHistoryLimit": 10,
    });
    let rolling = || json!({"type": "RollingUpdate"});
    let strategy: Value = settings.strategy.clone().unwrap_or_else(rolling);
    if kind == ObjectKind::DaemonSet {
        spec["updateStrategy"] = strategy;
    } else {
        spec["strategy"] = strategy;
        spec["progressDeadlineSeconds"] = 600.into();
        // With an autoscaler the number is that one's business.
        if let (Some(replicas), None) = (settings.replicas, &infra.proxy.cluster.autoscaler) {
            spec["replicas"] = replicas.into();
        }
    }
    let none = StringMap::new();
    object(infra, kind, (&none, &none), json!({"spec": spec}))
}
