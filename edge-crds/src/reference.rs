//! References to other objects, in the forms of Gateway API.

use crate::{
    number::PortNumber,
    text::{Group, KindName, NamespaceName, ObjectName, SectionName},
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backend.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("(self.group == '' && self.kind == 'Service') ? has(self.port) : true", "Must have port for Service reference"))]
pub struct BackendObjectReference {
    /// API group of the backend; empty for a Service.
    #[schemars(extend("default" = ""))]
    pub group: Option<Group>,
    /// Kind of the backend.
    #[schemars(extend("default" = "Service"))]
    pub kind: Option<KindName>,
    /// Its name.
    pub name: ObjectName,
    /// Its namespace; that of the referrer when absent. Another one must allow it by a ReferenceGrant, except to an
    /// EdgeProxy.
    pub namespace: Option<NamespaceName>,
    /// Its port, which a Service needs.
    pub port: Option<PortNumber>,
}

/// An object in the same namespace.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectReference {
    /// API group of the object; empty for core kinds.
    pub group: Group,
    /// Its kind.
    pub kind: KindName,
    /// Its name.
    pub name: ObjectName,
}

/// A Secret, or an object that holds something like it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretObjectReference {
    /// API group of the object; empty for core kinds.
    #[schemars(extend("default" = ""))]
    pub group: Option<Group>,
    /// Its kind.
    #[schemars(extend("default" = "Secret"))]
    pub kind: Option<KindName>,
    /// Its name.
    pub name: ObjectName,
    /// Its namespace; that of the referrer when absent. Another one must allow it by a ReferenceGrant.
    pub namespace: Option<NamespaceName>,
}

/// What a policy is for, in the same namespace.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPolicyTargetReference {
    /// API group of the target.
    pub group: Group,
    /// Its kind.
    pub kind: KindName,
    /// Its name.
    pub name: ObjectName,
}

/// What a policy is for, or a part of it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPolicyTargetReferenceWithSectionName {
    /// The target.
    #[serde(flatten)]
    pub target: LocalPolicyTargetReference,
    /// A listener of a Gateway or a rule of a route; the whole target when absent.
    pub section_name: Option<SectionName>,
}

/// What a status is about.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// API group of the parent.
    #[schemars(extend("default" = "gateway.networking.k8s.io"))]
    pub group: Option<Group>,
    /// Its kind.
    #[schemars(extend("default" = "Gateway"))]
    pub kind: Option<KindName>,
    /// Its namespace; that of the object when absent.
    pub namespace: Option<NamespaceName>,
    /// Its name.
    pub name: ObjectName,
    /// A part of it.
    pub section_name: Option<SectionName>,
    /// A port of it.
    pub port: Option<PortNumber>,
}
