//! Gateway and its listeners.

use super::listener_set;
use crate::{
    api,
    engine::reader::Reader,
    name::Id,
    phase::{
        gateways::{
            gateway::{Gateway, Member, asked_addresses},
            infrastructure,
        },
        listeners::{client_certificate, client_validation, fleet::ListenerState},
    },
    status::{Condition, GatewayStatus, ListenerStatus, Status, StatusBody},
};
use std::{collections::BTreeSet, sync::Arc};

/// The status of a Gateway, apart from what depends on infrastructure.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.gateway_object(id)?;
    let Gateway::Member(member) = &**reader.gateway(id)? else {
        return Some(without_class(reader, object));
    };
    let class: Arc<str> = (&*object.spec.gateway_class_name).into();
    let listeners = reader.listeners(member.fleet);
    let Some(mine) = listeners.and_then(|l| l.gateways.iter().find(|g| g.id == id)) else {
        // Our own code failed at its listeners.
        return Some(Some(Status {
            observed_generation: object.metadata.generation,
            body: StatusBody::Gateway(GatewayStatus {
                class,
                ..GatewayStatus::default()
            }),
        }));
    };
    let mut conditions = vec![accepted(reader, member, object, &mine.listeners)];
    conditions.extend(client_certificate::conditions(reader, object));
    if client_validation::falls_back(object) {
        conditions.push(Condition::yes(
            "InsecureFrontendValidationMode",
            "ConfigurationChanged",
            "Gateway is using AllowInsecureFallback frontend validation mode.",
        ));
    }
    conditions.extend(
        refusal(reader, member)
            .is_none()
            .then(|| outvoted(reader, member, id))
            .flatten(),
    );
    let spec = &object.spec.listeners;
    let listeners = mine.listeners.iter().map(|l| listener(reader, spec, l)).collect();
    let n_sets = match refusal(reader, member) {
        None => mine.sets.iter().filter(|set| listener_set::is_accepted(set)).count(),
        Some(_) => 0,
    };
    let body = StatusBody::Gateway(GatewayStatus {
        conditions,
        listeners,
        attached_listener_sets: u32::try_from(n_sets).unwrap_or(u32::MAX),
        class,
        asked: asked_addresses(object).map(Arc::from).collect(),
    });
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}

/// A Gateway whose class nobody knows belongs to nobody.
fn without_class(reader: &Reader<'_>, object: &api::Gateway) -> Option<Status> {
    let class = &object.spec.gateway_class_name;
    if reader.class(reader.sym(class)).is_some() {
        return None;
    }
    let reason = format!("spec.gatewayClassName: there is no GatewayClass {class}, so nobody serves the Gateway");
    Some(Status {
        observed_generation: object.metadata.generation,
        body: StatusBody::Unattached(vec![reason]),
    })
}

fn accepted(reader: &Reader<'_>, member: &Member, object: &api::Gateway, listeners: &[ListenerState]) -> Condition {
    if let Some(refusal) = refusal(reader, member) {
        return refusal;
    }
    let mut bad: Vec<&str> = listeners
        .iter()
        .filter(|l| !l.is_accepted())
        .map(|l| &*object.spec.listeners[l.index].name)
        .collect();
    let counted = |index: usize| listeners.iter().any(|l| l.index == index);
    let repeated = object.spec.listeners.iter().enumerate().filter(|(i, _)| !counted(*i));
    bad.extend(repeated.map(|(_, l)| &*l.name));
    bad.sort_unstable();
    let names = bad.join(", ");
    let repeated = repeated_names(&object.spec.listeners);
    if bad.is_empty() {
        Condition::yes("Accepted", "Accepted", "The Gateway has been scheduled by Edge Gateway")
    } else if bad.len() < object.spec.listeners.len() {
        Condition::yes(
            "Accepted",
            "ListenersNotValid",
            format!("Listeners not valid: {names}{repeated}"),
        )
    } else {
        Condition::no(
            "Accepted",
            "ListenersNotValid",
            format!("No listeners are valid: {names}{repeated}"),
        )
    }
}

/// Why a Gateway isn't accepted, whatever its listeners are.
pub(super) fn refusal(reader: &Reader<'_>, member: &Member) -> Option<Condition> {
    if let Some(problem) = &member.problem {
        return Some(Condition::no("Accepted", problem.reason, problem.message.clone()));
    }
    let telemetry = &reader.fleet_shape(member.fleet)?.telemetry;
    let message = (!telemetry.problems.is_empty()).then(|| telemetry.problems.join("; "))?;
    Some(Condition::no("Accepted", "InvalidParameters", message))
}

/// What a Gateway says of the objects that it shares with others, and an older one says otherwise.
fn outvoted(reader: &Reader<'_>, member: &Member, id: Id) -> Option<Condition> {
    let told = infrastructure::outvoted(reader, member.fleet, id);
    (!told.is_empty()).then(|| Condition::yes("Warning", "SharedInfrastructure", told.join("; ")))
}

/// What is to be said of names that several listeners have: a status has one entry a name.
fn repeated_names(listeners: &[api::Listener]) -> String {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<&str> = listeners
        .iter()
        .map(|l| &*l.name)
        .filter(|name| !seen.insert(*name))
        .collect();
    let sentence = |name| format!(". Several listeners are named \"{name}\", of which only the first counts");
    repeated.into_iter().map(sentence).collect()
}

/// The status of one of the listeners of an object.
pub(super) fn listener(reader: &Reader<'_>, spec: &[api::Listener], state: &ListenerState) -> ListenerStatus {
    ListenerStatus {
        name: (&*spec[state.index].name).into(),
        supported_kinds: state.kinds.iter().map(|k| k.as_str().into()).collect(),
        attached_routes: reader.n_attached(state.id),
        conditions: state.conditions.clone(),
    }
}
