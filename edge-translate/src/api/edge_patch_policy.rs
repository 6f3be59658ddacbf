//! EdgePatchPolicy (gateway.edge): changes to what proxies are sent.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::edge_proxy::JsonPatchOperation;
use crate::api::meta::{Metadata, StatusAsRead};
use crate::api::text::{Symbol, is_default, open_enum};

/// Patches of the resources of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgePatchPolicy {
    /// Name, labels and the like.
    #[serde(default)]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(default)]
    pub spec: EdgePatchPolicySpec,
    /// Status as read.
    #[serde(default, skip_serializing_if = "StatusAsRead::is_absent")]
    pub status: StatusAsRead,
}

/// What an EdgePatchPolicy asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgePatchPolicySpec {
    /// How it is written.
    #[serde(default)]
    pub r#type: EdgePatchType,
    /// The patches, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub json_patches: Box<[ResourcePatch]>,
    /// A Gateway, or its class where Gateways share a fleet.
    #[serde(default)]
    pub target_ref: PatchTarget,
    /// Lower ones apply first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i32,
}

open_enum! {
    /// How patches are written.
    pub enum EdgePatchType {
        JsonPatch = "JSONPatch",
    }
}

/// Whose proxies are meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchTarget {
    /// API group.
    #[serde(default)]
    pub group: Symbol,
    /// Kind.
    #[serde(default)]
    pub kind: Symbol,
    /// Name.
    #[serde(default)]
    pub name: Text,
}

/// A patch of one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePatch {
    /// Type URL of the resource.
    pub r#type: Text,
    /// Name of the resource.
    pub name: Text,
    /// What is done to it.
    pub operation: JsonPatchOperation,
}
