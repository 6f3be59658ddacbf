//! Objects of kinds that only extension services know.

use crate::Origin;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An object of a kind that the configuration names for an extension service. Nobody but the service knows what it
/// says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomObject {
    /// API group of its kind.
    pub group: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// All of it but its status, as JSON.
    pub json: Arc<str>,
}

/// What extension services are shown beside a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomObjects {
    /// What the resource refers to, in the order in which it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Arc<CustomObject>>,
    /// Policies that are for the resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Arc<CustomObject>>,
}

impl CustomObjects {
    /// Shared; none where there is nothing to show.
    pub fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

/// A policy of a kind that only extension services know, with the Gateway listeners that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomPolicy {
    /// The policy.
    pub policy: Arc<CustomObject>,
    /// Listeners, as the origins of sockets name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Origin>,
}
