//! EdgePatchPolicy: patches of what proxies are sent.

use crate::reference::LocalPolicyTargetReference;
use crate::shape::JsonPatchOperation;
use crate::status::PolicyStatus;
use crate::values::values;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Patches of what proxies are sent.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize, KubeSchema)]
#[kube(
    group = "gateway.edge",
    version = "v1alpha1",
    kind = "EdgePatchPolicy",
    plural = "edgepatchpolicies",
    shortname = "epp",
    category = "edge-gateway",
    namespaced,
    doc = "Patches of what proxies are sent.",
    status = "PolicyStatus",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct EdgePatchPolicySpec {
    /// Kind of the patches.
    pub r#type: EdgePatchType,
    /// The patches, in order.
    pub json_patches: Option<Vec<EdgeJsonPatchConfig>>,
    /// The Gateway, or the GatewayClass when its Gateways are merged.
    pub target_ref: LocalPolicyTargetReference,
    /// The lowest comes first, then the oldest, then by name.
    pub priority: Option<i32>,
}

/// A patch of one xDS resource.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeJsonPatchConfig {
    /// Type of the xDS resource.
    pub r#type: XdsResourceType,
    /// Name of the xDS resource.
    pub name: String,
    /// What is done to it.
    pub operation: JsonPatchOperation,
}

values! {
    /// Values of `EdgePatchType`.
    pub enum EdgePatchType {
        JsonPatch = "JSONPatch",
    }
}

values! {
    /// Values of `XdsResourceType`.
    pub enum XdsResourceType {
        Listener = "type.googleapis.com/envoy.config.listener.v3.Listener",
        RouteConfiguration = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        Cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        ClusterLoadAssignment = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        Secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
    }
}
