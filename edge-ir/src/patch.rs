//! Patches of what proxies are sent, as somebody wrote them, and what became of them.

use crate::{JsonPatchOperation, Origin};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One operation on one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The policy that asks for it.
    pub origin: Origin,
    /// Its place among the patches of the policy.
    pub index: usize,
    /// Type URL of the resource.
    #[serde(rename = "type")]
    pub type_url: Arc<str>,
    /// Name of the resource.
    pub name: Arc<str>,
    /// What is done to it.
    pub operation: JsonPatchOperation,
}

/// What became of a patch that could not be applied. The resource stays as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchFailure {
    /// The policy that asked for it.
    pub origin: Origin,
    /// Its place among the patches of the policy.
    pub index: usize,
    /// Why.
    pub problem: PatchProblem,
}

/// Why a patch could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchProblem {
    /// There is no such resource: its type URL and name.
    NotFound(String),
    /// The operation can't be applied, or what comes out is no resource.
    Invalid(String),
}
