//! What Gateways say in `spec.infrastructure` of their fleet's objects. Those that share one write on the same Service
//! and pods, so who isn't accepted has no say, and of two that say different things the older one has it.

use super::gateway::{Member, Merge};
use crate::{
    api::{GatewayInfrastructure, StringMap},
    engine::reader::Reader,
    name::{FleetId, Id},
    phase::listeners::fleet::{FleetListeners, GatewayListeners},
};
use edge_ir::StringMap as Entries;

/// A part of `spec.infrastructure`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Labels.
    Labels,
    /// Annotations.
    Annotations,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    fn of(self, infrastructure: &GatewayInfrastructure) -> &StringMap {
        match self {
            Self::Labels => &infrastructure.labels,
            Self::Annotations => &infrastructure.annotations,
        }
    }
}

/// What stands on the objects of a fleet.
pub(super) fn entries(reader: &Reader<'_>, listeners: &FleetListeners, part: Part) -> Entries {
    let mut all = Entries::new();
    for gateway in listeners.gateways.iter().filter(|gateway| has_say(reader, gateway)) {
        for (key, value) in said(gateway, part) {
            all.entry(key.into()).or_insert_with(|| value.into());
        }
    }
    all
}

/// What a Gateway that is accepted asks for in vain, each with whose word counts.
pub(crate) fn outvoted(reader: &Reader<'_>, fleet: FleetId, id: Id) -> Vec<String> {
    let mut told = Vec::new();
    let Some(listeners) = reader.listeners(fleet) else {
        return told;
    };
    let older = || listeners.gateways.iter().take_while(|gateway| gateway.id != id);
    let Some(own) = listeners.gateways.iter().find(|gateway| gateway.id == id) else {
        return told;
    };
    for part in [Part::Labels, Part::Annotations] {
        for (key, value) in said(own, part) {
            let mut others = older().filter(|other| has_say(reader, other));
            let decides = others.find_map(|other| Some((other, said(other, part).find(|(k, _)| *k == key)?.1)));
            let Some((other, _)) = decides.filter(|(_, theirs)| *theirs != value) else {
                continue;
            };
            let metadata = &other.object.metadata;
            told.push(format!(
                "spec.infrastructure.{}[{key}] has no effect: the Gateways of the class share the objects of a fleet, and \
                 the older Gateway {}/{} sets it to something else",
                part.name(),
                metadata.namespace,
                metadata.name,
            ));
        }
    }
    told
}

fn said(gateway: &GatewayListeners, part: Part) -> impl Iterator<Item = (&str, &str)> {
    let infrastructure = gateway.object.spec.infrastructure.as_deref();
    infrastructure.into_iter().flat_map(move |all| part.of(all).iter())
}

/// Whether a Gateway is asked: whoever shares a fleet, and isn't accepted for what is wrong with itself, isn't. One
/// whose EdgeProxy can't be used keeps what its objects have.
fn has_say(reader: &Reader<'_>, gateway: &GatewayListeners) -> bool {
    let Some(member) = Member::of(reader, gateway.id) else {
        return false;
    };
    member.merge == Merge::Own || (member.problem.is_none() && gateway.has_valid_listeners())
}
