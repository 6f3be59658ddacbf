//! Names of objects, and questions about what they say.

use serde_json::Value;
use std::fmt;

/// A kind in a version, as YAML names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

impl Kind {
    /// Of a group, unless the group is empty, and version.
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Self { api_version, kind }
    }

    /// Of Gateway API's version 1.
    pub fn gateway_api(kind: &str) -> Self {
        Self::new("gateway.networking.k8s.io/v1", kind)
    }

    /// Of our own group.
    pub fn edge(kind: &str) -> Self {
        Self::new("gateway.edge/v1alpha1", kind)
    }

    /// Of Kubernetes' core.
    pub fn core(kind: &str) -> Self {
        Self::new("v1", kind)
    }

    /// An object of this kind in a namespace.
    pub fn named(&self, namespace: &str, name: &str) -> Object {
        Object {
            namespace: Some(namespace.to_owned()),
            ..self.for_all(name)
        }
    }

    /// An object of this kind that belongs to no namespace.
    pub fn for_all(&self, name: &str) -> Object {
        Object {
            kind: self.clone(),
            namespace: None,
            name: name.to_owned(),
        }
    }
}

/// What tells an object from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Kind.
    pub kind: Kind,
    /// Namespace, unless the object belongs to the whole cluster.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl Object {
    /// Who this value is, if it is an object at all.
    pub fn of(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            kind: Kind {
                api_version: text(&value["apiVersion"])?,
                kind: text(&value["kind"])?,
            },
            namespace: text(&value["metadata"]["namespace"]),
            name: text(&value["metadata"]["name"])?,
        })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {namespace}{slash}{}", self.kind.kind, self.name)
    }
}

/// A condition of a route under a parent, by the name of the parent's controller; null when there is none.
pub fn on_parent<'a>(route: &'a Value, controller: &str, kind: &str) -> &'a Value {
    let parents = route["status"]["parents"].as_array();
    let ours = parents.and_then(|all| all.iter().find(|parent| parent["controllerName"] == controller));
    ours.map_or(&Value::Null, |parent| condition(&parent["conditions"], kind))
}

/// A condition in a list of them; null when there is none of that type.
pub fn condition<'a>(conditions: &'a Value, kind: &str) -> &'a Value {
    let found = conditions
        .as_array()
        .and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

/// Whether an object's own condition has a status and is about the object's present text.
pub fn is(object: &Value, kind: &str, status: &str) -> bool {
    let condition = condition(&object["status"]["conditions"], kind);
    // Objects of Kubernetes' own kinds have no generation in their conditions.
    let observed = &condition["observedGeneration"];
    condition["status"] == status && (observed.is_null() || observed == &object["metadata"]["generation"])
}

/// Whether a GatewayClass waits for its Gateways before it goes.
pub fn is_held(class: &Value) -> bool {
    let finalizers = class["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| {
        all.iter()
            .any(|name| name == "gateway-exists-finalizer.gateway.networking.k8s.io")
    })
}

/// Whether a Deployment has so many pods, all of its present text and ready. Pods that are ending don't count in it.
pub fn is_rolled_out(deployment: &Value, replicas: usize) -> bool {
    let status = &deployment["status"];
    let counts = ["replicas", "updatedReplicas", "readyReplicas"];
    !deployment.is_null()
        && status["observedGeneration"] == deployment["metadata"]["generation"]
        && counts
            .iter()
            .all(|count| status[count].as_u64().unwrap_or(0) == replicas as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rollout_is_judged_by_its_present_text() {
        let counts = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1});
        let mut deployment = json!({"metadata": {"generation": 2}, "status": counts});
        assert!(is_rolled_out(&deployment, 1) && !is_rolled_out(&deployment, 2));
        deployment["metadata"]["generation"] = 3.into();
        assert!(!is_rolled_out(&deployment, 1));
        deployment["status"] =
            json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 2});
        assert!(!is_rolled_out(&deployment, 1) && !is_rolled_out(&deployment, 2));
        deployment["status"] = json!({"observedGeneration": 3});
        assert!(is_rolled_out(&deployment, 0) && !is_rolled_out(&Value::Null, 0));
    }

    #[test]
    fn a_condition_counts_for_the_text_it_was_made_of() {
        let mut object = json!({
            "metadata": {"generation": 2},
            "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]},
        });
        assert!(!is(&object, "Ready", "True"));
        object["metadata"]["generation"] = 1.into();
        assert!(is(&object, "Ready", "True"));
        assert!(!is(&object, "Ready", "False") && !is(&object, "Other", "True"));
        assert!(!is(&Value::Null, "Ready", "True"));
    }

    #[test]
    fn objects_are_named_as_people_do() {
        let gateway = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"namespace": "shop", "name": "front"}});
        let front = Object::of(&gateway).unwrap();
        assert_eq!(front, Kind::gateway_api("Gateway").named("shop", "front"));
        assert_eq!(front.to_string(), "Gateway shop/front");
        assert_eq!(Kind::core("Namespace").for_all("shop").to_string(), "Namespace shop");
    }
}
