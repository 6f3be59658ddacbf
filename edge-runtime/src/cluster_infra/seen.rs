//! What is kept of an object of ours that was seen in the cluster, and what it says about its fleet.

use crate::{
    cluster::{FIELD_MANAGER, objects::account},
    state::Address,
};
use edge_infra::ObjectKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};
use xxhash_rust::xxh3::xxh3_64;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectId {
    pub(super) kind: ObjectKind,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// The objects of one fleet.
pub(super) type View = BTreeMap<ObjectId, Arc<ObservedObject>>;

/// An object as it was seen last.
#[derive(Debug)]
pub(super) struct ObservedObject {
    /// All of it but what nobody asks for.
    pub(super) object: Value,
    /// A hash of that without its status: differs when anybody has changed something.
    pub(super) fingerprint: u64,
    /// What tells it from another of its name.
    pub(super) uid: String,
    /// It is being deleted already.
    pub(super) leaves: bool,
    /// Which of our field managers have set how many pods there are.
    pub(super) replicas_set_by: BTreeSet<String>,
    /// Who has set which load balancer a Service is for.
    pub(super) class_set_by: BTreeSet<String>,
    /// How often what is wanted of it has changed.
    generation: i64,
}

/// The number of pods, as field managers name it.
const REPLICAS: &str = "/f:spec/f:replicas";
/// Which load balancer a Service is for.
const CLASS: &str = "/f:spec/f:loadBalancerClass";

/// Who has applied a field.
fn managers(entries: &[ManagedFieldsEntry], field: &str) -> BTreeSet<String> {
    let applied = entries.iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.operation.as_deref() == Some("Apply") && fields.is_some_and(|fields| fields.0.pointer(field).is_some())
    });
    applied.filter_map(|entry| entry.manager.clone()).collect()
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

