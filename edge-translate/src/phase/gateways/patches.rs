//! Patches of what a fleet's proxies are sent: which policies apply, in which order.
//!
//! Translation doesn't know what resources look like. It hands the patches on with the fleet; whoever lowers it tells
//! which could not be applied (`Fact::Patched`), and their policies say so (`statuses::edge_patch_policy`).

use super::proxy_settings::operation;
use crate::{
    api::{EdgePatchPolicy, EdgePatchType, Kind},
    engine::reader::Reader,
    name::FleetId,
    phase::{origin, precedence::Seniority},
    settings::Feature,
};
use edge_ir::{FleetOwner, Patch};
use std::sync::Arc;

/// The patches of a fleet, in the order in which they apply; none while it has no Gateway. They are told by its name
/// alone, which is that of its Gateway, or of the class whose Gateways share it: what these say is no matter here.
pub(crate) fn patches(reader: &Reader<'_>, fleet: FleetId) -> Option<Vec<Patch>> {
    reader.members(fleet).first()?;
    if reader.settings().patch_api == Feature::Disabled {
        return Some(Vec::new());
    }
    let name = reader.text(fleet.0);
    let target = match FleetOwner::of_key(&name) {
        FleetOwner::Gateway { namespace, name } => (Kind::Gateway, reader.id(namespace, name)),
        FleetOwner::Class(name) => (Kind::GatewayClass, reader.id("", name)),
    };
    let policies = reader.patch_policies(target.0, target.1);
    let mut policies: Vec<&EdgePatchPolicy> = policies
        .filter_map(|id| Some(&**reader.edge_patch_policy(id)?))
        .filter(|policy| policy.spec.r#type == EdgePatchType::JsonPatch)
        .collect();
    policies.sort_by_cached_key(|policy| (policy.spec.priority, Seniority::of(&policy.metadata)));
    Some(policies.into_iter().flat_map(of_policy).collect())
}

fn of_policy(policy: &EdgePatchPolicy) -> impl Iterator<Item = Patch> {
    let metadata = &policy.metadata;
    let origin = origin::origin(
        Kind::EdgePatchPolicy,
        Arc::clone(&metadata.namespace),
        Arc::clone(&metadata.name),
    );
    policy
        .spec
        .json_patches
        .iter()
        .enumerate()
        .map(move |(index, patch)| Patch {
            origin: origin.clone(),
            index,
            type_url: (&*patch.r#type).into(),
            name: (&*patch.name).into(),
            operation: operation(&patch.operation),
        })
}
