//! What is kept of an object of ours that was seen in the cluster, and what it says about its fleet.

use crate::state::Address;
use edge_infra::{CONTROLLER, FLEET, ObjectKind};
use edge_ir::FleetKey;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};
use xxhash_rust::xxh3::xxh3_64;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectId {
    pub(super) kind: ObjectKind,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// The objects of one fleet.
pub(super) type View = BTreeMap<ObjectId, Arc<Seen>>;

/// An object as it was seen last.
#[derive(Debug)]
pub(super) struct Seen {
    /// All of it but what nobody asks for.
    pub(super) object: Value,
    /// A hash of that without its status: differs when anybody has changed something.
    pub(super) fingerprint: u64,
    /// What tells it from another of its name.
    pub(super) uid: String,
    /// It is being deleted already.
    pub(super) leaves: bool,
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) controller: Option<String>,
    pub(super) fleet: Option<FleetKey>,
}

/// How the API names a kind.
pub(super) fn resource(kind: ObjectKind) -> ApiResource {
    ApiResource {
        group: kind.group().to_owned(),
        version: kind.version().to_owned(),
        api_version: kind.api_version(),
        kind: kind.as_str().to_owned(),
        plural: format!("{}s", kind.as_str().to_lowercase()),
    }
}

/// Whose an object says it is.
pub(super) fn marks(object: &DynamicObject) -> Marks {
    let annotation = |name: &str| object.metadata.annotations.as_ref()?.get(name).cloned();
    Marks {
        controller: annotation(CONTROLLER),
        fleet: annotation(FLEET).map(|key| key.as_str().into()),
    }
}

impl ObjectId {
    pub(super) fn of(kind: ObjectKind, object: &DynamicObject) -> Self {
        Self {
            kind,
            namespace: object.metadata.namespace.as_deref().unwrap_or_default().into(),
            name: object.metadata.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl Seen {
    pub(super) fn new(kind: ObjectKind, mut object: DynamicObject) -> Self {
        // Members of a list don't carry it.
        object.types = Some(TypeMeta {
            api_version: kind.api_version(),
            kind: kind.as_str().to_owned(),
        });
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let leaves = object.metadata.deletion_timestamp.is_some();
        object.metadata.managed_fields = None;
        object.metadata.resource_version = None;
        object.metadata.generation = None;
        let mut object = serde_json::to_value(&object).unwrap_or_default();
        let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
        let fingerprint = xxh3_64(object.to_string().as_bytes());
        if let (Some(status), Some(fields)) = (status, object.as_object_mut()) {
            fields.insert("status".to_owned(), status);
        }
        Self {
            object,
            fingerprint,
            uid,
            leaves,
        }
    }

    /// Pods that are wanted, and those that are ready for traffic.
    pub(super) fn pods(&self, kind: ObjectKind) -> (u32, u32) {
        let number = |pointer: &str| {
            let number = self.object.pointer(pointer).and_then(Value::as_u64);
            number.and_then(|number| u32::try_from(number).ok())
        };
        match kind {
            ObjectKind::DaemonSet => (
                number("/status/desiredNumberScheduled").unwrap_or(0),
                number("/status/numberAvailable").unwrap_or(0),
            ),
            _ => (
                number("/spec/replicas").unwrap_or(1),
                number("/status/availableReplicas").unwrap_or(0),
            ),
        }
    }

    /// Where clients reach the Service: at the addresses that were asked for, else at those that its type has.
    pub(super) fn addresses(&self, asked: &[Arc<str>], nodes: &[Address]) -> Vec<Address> {
        let texts = |pointer: &str| -> Vec<Address> {
            let list = self.object.pointer(pointer).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.filter_map(number).collect()
        };
        let external = texts("/spec/externalIPs");
        if !asked.is_empty() && !external.is_empty() {
            return external;
        }
        match self.object.pointer("/spec/type").and_then(Value::as_str) {
            Some("ClusterIP") => texts("/spec/clusterIPs"),
            Some("NodePort") => nodes.to_vec(),
            _ => self.ingress(),
        }
    }

    fn ingress(&self) -> Vec<Address> {
        let ingress = self
            .object
            .pointer("/status/loadBalancer/ingress")
            .and_then(Value::as_array);
        let entries = ingress.into_iter().flatten();
        let address = |entry: &Value| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            match (text("ip"), text("hostname")) {
                (Some(ip), _) => number(ip),
                (None, Some(name)) => Some(Address::Hostname(name.into())),
                (None, None) => None,
            }
        };
        entries.filter_map(address).collect()
    }
}

fn number(text: &str) -> Option<Address> {
    text.parse::<IpAddr>().ok().map(Address::Ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(value: Value) -> Seen {
        let mut object = json!({"metadata": {"name": "n", "namespace": "ns", "uid": "u"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        Seen::new(ObjectKind::Service, serde_json::from_value(object).unwrap())
    }

    #[test]
    fn addresses_follow_the_type_of_the_service_and_what_was_asked_for() {
        let ip = |text: &str| Address::Ip(text.parse().unwrap());
        let node = [ip("172.31.0.1")];
        for (service, asked, wanted) in [
            (
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.example.com"}]}}}),
                None,
                vec![ip("192.0.2.1"), Address::Hostname("lb.example.com".into())],
            ),
            (json!({"spec": {"type": "LoadBalancer"}}), None, vec![]),
            (
                json!({"spec": {"type": "LoadBalancer", "externalIPs": ["192.0.2.9"]}}),
                Some("192.0.2.9"),
                vec![ip("192.0.2.9")],
            ),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.96.0.1", "fd00::1"]}}),
                None,
                vec![ip("10.96.0.1"), ip("fd00::1")],
            ),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}),
                None,
                vec![],
            ),
            (json!({"spec": {"type": "NodePort"}}), None, vec![ip("172.31.0.1")]),
        ] {
            let asked: Vec<Arc<str>> = asked.into_iter().map(Arc::from).collect();
            assert_eq!(seen(service.clone()).addresses(&asked, &node), wanted, "{service}");
        }
    }

    #[test]
    fn a_status_is_no_change_and_a_label_is() {
        let plain = seen(json!({"spec": {"replicas": 2}}));
        let with_status = seen(json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 1}}));
        assert_eq!(plain.fingerprint, with_status.fingerprint);
        assert_eq!(with_status.pods(ObjectKind::Deployment), (2, 1));
        let changed = seen(json!({"spec": {"replicas": 3}}));
        assert_ne!(plain.fingerprint, changed.fingerprint);
    }

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
