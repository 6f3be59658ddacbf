//! An object of the cluster, as it is applied.

use serde_json::Value;
use std::sync::Arc;

use crate::Type;

/// An object that must exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// All of it that is ours, ready to be applied.
    pub body: Value,
}

/// Kinds of objects that are made for a fleet, in the order in which they are applied: what pods need comes before
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// v1.
    ServiceAccount,
    /// v1.
    ConfigMap,
    /// v1.
    Service,
    /// apps/v1.
    Deployment,
    /// apps/v1.
    DaemonSet,
    /// autoscaling/v2 HorizontalPodAutoscaler.
    Autoscaler,
    /// policy/v1 PodDisruptionBudget.
    Budget,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Service,
        Self::Deployment,
        Self::DaemonSet,
        Self::Autoscaler,
        Self::Budget,
    ];

    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
            Self::Autoscaler => "HorizontalPodAutoscaler",
            Self::Budget => "PodDisruptionBudget",
        }
    }

    /// Its group in the API; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::ServiceAccount | Self::ConfigMap | Self::Service => "",
            Self::Deployment | Self::DaemonSet => "apps",
            Self::Autoscaler => "autoscaling",
            Self::Budget => "policy",
        }
    }

    /// Its version in the API.
    pub fn version(self) -> &'static str {
        match self {
            Self::Autoscaler => "v2",
            _ => "v1",
        }
    }

    /// Its group and version, as objects carry them.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// What an EdgeProxy's errors call it.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceaccount",
            Self::ConfigMap => "configmap",
            Self::Service => "service",
            Self::Deployment => "deployment",
            Self::DaemonSet => "daemonset",
            Self::Autoscaler => "hpa",
            Self::Budget => "pdb",
        }
    }

    /// Its type for strategic merges.
    pub(crate) fn merge_type(self) -> Type {
        match self {
            Self::Deployment | Self::DaemonSet => Type::Workload,
            Self::Service => Type::Service,
            Self::Autoscaler => Type::Autoscaler,
            Self::Budget => Type::Budget,
            Self::ServiceAccount | Self::ConfigMap => Type::Plain,
        }
    }
}
