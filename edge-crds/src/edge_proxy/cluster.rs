//! The objects that a fleet is made of in the cluster.

use crate::free::{AnyJson, Core};
use crate::shape::MergeType;
use crate::values::values;
use k8s_openapi::api::apps::v1::{DaemonSetUpdateStrategy, DeploymentStrategy};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerBehavior, MetricSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, LocalObjectReference, PodSecurityContext, ResourceRequirements, SecurityContext,
    Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The objects that a fleet is made of in the cluster.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.envoyDeployment) && has(self.envoyDaemonSet))", "only one of envoyDeployment or envoyDaemonSet can be specified"))]
#[x_kube(validation = ("!(has(self.envoyHpa) && has(self.envoyDaemonSet))", "cannot use envoyHpa if envoyDaemonSet is used"))]
pub struct EdgeProxyClusterProvider {
    /// Deployment of the proxies.
    pub envoy_deployment: Option<ClusterDeploymentSpec>,
    /// DaemonSet of the proxies, instead of a Deployment.
    pub envoy_daemon_set: Option<ClusterDaemonSetSpec>,
    /// Service of the proxies.
    pub envoy_service: Option<ClusterServiceSpec>,
    /// Scales the Deployment, whose `replicas` then has no effect.
    pub envoy_hpa: Option<ClusterHorizontalPodAutoscalerSpec>,
    /// Ports below 1024 are not moved up by 10000 in the container.
    pub use_listener_port_as_container_port: Option<bool>,
    /// How many pods may be taken away at a time.
    #[serde(rename = "envoyPDB")]
    pub envoy_pdb: Option<ClusterPodDisruptionBudgetSpec>,
    /// ServiceAccount of the pods.
    pub envoy_service_account: Option<ClusterServiceAccountSpec>,
}

/// A Deployment that the controller makes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeploymentSpec {
    /// Patch of the finished object, applied last.
    pub patch: Option<ClusterPatchSpec>,
    /// How many pods; may change at any time.
    pub replicas: Option<i32>,
    /// How pods are replaced; RollingUpdate when absent.
    pub strategy: Option<Core<DeploymentStrategy>>,
    /// Settings of the pods.
    pub pod: Option<ClusterPodSpec>,
    /// Settings of the proxy container.
    pub container: Option<ClusterContainerSpec>,
    /// Containers that run before the proxy.
    pub init_containers: Option<Vec<Core<Container>>>,
    /// Name of the object; made from the Gateway when absent.
    pub name: Option<String>,
}

/// A patch of an object that the controller makes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPatchSpec {
    /// How it is merged; StrategicMerge when absent.
    pub r#type: Option<MergeType>,
    /// A part of the object.
    pub value: AnyJson,
}

/// Pods that the controller makes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPodSpec {
    /// Further annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Further labels; those by which pods are selected stay.
    pub labels: Option<BTreeMap<String, String>>,
    /// Security context of the pods.
    pub security_context: Option<Core<PodSecurityContext>>,
    /// Where pods should run.
    pub affinity: Option<Core<Affinity>>,
    /// Taints that are tolerated.
    pub tolerations: Option<Vec<Core<Toleration>>>,
    /// Further volumes.
    pub volumes: Option<Vec<Core<Volume>>>,
    /// Secrets for pulling images.
    pub image_pull_secrets: Option<Vec<Core<LocalObjectReference>>>,
    /// Labels of the nodes.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// How pods are spread.
    pub topology_spread_constraints: Option<Vec<Core<TopologySpreadConstraint>>>,
    /// Priority class.
    pub priority_class_name: Option<String>,
}

/// The proxy container.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.image) || !has(self.imageRepository)", "Either image or imageRepository can be set."))]
pub struct ClusterContainerSpec {
    /// Further environment variables.
    pub env: Option<Vec<Core<EnvVar>>>,
    /// Resources; requests of 100m CPU and 512Mi memory when absent.
    pub resources: Option<Core<ResourceRequirements>>,
    /// Security context of the container, instead of the usual one.
    pub security_context: Option<Core<SecurityContext>>,
    /// Image with its tag.
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9._-]+(:[0-9]+)?(/[a-zA-Z0-9._/-]+)?(:[a-zA-Z0-9._-]+)?(@sha256:[a-z0-9]+)?$')", "Image must include a tag and allowed characters only (e.g., 'repo:tag')."))]
    pub image: Option<String>,
    /// Image without a tag; the usual one is appended.
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9._-]+(:[0-9]+)?[a-zA-Z0-9._/-]+$')", "ImageRepository must contain only allowed characters and must not include a tag."))]
    pub image_repository: Option<String>,
    /// Further mounts.
    pub volume_mounts: Option<Vec<Core<VolumeMount>>>,
}

