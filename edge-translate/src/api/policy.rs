//! What policies have in common: what they are for, and whether they stand alone.

use serde::{Deserialize, Serialize};

use crate::api::Text;
use crate::api::meta::{LabelRequirement, LabelSelector};
use crate::api::string_map::StringMap;
use crate::api::text::{Symbol, is_default, open_enum};

/// A target that a policy names, in its own namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// API group.
    #[serde(default = "gateway_api")]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// A listener or rule of it; absent means the whole object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub section_name: Option<Text>,
}

/// Targets that a policy chooses by their labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSelector {
    /// API group.
    #[serde(default = "gateway_api")]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Where they may be; absent means in the namespace of the policy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespaces: Option<Box<TargetNamespaces>>,
    /// Labels with these values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_labels: StringMap,
    /// Conditions on labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_expressions: Box<[LabelRequirement]>,
}

/// Where chosen targets may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetNamespaces {
    /// In which namespaces.
    #[serde(default)]
    pub from: TargetsFrom,
    /// Labels of these namespaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub selector: Option<Box<LabelSelector>>,
}

open_enum! {
    /// In which namespaces chosen targets may be.
    pub enum TargetsFrom {
        Same = "Same",
        All = "All",
        Selector = "Selector",
    }
}

open_enum! {
    /// How a policy is merged into that of a parent.
    pub enum MergeType {
        StrategicMerge = "StrategicMerge",
        JsonMerge = "JSONMerge",
        Replace = "Replace",
    }
}

/// What a policy is for, as it says so.
#[derive(Clone, Copy, Debug)]
pub struct PolicyTargets<'a> {
    /// Older form of a single target.
    pub single: Option<&'a TargetRef>,
    /// Targets by name.
    pub named: &'a [TargetRef],
    /// Targets by labels.
    pub chosen: &'a [TargetSelector],
}

/// The group of what policies are for, where they name none.
pub(crate) fn gateway_api() -> Symbol {
    Symbol::new("gateway.networking.k8s.io")
}
