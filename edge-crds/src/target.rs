//! What policies are for.

use crate::free::Core;
use crate::reference::LocalPolicyTargetReferenceWithSectionName;
use crate::text::{Group, KindName};
use crate::values::values;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a policy is for; exactly one form is used.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTargetReferences {
    /// Older form of `targetRefs`: one target in the namespace of the policy.
    pub target_ref: Option<LocalPolicyTargetReferenceWithSectionName>,
    /// What the policy is for, by name, in its own namespace.
    pub target_refs: Option<Vec<LocalPolicyTargetReferenceWithSectionName>>,
    /// What the policy is for, by labels.
    pub target_selectors: Option<Vec<TargetSelector>>,
}

/// Objects of a kind, by their labels.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.group == 'gateway.networking.k8s.io'", "group must be gateway.networking.k8s.io"))]
pub struct TargetSelector {
    /// API group of the targets.
    #[schemars(extend("default" = "gateway.networking.k8s.io"))]
    pub group: Option<Group>,
    /// Kind of the targets.
    pub kind: KindName,
    /// Where targets are looked for; only in the namespace of the policy when absent. Other namespaces must allow it by
    /// a ReferenceGrant.
    pub namespaces: Option<TargetSelectorNamespaces>,
    /// Labels that a target has, all of them.
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Conditions on the labels of a target, all of which hold.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Option<Vec<Core<LabelSelectorRequirement>>>,
}

/// Where targets of a selector are.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.from != 'Selector' || has(self.selector)", "selector must be specified when from is Selector"))]
pub struct TargetSelectorNamespaces {
    /// Same: that of the policy. All: every one. Selector: those that `selector` takes.
    #[schemars(extend("default" = "Same"))]
    pub from: TargetNamespaceFrom,
    /// Labels of the namespaces, for Selector.
    pub selector: Option<Core<LabelSelector>>,
}

values! {
    /// Values of `TargetNamespaceFrom`.
    pub enum TargetNamespaceFrom {
        Same = "Same",
        All = "All",
        Selector = "Selector",
    }
}
