//! What an EdgeProxy says about the objects of its fleet in the cluster, in the terms of the infrastructure.

use crate::{
    api::{
        self, Text,
        edge_proxy::{
            MergeType,
            cluster::{
                ClusterAutoscaler, ClusterContainer, ClusterDeployment, ClusterDisruptionBudget, ClusterPatch,
                ClusterPod, ClusterProvider, ClusterService, ClusterServiceType, TrafficPolicy,
            },
        },
        text::IntOrText,
    },
    config,
};
use edge_ir::{
    AutoscalerSettings, BudgetSettings, ClusterSettings, ContainerSettings, ObjectPatch, PodSettings, ServiceKind,
    ServiceSettings, StringMap, WorkloadKind, WorkloadSettings,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Hands on what rendering needs. What contradicts itself was refused before.
pub(super) fn cluster_settings(provider: &ClusterProvider) -> ClusterSettings {
    ClusterSettings {
        workload: workload(provider),
        service: provider.envoy_service.as_deref().map(service).unwrap_or_default(),
        autoscaler: provider.envoy_hpa.as_deref().map(autoscaler),
        budget: provider.envoy_pdb.as_deref().map(budget),
        account_name: provider.envoy_service_account.as_ref().and_then(|a| text(&a.name)),
    }
}

/// What a configuration file says about the objects of the service of rate limits.
pub(crate) fn rate_limit_settings(provider: &config::provider::ClusterProvider) -> ClusterSettings {
    ClusterSettings {
        workload: provider
            .rate_limit_deployment
            .as_deref()
            .map(deployment)
            .unwrap_or_default(),
        autoscaler: provider.rate_limit_hpa.as_deref().map(autoscaler),
        budget: provider.rate_limit_pdb.as_deref().map(budget),
        ..ClusterSettings::default()
    }
}

fn workload(provider: &ClusterProvider) -> WorkloadSettings {
    if let Some(set) = provider.envoy_daemon_set.as_deref() {
        return WorkloadSettings {
            kind: WorkloadKind::DaemonSet,
            name: text(&set.name),
            replicas: None,
            strategy: set.strategy.clone(),
            pod: set.pod.as_deref().map(pod).unwrap_or_default(),
            container: set.container.as_deref().map(container).unwrap_or_default(),
            init_containers: Vec::new(),
            patch: set.patch.as_deref().map(patch),
        };
    }
    provider.envoy_deployment.as_deref().map(deployment).unwrap_or_default()
}

fn deployment(deployment: &ClusterDeployment) -> WorkloadSettings {
    WorkloadSettings {
        kind: WorkloadKind::Deployment,
        name: text(&deployment.name),
        replicas: deployment.replicas.and_then(|n| u32::try_from(n).ok()),
        strategy: deployment.strategy.clone(),
        pod: deployment.pod.as_deref().map(pod).unwrap_or_default(),
        container: deployment.container.as_deref().map(container).unwrap_or_default(),
        init_containers: deployment.init_containers.to_vec(),
        patch: deployment.patch.as_deref().map(patch),
    }
}

fn pod(pod: &ClusterPod) -> PodSettings {
    let list = |list: &[Value]| (!list.is_empty()).then(|| Value::from(list.to_vec()));
    let fields = [
        ("affinity", pod.affinity.clone()),
        (
            "nodeSelector",
            (!pod.node_selector.is_empty()).then(|| json!(pod.node_selector)),
        ),
        ("priorityClassName", pod.priority_class_name.as_deref().map(Value::from)),
        ("securityContext", pod.security_context.clone()),
        ("tolerations", list(&pod.tolerations)),
        ("topologySpreadConstraints", list(&pod.topology_spread_constraints)),
    ];
    PodSettings {
        annotations: strings(&pod.annotations),
        labels: strings(&pod.labels),
        fields: fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect::<Map<String, Value>>(),
        volumes: pod.volumes.to_vec(),
        image_pull_secrets: pod.image_pull_secrets.to_vec(),
    }
}

fn container(container: &ClusterContainer) -> ContainerSettings {
    ContainerSettings {
        env: container.env.to_vec(),
        resources: container.resources.clone(),
        security_context: container.security_context.clone(),
        image: text(&container.image),
        image_repository: text(&container.image_repository),
        volume_mounts: container.volume_mounts.to_vec(),
    }
}

fn service(service: &ClusterService) -> ServiceSettings {
    ServiceSettings {
        kind: match service.r#type {
            ClusterServiceType::ClusterIp => ServiceKind::ClusterIp,
            ClusterServiceType::NodePort => ServiceKind::NodePort,
            ClusterServiceType::LoadBalancer | ClusterServiceType::Other(_) => ServiceKind::LoadBalancer,
        },
        name: text(&service.name),
        annotations: strings(&service.annotations),
        labels: strings(&service.labels),
        external_traffic_policy: match &service.external_traffic_policy {
            TrafficPolicy::Local => None,
            other => Some(other.as_str().into()),
        },
        load_balancer_class: text(&service.load_balancer_class),
        allocate_node_ports: service.allocate_load_balancer_node_ports,
        source_ranges: service
            .load_balancer_source_ranges
            .iter()
            .map(|r| Arc::from(&**r))
            .collect(),
        load_balancer_ip: text(&service.load_balancer_ip),
        patch: service.patch.as_deref().map(patch),
    }
}

fn autoscaler(autoscaler: &ClusterAutoscaler) -> AutoscalerSettings {
    AutoscalerSettings {
        name: text(&autoscaler.name),
        min_replicas: autoscaler.min_replicas,
        max_replicas: autoscaler.max_replicas,
        metrics: autoscaler.metrics.to_vec(),
        behavior: autoscaler.behavior.clone(),
        patch: autoscaler.patch.as_deref().map(patch),
    }
}

fn budget(budget: &ClusterDisruptionBudget) -> BudgetSettings {
    let bound = |bound: &Option<IntOrText>| bound.as_ref().map(|bound| json!(bound));
    BudgetSettings {
        name: text(&budget.name),
        min_available: bound(&budget.min_available),
        max_unavailable: bound(&budget.max_unavailable),
        patch: budget.patch.as_deref().map(patch),
    }
}

fn patch(patch: &ClusterPatch) -> ObjectPatch {
    match patch.r#type {
        Some(MergeType::JsonMerge) => ObjectPatch::JsonMerge(patch.value.clone()),
        _ => ObjectPatch::Strategic(patch.value.clone()),
    }
}

fn text(text: &Option<Text>) -> Option<Arc<str>> {
    text.as_deref().map(Arc::from)
}

fn strings(map: &api::StringMap) -> StringMap {
    map.iter()
        .map(|(key, value)| (Arc::from(key), Arc::from(value)))
        .collect()
}
