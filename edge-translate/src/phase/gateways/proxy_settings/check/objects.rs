//! The rules of single objects in a cluster, whoever asks for them: an EdgeProxy for its fleet, or a configuration file
//! for the service of rate limits.

use crate::api::edge_proxy::{
    MergeType,
    cluster::{ClusterAutoscaler, ClusterContainer, ClusterDeployment, ClusterDisruptionBudget, ClusterPatch},
};

/// Why a Deployment can't have so many pods.
pub(crate) fn replicas(deployment: &ClusterDeployment) -> Option<&'static str> {
    let negative = deployment.replicas.is_some_and(|n| n < 0);
    negative.then_some("replicas must not be negative")
}

/// What can't be asked for together of a container.
pub(crate) fn container(container: &ClusterContainer) -> Option<&'static str> {
    let both = container.image.is_some() && container.image_repository.is_some();
    both.then_some("Either image or imageRepository can be set.")
}

/// Bounds of an autoscaler between which there is nothing.
pub(crate) fn autoscaler(autoscaler: &ClusterAutoscaler) -> impl Iterator<Item = &'static str> + use<> {
    let most = autoscaler.max_replicas;
    let least = autoscaler.min_replicas.unwrap_or(1);
    let rules = [
        (least < 1, "minReplicas must be greater than 0"),
        (most < 1, "maxReplicas must be greater than 0"),
        (most < least, "maxReplicas cannot be less than minReplicas"),
    ];
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, message)| message)
}

/// What can't be asked for together of a disruption budget.
pub(crate) fn budget(budget: &ClusterDisruptionBudget) -> Option<&'static str> {
    let both = budget.min_available.is_some() && budget.max_unavailable.is_some();
    both.then_some("only one of minAvailable or maxUnavailable can be specified")
}

/// What can't be used of the patch of an object; `what` is patched.
pub(crate) fn patch(what: &str, patch: &ClusterPatch) -> Vec<String> {
    let empty = patch.value.is_null();
    let empty = empty.then(|| format!("{what} patch object cannot be empty"));
    let kind = match &patch.r#type {
        None | Some(MergeType::StrategicMerge | MergeType::JsonMerge) => None,
        Some(other) => Some(format!("unsupported {what} patch type {other}")),
    };
    empty.into_iter().chain(kind).collect()
}
