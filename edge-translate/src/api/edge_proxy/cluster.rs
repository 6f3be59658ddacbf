//! What an EdgeProxy says about the objects made for its fleet in the cluster.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Text;
use crate::api::edge_proxy::MergeType;
use crate::api::string_map::StringMap;
use crate::api::text::{IntOrText, is_default, open_enum};

/// Settings of the objects made in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProvider {
    /// The Deployment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_deployment: Option<Box<ClusterDeployment>>,
    /// A DaemonSet instead of the Deployment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_daemon_set: Option<Box<ClusterDaemonSet>>,
    /// The Service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_service: Option<Box<ClusterService>>,
    /// The autoscaler.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_hpa: Option<Box<ClusterAutoscaler>>,
    /// Ports below 1024 are not shifted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub use_listener_port_as_container_port: bool,
    /// The disruption budget.
    #[serde(rename = "envoyPDB", default, skip_serializing_if = "is_default")]
    pub envoy_pdb: Option<Box<ClusterDisruptionBudget>>,
    /// The ServiceAccount.
    #[serde(default, skip_serializing_if = "is_default")]
    pub envoy_service_account: Option<ClusterServiceAccount>,
}

/// A patch of a generated object, applied last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPatch {
    /// How it is applied; StrategicMerge when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub r#type: Option<MergeType>,
    /// The patch.
    #[serde(default)]
    pub value: Value,
}

/// Settings of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeployment {
    /// Patch of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch: Option<Box<ClusterPatch>>,
    /// Number of pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: Option<i32>,
    /// How pods are replaced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: Option<Value>,
    /// Settings of the pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pod: Option<Box<ClusterPod>>,
    /// Settings of the main container.
    #[serde(default, skip_serializing_if = "is_default")]
    pub container: Option<Box<ClusterContainer>>,
    /// Containers that run first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub init_containers: Box<[Value]>,
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

/// Settings of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDaemonSet {
    /// Patch of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch: Option<Box<ClusterPatch>>,
    /// How pods are replaced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: Option<Value>,
    /// Settings of the pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pod: Option<Box<ClusterPod>>,
    /// Settings of the main container.
    #[serde(default, skip_serializing_if = "is_default")]
    pub container: Option<Box<ClusterContainer>>,
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

/// Settings of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPod {
    /// Annotations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: StringMap,
    /// Labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: StringMap,
    /// Security context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security_context: Option<Value>,
    /// Affinity.
    #[serde(default, skip_serializing_if = "is_default")]
    pub affinity: Option<Value>,
    /// Tolerations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tolerations: Box<[Value]>,
    /// Further volumes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volumes: Box<[Value]>,
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image_pull_secrets: Box<[Value]>,
    /// Labels of nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub node_selector: StringMap,
    /// How pods are spread.
    #[serde(default, skip_serializing_if = "is_default")]
    pub topology_spread_constraints: Box<[Value]>,
    /// Priority class.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority_class_name: Option<Text>,
}

/// Settings of the main container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterContainer {
    /// Further variables.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: Box<[Value]>,
    /// Requests and limits instead of the default ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: Option<Value>,
    /// Security context instead of the default one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security_context: Option<Value>,
    /// Image.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: Option<Text>,
    /// Image without tag.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image_repository: Option<Text>,
    /// Further mounts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub volume_mounts: Box<[Value]>,
}

/// Settings of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterService {
    /// Annotations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: StringMap,
    /// Labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: StringMap,
    /// How it is published.
    #[serde(default)]
    pub r#type: ClusterServiceType,
    /// Class of load balancer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load_balancer_class: Option<Text>,
    /// Whether node ports are allocated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// Clients that are let in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load_balancer_source_ranges: Box<[Text]>,
    /// Address asked for.
    #[serde(rename = "loadBalancerIP", default, skip_serializing_if = "is_default")]
    pub load_balancer_ip: Option<Text>,
    /// Whether traffic may change nodes.
    #[serde(default)]
    pub external_traffic_policy: TrafficPolicy,
    /// Patch of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch: Option<Box<ClusterPatch>>,
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

open_enum! {
    /// How the Service of a fleet is published.
    pub enum ClusterServiceType {
        LoadBalancer = "LoadBalancer",
        ClusterIp = "ClusterIP",
        NodePort = "NodePort",
    }
}

open_enum! {
    /// Whether traffic may change nodes.
    pub enum TrafficPolicy {
        Local = "Local",
        Cluster = "Cluster",
    }
}

/// Settings of an autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAutoscaler {
    /// Fewest pods.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_replicas: Option<i32>,
    /// Most pods.
    pub max_replicas: i32,
    /// What decides; 80 % of the cpu when empty.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: Box<[Value]>,
    /// How fast it scales.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behavior: Option<Value>,
    /// Patch of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch: Option<Box<ClusterPatch>>,
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

/// Settings of a disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDisruptionBudget {
    /// Pods that must stay.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_available: Option<IntOrText>,
    /// Pods that may go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_unavailable: Option<IntOrText>,
    /// Patch of the object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub patch: Option<Box<ClusterPatch>>,
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}

/// Settings of a ServiceAccount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceAccount {
    /// Name; generated when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<Text>,
}
