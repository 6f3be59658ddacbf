//! What strategic merge must know of the types of objects: which lists are merged, and by which key.
//!
//! From the `patchStrategy` and `patchMergeKey` tags of the Kubernetes API, version 1.36, for what can be patched here.
//! What isn't listed merges as it is: objects field by field, lists as a whole.

/// A type of the API, as far as it changes how a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// apps/v1 Deployment or DaemonSet.
    Workload,
    /// v1 Service.
    Service,
    /// autoscaling/v2 HorizontalPodAutoscaler.
    Autoscaler,
    /// policy/v1 PodDisruptionBudget.
    Budget,
    /// The metadata of any object.
    Metadata,
    /// The specification of a Deployment or DaemonSet.
    WorkloadSpec,
    /// A template of pods.
    PodTemplate,
    /// The specification of a pod.
    PodSpec,
    /// A container of any sort.
    Container,
    /// The specification of a Service.
    ServiceSpec,
    /// The specification of a PodDisruptionBudget.
    BudgetSpec,
    /// Anything without a strategy of its own.
    Plain,
}

/// How a field of the original and the patch become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Objects are merged, lists replaced.
    Usual,
    /// Lists are merged element by element: those whose field of this name is equal belong together.
    ByKey(&'static str),
    /// Lists are united.
    Union,
    /// The patch takes the place of the original.
    Replace,
}

/// The type of a field (or of its elements), and how it is merged.
pub(super) fn field(holder: Type, name: &str) -> (Type, Strategy) {
    use Strategy::{ByKey, Replace, Union, Usual};
    match (holder, name) {
        (Type::Workload | Type::Service | Type::Autoscaler | Type::Budget | Type::PodTemplate, "metadata") => {
            (Type::Metadata, Usual)
        }
        (Type::Metadata, "finalizers") => (Type::Plain, Union),
        (Type::Metadata, "ownerReferences") => (Type::Plain, ByKey("uid")),
        (Type::Workload, "spec") => (Type::WorkloadSpec, Usual),
        (Type::Service, "spec") => (Type::ServiceSpec, Usual),
        (Type::Budget, "spec") => (Type::BudgetSpec, Usual),
        (Type::WorkloadSpec, "template") => (Type::PodTemplate, Usual),
        (Type::PodTemplate, "spec") => (Type::PodSpec, Usual),
        (Type::PodSpec, "containers" | "initContainers" | "ephemeralContainers") => (Type::Container, ByKey("name")),
        (Type::PodSpec, "volumes" | "imagePullSecrets" | "schedulingGates" | "resourceClaims") => {
            (Type::Plain, ByKey("name"))
        }
        (Type::PodSpec, "hostAliases") => (Type::Plain, ByKey("ip")),
        (Type::PodSpec, "topologySpreadConstraints") => (Type::Plain, ByKey("topologyKey")),
        (Type::Container, "env") => (Type::Plain, ByKey("name")),
        (Type::Container, "ports") => (Type::Plain, ByKey("containerPort")),
        (Type::Container, "volumeMounts") => (Type::Plain, ByKey("mountPath")),
        (Type::Container, "volumeDevices") => (Type::Plain, ByKey("devicePath")),
        (Type::ServiceSpec, "ports") => (Type::Plain, ByKey("port")),
        (Type::BudgetSpec, "selector") => (Type::Plain, Replace),
        _ => (Type::Plain, Usual),
    }
}
