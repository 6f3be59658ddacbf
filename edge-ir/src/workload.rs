//! What an EdgeProxy says about the objects made for its fleet in a cluster: typed where rendering decides by it, JSON
//! where it is only handed on (affinity, volumes, resources, patches).

use crate::StringMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Settings of the objects made for a fleet in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterSettings {
    /// The workload and its pods.
    #[serde(skip_serializing_if = "is_default")]
    pub workload: WorkloadSettings,
    /// The Service.
    #[serde(skip_serializing_if = "is_default")]
    pub service: ServiceSettings,
    /// The autoscaler, if there is to be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerSettings>,
    /// The disruption budget, if there is to be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSettings>,
    /// Name of the ServiceAccount; generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_name: Option<Arc<str>>,
}

impl ClusterSettings {
    /// Whether nothing was asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of a Deployment or DaemonSet and of its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSettings {
    /// Which of the two.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: WorkloadKind,
    /// Name; generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Pods that a Deployment asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How pods are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Value>,
    /// The pods.
    #[serde(skip_serializing_if = "is_default")]
    pub pod: PodSettings,
    /// The proxy's container.
    #[serde(skip_serializing_if = "is_default")]
    pub container: ContainerSettings,
    /// Containers that run first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Value>,
    /// Change of the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<ObjectPatch>,
}

/// Kind of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadKind {
    /// As many pods as are asked for.
    #[default]
    Deployment,
    /// A pod on every node.
    DaemonSet,
}

/// Settings of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSettings {
    /// Annotations.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub annotations: StringMap,
    /// Labels.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub labels: StringMap,
    /// Further fields of the pod's specification, by their name: affinity, security context and the like.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub fields: serde_json::Map<String, Value>,
    /// Further volumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    /// Secrets for pulling images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<Value>,
}

/// Settings of the proxy's container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerSettings {
    /// Further variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Value>,
    /// Requests and limits instead of the default ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Value>,
    /// Security context instead of the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Value>,
    /// Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Arc<str>>,
    /// Image without tag, which is that of the default image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repository: Option<Arc<str>>,
    /// Further mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<Value>,
}

/// Settings of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSettings {
    /// How it is published.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: ServiceKind,
    /// Name; generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Annotations.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub annotations: StringMap,
    /// Labels.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub labels: StringMap,
    /// Whether traffic may change nodes, `Local` or `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<Arc<str>>,
    /// Class of load balancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<Arc<str>>,
    /// Whether node ports are allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_node_ports: Option<bool>,
    /// Clients that are let in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<Arc<str>>,
    /// Address asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_ip: Option<Arc<str>>,
    /// Change of the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<ObjectPatch>,
}

/// How a Service is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceKind {
    /// An address outside of the cluster.
    #[default]
    LoadBalancer,
    /// An address inside of the cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// A port of every node.
    NodePort,
}

/// Settings of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerSettings {
    /// Name; generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Fewest pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Most pods.
    pub max_replicas: i32,
    /// What decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Value>,
    /// How fast it scales.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Value>,
    /// Change of the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<ObjectPatch>,
}

/// Settings of a disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetSettings {
    /// Name; generated when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Pods that must stay: a number, or a part in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<Value>,
    /// Pods that may go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Value>,
    /// Change of the finished object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<ObjectPatch>,
}

/// A change of a generated object, applied last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ObjectPatch {
    /// Lists of named things are merged element by element, as kubectl does.
    Strategic(Value),
    /// RFC 7396.
    JsonMerge(Value),
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