impl ObservedObject {
    pub(super) fn new(kind: ObjectKind, mut object: DynamicObject) -> Self {
        // Members of a list don't carry it.
        object.types = Some(TypeMeta {
            api_version: kind.api_version(),
            kind: kind.as_str().to_owned(),
        });
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let leaves = object.metadata.deletion_timestamp.is_some();
        let managed = object.metadata.managed_fields.take().unwrap_or_default();
        let [replicas_set_by, class_set_by] = [REPLICAS, CLASS].map(|field| managers(&managed, field));
        object.metadata.resource_version = None;
        let generation = object.metadata.generation.take().unwrap_or_default();
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
            replicas_set_by,
            class_set_by,
            generation,
        }
    }

    fn number(&self, pointer: &str) -> Option<u32> {
        let number = self.object.pointer(pointer).and_then(Value::as_u64);
        number.and_then(|number| u32::try_from(number).ok())
    }

    /// Whether a workload may have pods of an earlier template, by what its controller says.
    pub(super) fn is_rolling(&self, kind: ObjectKind) -> bool {
        let status = |name: &str| self.number(&format!("/status/{name}"));
        let observed = self
            .object
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64);
        let (all, new) = match kind {
            ObjectKind::DaemonSet => (status("currentNumberScheduled"), status("updatedNumberScheduled")),
            _ => (status("replicas"), status("updatedReplicas")),
        };
        observed.unwrap_or_default() < self.generation || all > new
    }

    /// Whether it was us who said which load balancer a Service is for.
    pub(super) fn class_is_ours(&self) -> bool {
        self.class_set_by.contains(FIELD_MANAGER)
    }

    /// The ServiceAccount that a workload names.
    pub(super) fn account(&self) -> Option<&str> {
        account(&self.object)
    }

    /// Pods that are wanted, and those that are ready for traffic.
    pub(super) fn pods(&self, kind: ObjectKind) -> (u32, u32) {
        let number = |pointer: &str| self.number(pointer);
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

    /// Why a Deployment can't go on replacing pods: somebody has paused it, or what its conditions say. A DaemonSet
    /// doesn't say.
    pub(super) fn stuck(&self) -> Option<&str> {
        if self.object.pointer("/spec/paused").and_then(Value::as_bool) == Some(true) {
            return Some("it is paused; `kubectl rollout resume` lets changes take effect again");
        }
        let conditions = self.object.pointer("/status/conditions").and_then(Value::as_array);
        let is_bad = |condition: &&Value| {
            let is = |kind: &str, status: &str| condition["type"] == kind && condition["status"] == status;
            is("ReplicaFailure", "True") || is("Progressing", "False")
        };
        let bad = conditions.into_iter().flatten().find(is_bad)?;
        bad["message"].as_str().or_else(|| bad["reason"].as_str())
    }

    /// Whether clients reach it at the addresses of nodes.
    pub(super) fn is_reached_by_nodes(&self) -> bool {
        self.service_type() == Some("NodePort")
    }

    /// Whether a Service has addresses inside of the cluster only.
    pub(super) fn is_inside_only(&self) -> bool {
        self.service_type() == Some("ClusterIP")
    }

    fn service_type(&self) -> Option<&str> {
        let is_service = self.object["kind"] == ObjectKind::Service.as_str();
        self.object
            .pointer("/spec/type")
            .and_then(Value::as_str)
            .filter(|_| is_service)
    }

    /// Addresses of a Service that somebody has given it.
    pub(super) fn external_addresses(&self) -> Vec<IpAddr> {
        self.numbers("/spec/externalIPs")
    }

    /// Addresses of a Service inside of the cluster.
    pub(super) fn cluster_addresses(&self) -> Vec<IpAddr> {
        self.numbers("/spec/clusterIPs")
    }

    /// The families of a Service's addresses: whether each is IPv6. None if it doesn't say.
    pub(super) fn families(&self) -> Vec<bool> {
        self.texts("/spec/ipFamilies").map(|family| family == "IPv6").collect()
    }

    /// Where clients reach a Service of this type.
    pub(super) fn addresses_of_type(&self, nodes: &[IpAddr]) -> Vec<Address> {
        let families = self.families();
        let ips = match self.service_type() {
            Some("ClusterIP") => self.cluster_addresses(),
            Some("NodePort") => {
                let fits = |ip: &&IpAddr| families.is_empty() || families.contains(&ip.is_ipv6());
                nodes.iter().filter(fits).copied().collect()
            }
            _ => return self.ingress(),
        };
        ips.into_iter().map(Address::Ip).collect()
    }

    fn texts(&self, pointer: &str) -> impl Iterator<Item = &str> {
        let list = self.object.pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    fn numbers(&self, pointer: &str) -> Vec<IpAddr> {
        self.texts(pointer).filter_map(|text| text.parse().ok()).collect()
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

    fn seen(value: Value) -> ObservedObject {
        let mut object = json!({"metadata": {"name": "n", "namespace": "ns", "uid": "u"}});
        object
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        ObservedObject::new(ObjectKind::Service, serde_json::from_value(object).unwrap())
    }

    #[test]
    fn addresses_follow_the_type_of_the_service() {
        let ip = |text: &str| Address::Ip(text.parse().unwrap());
        let node = ["172.31.0.1".parse().unwrap()];
        for (service, wanted) in [
            (
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.example.com"}]}}}),
                vec![ip("192.0.2.1"), Address::Hostname("lb.example.com".into())],
            ),
            (json!({"spec": {"type": "LoadBalancer"}}), vec![]),
            (
                json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.96.0.1", "fd00::1"]}}),
                vec![ip("10.96.0.1"), ip("fd00::1")],
            ),
            (json!({"spec": {"type": "ClusterIP", "clusterIPs": ["None"]}}), vec![]),
            (json!({"spec": {"type": "NodePort"}}), vec![ip("172.31.0.1")]),
        ] {
            assert_eq!(seen(service.clone()).addresses_of_type(&node), wanted, "{service}");
        }
    }

    #[test]
    fn who_has_applied_the_number_of_pods_is_known() {
        let entry = |manager: &str, operation: &str, field: &str| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {field: {}}}});
        let object = json!({"metadata": {"name": "n", "managedFields": [
            entry("us", "Apply", "f:replicas"),
            entry("autoscaler", "Update", "f:replicas"),
            entry("other", "Apply", "f:template"),
        ]}});
        let seen = ObservedObject::new(ObjectKind::Deployment, serde_json::from_value(object).unwrap());
        assert_eq!(seen.replicas_set_by, BTreeSet::from(["us".to_owned()]));
        assert!(!seen.object.to_string().contains("managedFields"));
    }

    #[test]
    fn a_deployment_says_why_it_is_stuck() {
        let with = |kind: &str, status: &str| {
            seen(json!({"status": {"conditions": [
                {"type": "Available", "status": "True", "message": "it has all pods"},
                {"type": kind, "status": status, "reason": "R", "message": "exceeded quota"},
            ]}}))
        };
        assert_eq!(with("ReplicaFailure", "True").stuck(), Some("exceeded quota"));
        assert_eq!(with("Progressing", "False").stuck(), Some("exceeded quota"));
        assert_eq!(with("Progressing", "True").stuck(), None);
        assert_eq!(seen(json!({})).stuck(), None);
        let paused = seen(json!({"spec": {"paused": true}}));
        assert!(paused.stuck().is_some_and(|why| why.starts_with("it is paused")));
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
}