/// A DaemonSet that the controller makes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDaemonSetSpec {
    /// Patch of the finished object, applied last.
    pub patch: Option<ClusterPatchSpec>,
    /// How pods are replaced.
    pub strategy: Option<Core<DaemonSetUpdateStrategy>>,
    /// Settings of the pods.
    pub pod: Option<ClusterPodSpec>,
    /// Settings of the proxy container.
    pub container: Option<ClusterContainerSpec>,
    /// Name of the object; made from the Gateway when absent.
    pub name: Option<String>,
}

/// The Service of a fleet.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.allocateLoadBalancerNodePorts) || self.type == 'LoadBalancer'", "allocateLoadBalancerNodePorts can only be set for LoadBalancer type"))]
#[x_kube(validation = ("!has(self.loadBalancerSourceRanges) || self.type == 'LoadBalancer'", "loadBalancerSourceRanges can only be set for LoadBalancer type"))]
#[x_kube(validation = ("!has(self.loadBalancerIP) || self.type == 'LoadBalancer'", "loadBalancerIP can only be set for LoadBalancer type"))]
pub struct ClusterServiceSpec {
    /// Further annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Further labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Type of the Service.
    #[schemars(extend("default" = "LoadBalancer"))]
    pub r#type: Option<ServiceType>,
    /// Class of the load balancer.
    pub load_balancer_class: Option<String>,
    /// Whether node ports are given; true when absent.
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// Addresses of clients that may connect, as CIDRs.
    pub load_balancer_source_ranges: Option<Vec<String>>,
    /// Address asked of the load balancer.
    #[serde(rename = "loadBalancerIP")]
    #[x_kube(validation = (r#"self.matches(r'^((25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$')"#, "loadBalancerIP must be a valid IPv4 address"))]
    pub load_balancer_ip: Option<String>,
    /// Whether traffic stays on the node that it reached; not used for ClusterIP.
    #[schemars(extend("default" = "Local"))]
    pub external_traffic_policy: Option<ServiceExternalTrafficPolicy>,
    /// Patch of the finished object, applied last.
    pub patch: Option<ClusterPatchSpec>,
    /// Name of the object; made from the Gateway when absent.
    pub name: Option<String>,
}

/// The autoscaler of a fleet.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.minReplicas) || self.maxReplicas >= self.minReplicas", "maxReplicas cannot be less than minReplicas"))]
pub struct ClusterHorizontalPodAutoscalerSpec {
    /// Fewest pods.
    #[x_kube(validation = ("self > 0", "minReplicas must be greater than 0"))]
    pub min_replicas: Option<i32>,
    /// Most pods.
    #[x_kube(validation = ("self > 0", "maxReplicas must be greater than 0"))]
    pub max_replicas: i32,
    /// Metrics; 80 % of CPU when absent.
    pub metrics: Option<Vec<Core<MetricSpec>>>,
    /// How fast it scales.
    pub behavior: Option<Core<HorizontalPodAutoscalerBehavior>>,
    /// Patch of the finished object, applied last.
    pub patch: Option<ClusterPatchSpec>,
    /// Name of the object; made from the Gateway when absent.
    pub name: Option<String>,
}

/// The disruption budget of a fleet.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!(has(self.minAvailable) && has(self.maxUnavailable))", "only one of minAvailable or maxUnavailable can be specified"))]
pub struct ClusterPodDisruptionBudgetSpec {
    /// Pods that stay, as a number or in percent; 1 when neither bound is set.
    pub min_available: Option<IntOrString>,
    /// Pods that may be missing, as a number or in percent.
    pub max_unavailable: Option<IntOrString>,
    /// Patch of the finished object, applied last.
    pub patch: Option<ClusterPatchSpec>,
    /// Name of the object; made from the Gateway when absent.
    pub name: Option<String>,
}

/// The ServiceAccount of a fleet.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServiceAccountSpec {
    /// Name of the ServiceAccount; made from the Gateway when absent.
    pub name: Option<String>,
}

values! {
    /// Values of `ServiceType`.
    pub enum ServiceType {
        ClusterIp = "ClusterIP",
        LoadBalancer = "LoadBalancer",
        NodePort = "NodePort",
    }
}

values! {
    /// Values of `ServiceExternalTrafficPolicy`.
    pub enum ServiceExternalTrafficPolicy {
        Local = "Local",
        Cluster = "Cluster",
    }
}
