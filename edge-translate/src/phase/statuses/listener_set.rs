//! ListenerSet and its listeners.

use super::gateway;
use crate::{
    api,
    engine::reader::Reader,
    name::Id,
    phase::{
        gateways::gateway::{Gateway, Member},
        listeners::{
            fleet::{GatewayListeners, ListenerState, Serving, SetListeners},
            listener_set::{self, Admission},
        },
    },
    status::{Condition, ListenerSetStatus, Status, StatusBody},
};

/// The status of a ListenerSet; nothing to say when its Gateway isn't ours.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.listener_set(id)?;
    let found = listener_set::parent(reader, object).and_then(|parent| {
        let Gateway::Member(member) = &**reader.gateway(parent)? else {
            return None;
        };
        let listeners = reader.listeners(member.fleet)?;
        let gateway = listeners.gateways.iter().find(|g| g.id == parent)?;
        let set = gateway.sets.iter().find(|s| s.id == id)?;
        Some((member, gateway, set))
    });
    let Some((member, gateway, set)) = found else {
        return Some(without_gateway(reader, object));
    };
    let listeners = set
        .listeners
        .iter()
        .map(|l| gateway::listener(reader, &object.spec.listeners, l));
    let body = StatusBody::ListenerSet(ListenerSetStatus {
        conditions: conditions(reader, member, gateway, object, set),
        listeners: listeners.collect(),
    });
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}

/// A ListenerSet whose Gateway nobody knows adds to nothing. One of another controller's Gateway isn't ours.
fn without_gateway(reader: &Reader<'_>, object: &api::ListenerSet) -> Option<Status> {
    let parent = listener_set::parent(reader, object)?;
    if reader.gateway(parent).is_some() {
        return None;
    }
    let (namespace, name) = (reader.text(parent.namespace), reader.text(parent.name));
    let reason = format!("spec.parentRef: there is no Gateway {namespace}/{name}, so the listeners are nobody's");
    Some(Status {
        observed_generation: object.metadata.generation,
        body: StatusBody::Unattached(vec![reason]),
    })
}

/// Whether a ListenerSet counts as attached to its Gateway, if that is accepted.
pub(super) fn is_accepted(set: &SetListeners) -> bool {
    set.admission == Admission::Allowed && set.listeners.iter().any(ListenerState::is_accepted)
}

fn conditions(
    reader: &Reader<'_>,
    member: &Member,
    gateway: &GatewayListeners,
    object: &api::ListenerSet,
    set: &SetListeners,
) -> Vec<Condition> {
    let metadata = &gateway.object.metadata;
    let parent = format!("{}/{}", metadata.namespace, metadata.name);
    let refused = |reason, message| {
        let programmed = Condition::no("Programmed", reason, "Not Programmed");
        vec![Condition::no("Accepted", reason, message), programmed]
    };
    if set.admission == Admission::NotAllowed {
        let namespace = &object.metadata.namespace;
        let message = format!("ListenerSet attachment from namespace {namespace} not allowed by Gateway {parent}");
        let fault = listener_set::selector_fault(&gateway.object);
        let fault = fault.map(|why| format!(": its allowedListeners.namespaces.selector could not be parsed: {why}"));
        return refused("NotAllowed", message + &fault.unwrap_or_default());
    }
    if gateway::refusal(reader, member).is_some() {
        return refused("ParentNotAccepted", format!("Parent Gateway {parent} not accepted"));
    }
    let n_accepted = set.listeners.iter().filter(|l| l.is_accepted()).count();
    let accepted = if n_accepted == 0 {
        Condition::no("Accepted", "ListenersNotValid", "No listeners are accepted")
    } else if n_accepted < object.spec.listeners.len() {
        Condition::yes("Accepted", "ListenersNotValid", "Some listeners are invalid")
    } else {
        Condition::yes("Accepted", "Accepted", "All listeners are accepted")
    };
    let n_serving = set.listeners.iter().filter(|l| l.serving == Serving::Yes).count();
    let programmed = if n_serving == 0 {
        Condition::no("Programmed", "ListenersNotValid", "No listeners are programmed")
    } else if n_serving < object.spec.listeners.len() {
        Condition::yes("Programmed", "Programmed", "Some listeners are not programmed")
    } else {
        Condition::yes("Programmed", "Programmed", "All listeners are programmed")
    };
    vec![accepted, programmed]
}
