//! Policies of kinds that the configuration names for extension services (`policyResources`). What they say is the
//! services' business; here stands whom they are for. Any number of them may be for the same.

use crate::{
    api::{CustomObject, Kind, Object},
    engine::reader::Reader,
    name::{FleetId, Id, RouteId, Sym},
    phase::precedence::Seniority,
    world::Cover,
};
use edge_ir::{CustomObjects, CustomPolicy, Origin};
use std::sync::Arc;

/// Whether such policies may be for objects of a kind.
pub(crate) fn may_target(kind: Kind) -> bool {
    matches!(kind, Kind::Gateway | Kind::HttpRoute | Kind::GrpcRoute)
}

/// Policies over a route, with the rule that each names; nearly all routes have none.
pub(crate) type OverRoute = Option<Box<Vec<(Option<Sym>, Id)>>>;

/// Which policies are over a route. For its attachment alone (`Reader::covers`).
pub(crate) fn over_route(reader: &Reader<'_>, route: RouteId) -> OverRoute {
    let kind = route.kind.kind();
    if !may_target(kind) {
        return None;
    }
    let over: Vec<_> = custom(reader.covers(kind, route.id)).collect();
    (!over.is_empty()).then(|| Box::new(over))
}

fn custom(covers: impl Iterator<Item = Cover>) -> impl Iterator<Item = (Option<Sym>, Id)> {
    let custom = covers.filter(|cover| cover.policy.kind == Kind::CustomPolicy);
    custom.map(|cover| (cover.section, cover.policy.id))
}

/// A policy with the part that it names.
pub(crate) type Placed<'a> = (Option<Sym>, &'a Arc<CustomObject>);

/// Policies over a route as they are, the oldest first.
pub(crate) fn of_route<'a>(reader: &Reader<'a>, over: &OverRoute) -> Vec<Placed<'a>> {
    let over = over.iter().flat_map(|over| over.iter().copied());
    in_order(reader, over)
}

fn in_order<'a>(reader: &Reader<'a>, over: impl IntoIterator<Item = (Option<Sym>, Id)>) -> Vec<Placed<'a>> {
    let found = over
        .into_iter()
        .filter_map(|(section, id)| match reader.object(Kind::CustomPolicy, id)? {
            Object::CustomPolicy(policy) => Some((section, policy)),
            _ => None,
        });
    let mut found: Vec<Placed<'a>> = found.collect();
    found.sort_by_cached_key(|(_, policy)| (Seniority::of(&policy.metadata), policy.key_name()));
    found
}

/// What services are shown with a rule: what it refers to, and the policies over it or all of its route.
pub(crate) fn with_policies(
    custom: Option<Arc<CustomObjects>>,
    rule: Option<Sym>,
    over: &[Placed<'_>],
) -> Option<Arc<CustomObjects>> {
    let meant = over.iter().filter(|(section, _)| section.is_none() || *section == rule);
    let mut policies: Vec<_> = meant.map(|(_, policy)| Arc::clone(&policy.content)).collect();
    // One may name both a route and a rule of it.
    policies.dedup();
    if policies.is_empty() {
        return custom;
    }
    let resources = custom.map(|custom| custom.resources.clone()).unwrap_or_default();
    CustomObjects { resources, policies }.shared()
}

/// The policies over the Gateways of a fleet, the oldest first, each with the listeners that it is for; none while it
/// has no Gateway.
pub(crate) fn over_fleet(reader: &Reader<'_>, fleet: FleetId) -> Option<Vec<CustomPolicy>> {
    let members = reader.members(fleet);
    members.first()?;
    let managers = &reader.settings().extensions;
    if managers.iter().all(|manager| manager.policy_resources.is_empty()) {
        // There are none, and policies of other kinds that come and go are no matter here.
        return Some(Vec::new());
    }
    let mut over: Vec<(Id, Option<Sym>, Id)> = Vec::new();
    for gateway in members.iter().copied() {
        let found = custom(reader.covers(Kind::Gateway, gateway));
        over.extend(found.map(|(section, policy)| (gateway, section, policy)));
    }
    if over.is_empty() {
        // Nearly all fleets, which needn't look at their listeners.
        return Some(Vec::new());
    }
    let mut ids: Vec<_> = over.iter().map(|(_, _, policy)| (None, *policy)).collect();
    ids.sort_unstable();
    ids.dedup();
    let policies = in_order(reader, ids).into_iter().map(|(_, policy)| {
        let id = reader.id(&policy.metadata.namespace, &policy.key_name());
        let parts = over.iter().filter(|(.., by)| *by == id);
        let parts: Vec<_> = parts.map(|(gateway, section, _)| (*gateway, *section)).collect();
        CustomPolicy {
            policy: Arc::clone(&policy.content),
            listeners: listeners(reader, fleet, &parts),
        }
    });
    // One that names nothing but listeners which aren't there is for nobody.
    Some(policies.filter(|custom| !custom.listeners.is_empty()).collect())
}

/// The listeners of Gateways, or those among them that have a name.
fn listeners(reader: &Reader<'_>, fleet: FleetId, parts: &[(Id, Option<Sym>)]) -> Vec<Origin> {
    let all = reader
        .listeners(fleet)
        .into_iter()
        .flat_map(|listeners| listeners.all());
    let meant = all.filter(|listener| {
        parts.iter().any(|(gateway, section)| {
            // A name in a target is that of a listener of the Gateway itself.
            let is_named = |name: Sym| listener.id.set.is_none() && listener.id.name == name;
            listener.id.gateway == *gateway && section.is_none_or(is_named)
        })
    });
    meant.map(|listener| listener.origin.clone()).collect()
}
