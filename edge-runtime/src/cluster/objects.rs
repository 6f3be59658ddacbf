//! Objects of fleets as the API has them: how their kinds are called, whose one is, and with which account a workload
//! runs.

use edge_infra::{CONTROLLER, FLEET, ObjectKind};
use edge_ir::FleetKey;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

/// Kinds of objects that run pods.
pub(crate) const WORKLOADS: [ObjectKind; 2] = [ObjectKind::Deployment, ObjectKind::DaemonSet];

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) controller: Option<String>,
    pub(crate) fleet: Option<FleetKey>,
}

/// How the API names a kind.
pub(crate) fn resource(kind: ObjectKind) -> ApiResource {
    ApiResource {
        group: kind.group().to_owned(),
        version: kind.version().to_owned(),
        api_version: kind.api_version(),
        kind: kind.as_str().to_owned(),
        plural: format!("{}s", kind.as_str().to_lowercase()),
    }
}

/// Whose an object says it is.
pub(crate) fn marks(object: &DynamicObject) -> Marks {
    let annotation = |name: &str| object.metadata.annotations.as_ref()?.get(name).cloned();
    Marks {
        controller: annotation(CONTROLLER),
        fleet: annotation(FLEET).map(|key| key.as_str().into()),
    }
}

/// The ServiceAccount that a workload names.
pub(crate) fn account(workload: &Value) -> Option<&str> {
    let account = workload.pointer("/spec/template/spec/serviceAccountName");
    account.and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_the_api() {
        let plurals = ObjectKind::ALL.map(|kind| resource(kind).plural);
        assert_eq!(
            plurals,
            [
                "serviceaccounts",
                "configmaps",
                "services",
                "deployments",
                "daemonsets",
                "horizontalpodautoscalers",
                "poddisruptionbudgets"
            ]
        );
    }
}
