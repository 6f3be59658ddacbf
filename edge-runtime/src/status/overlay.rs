//! What only the running system knows, laid over the translation's statuses: whether proxies run, and what they
//! reject.

use crate::state::{Address, Availability, Deliveries, Malformed, Refuser, Rejections, Report};
use edge_ir::{FleetKey, Origin};
use edge_translate::{
    api::{Kind, ObjectKey, ParentReference},
    status::{ClassStatus, Condition, GatewayStatus, ListenerSetStatus, ListenerStatus, Status, StatusBody, Truth},
};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const PROGRAMMED: &str = "Programmed";

/// Something of an object that a proxy rejected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejected {
    /// The fleet whose proxies rejected it. An object that serves others too is all right there.
    pub fleet: FleetKey,
    /// The part of the object.
    pub section: Option<Arc<str>>,
    /// Who rejected it.
    pub by: Refuser,
    /// What is wrong with it.
    pub reason: Arc<str>,
}

/// Which fleet serves a Gateway or a ListenerSet.
pub type Fleets = BTreeMap<ObjectKey, FleetKey>;

/// Rejections by the object that they came from.
pub fn by_object(rejections: &Rejections) -> BTreeMap<ObjectKey, Vec<Rejected>> {
    let mut objects: BTreeMap<ObjectKey, Vec<Rejected>> = BTreeMap::new();
    for rejection in rejections.values() {
        for origin in rejection.origins.iter() {
            if let Some(key) = object_of(origin) {
                let rejected = Rejected {
                    fleet: rejection.fleet.clone(),
                    section: origin.section.clone(),
                    by: rejection.by,
                    reason: Arc::clone(&rejection.reason),
                };
                objects.entry(key).or_default().push(rejected);
            }
        }
    }
    for list in objects.values_mut() {
        list.sort();
        list.dedup();
    }
    objects
}

/// The objects whose listeners all connected proxies of their fleet serve. A fleet without such a proxy isn't in it:
/// nobody knows what its proxies serve.
pub fn served(deliveries: &Deliveries) -> BTreeMap<FleetKey, BTreeSet<ObjectKey>> {
    let mut served: BTreeMap<FleetKey, BTreeSet<ObjectKey>> = BTreeMap::new();
    for delivery in deliveries.values() {
        let origins = delivery.listeners.values().flat_map(|origins| origins.iter());
        let objects: BTreeSet<ObjectKey> = origins.filter_map(object_of).collect();
        match served.get_mut(&delivery.fleet) {
            Some(all) => all.retain(|key| objects.contains(key)),
            None => drop(served.insert(delivery.fleet.clone(), objects)),
        }
    }
    served
}

/// The object that an origin names, if it is of a kind that has a status.
pub fn object_of(origin: &Origin) -> Option<ObjectKey> {
    let kind = Kind::ALL.iter().find(|kind| kind.as_str() == &*origin.kind)?;
    Some(ObjectKey::new(
        *kind,
        Arc::clone(&origin.namespace),
        Arc::clone(&origin.name),
    ))
}

/// Most addresses that a Gateway's status takes.
const MAX_ADDRESSES: usize = 16;

/// Adds a Gateway's `Programmed` and says its addresses.
pub fn add_infrastructure(status: &mut Status, report: Option<&Report>) -> Value {
    let StatusBody::Gateway(gateway) = &mut status.body else {
        return json!([]);
    };
    let (condition, addresses) = match report {
        Some(report) => {
            let addresses = addresses(report, &gateway.asked);
            (programmed(report, &gateway.asked, addresses.len()), addresses)
        }
        None => (no_resources("Proxy replicas unavailable"), Vec::new()),
    };
    set(&mut gateway.conditions, condition);
    addresses.iter().take(MAX_ADDRESSES).map(address).collect()
}

/// What a Gateway or a ListenerSet says when what it belongs to is gone: why is known already. A Gateway has no
/// addresses any more then.
pub fn abandon(status: &mut Status, kind: Kind) -> Option<Value> {
    let StatusBody::Unattached(reasons) = &status.body else {
        return None;
    };
    let why = reasons.join("; ");
    if kind == Kind::Gateway {
        let conditions = ["Accepted", PROGRAMMED].map(|condition| Condition::no(condition, "Pending", why.clone()));
        status.body = StatusBody::Gateway(GatewayStatus {
            conditions: conditions.into(),
            ..GatewayStatus::default()
        });
        return Some(json!([]));
    }
    status.body = StatusBody::ListenerSet(ListenerSetStatus {
        conditions: vec![
            Condition::no("Accepted", "ParentNotAccepted", why),
            Condition::no(PROGRAMMED, "ListenersNotValid", "No listeners are programmed"),
        ],
        listeners: Vec::new(),
    });
    None
}

/// Where clients reach a Gateway: at the addresses that it asks for as far as its fleet has them, else where the fleet
/// is.
fn addresses(report: &Report, asked: &[Arc<str>]) -> Vec<Address> {
    let given = asked.iter().filter_map(|asked| report.asked.given.get(asked));
    let given: Vec<Address> = given.map(|ip| Address::Ip(*ip)).collect();
    if given.is_empty() {
        return report.addresses.clone();
    }
    given
}

fn address(address: &Address) -> Value {
    match address {
        Address::Ip(ip) => json!({ "type": "IPAddress", "value": ip }),
        Address::Hostname(name) => json!({ "type": "Hostname", "value": name }),
    }
}

fn programmed(report: &Report, asked: &[Arc<str>], n_addresses: usize) -> Condition {
    let no = |reason: &'static str, message: String| Condition::no(PROGRAMMED, reason, message);
    let impossible = |why: &str| {
        let message = format!("The infrastructure can't be made as it is asked for: {why}");
        no("Invalid", message)
    };
    let available = match (&report.availability, report.asked.unusable(asked)) {
        (Availability::Failed(reason), _) => return impossible(reason),
        (_, Some(unusable)) => {
            let message = format!("One or more Gateway addresses cannot be used: {unusable}");
            return no("AddressNotUsable", message);
        }
        // Who shares a fleet shares its Service: while another's address keeps it from being changed, nobody's ports
        // are.
        (_, None) if let Some(refusal) = &report.asked.refusal => return impossible(refusal),
        (Availability::Starting, None) => return no_resources("Proxy replicas unavailable"),
        (Availability::Unavailable(reason), None) => {
            return no_resources(format!("Proxy replicas unavailable: {reason}"));
        }
        (Availability::Available(available), None) => available,
    };
    match n_addresses {
        0 => no(
            "AddressNotAssigned",
            "No addresses have been assigned to the Gateway".to_owned(),
        ),
        1..=MAX_ADDRESSES => {
            let replicas = report.replicas;
            let mut message =
                format!("Address assigned to the Gateway, {available}/{replicas} proxy replicas available");
            if let Some(why) = &report.stuck {
                message += &format!("; they can't be replaced by such as are wanted now: {why}");
            }
            Condition::yes(PROGRAMMED, PROGRAMMED, message)
        }
        n => {
            let message = format!(
                "Too many addresses ({n}) have been assigned to the Gateway; only the first {MAX_ADDRESSES} are included \
                 in the status."
            );
            Condition::yes(PROGRAMMED, PROGRAMMED, message)
        }
    }
}

/// Says of a Gateway that is up that its proxies don't serve it yet.
pub fn await_delivery(status: &mut Status) {
    if let StatusBody::Gateway(gateway) = &mut status.body
        && gateway
            .conditions
            .iter()
            .any(|condition| condition.kind == PROGRAMMED && condition.status == Truth::True)
    {
        let message = "The proxies haven't taken the listeners of this Gateway yet";
        set(&mut gateway.conditions, Condition::no(PROGRAMMED, "Pending", message));
    }
}

fn no_resources(message: impl Into<Cow<'static, str>>) -> Condition {
    Condition::no(PROGRAMMED, "NoResources", message)
}

/// Takes `Programmed` away from what proxies reject: a listener, the Gateway, or a route under each of its parents that
/// the rejecting fleet serves.
pub fn add_rejections(status: &mut Status, object: &ObjectKey, rejected: &[Rejected], fleets: &Fleets) {
    match &mut status.body {
        StatusBody::Conditions(conditions) | StatusBody::Class(ClassStatus { conditions, .. }) => {
            reject(conditions, rejected.iter().map(reason).collect());
        }
        StatusBody::Gateway(GatewayStatus {
            conditions, listeners, ..
        })
        | StatusBody::ListenerSet(ListenerSetStatus { conditions, listeners }) => {
            for rejection in rejected {
                let place = conditions_of(conditions, listeners, rejection.section.as_deref());
                reject(place, vec![reason(rejection)]);
            }
            // Where no listener is in force as it is asked for, neither is the whole.
            let is_rejected = |listener: &ListenerStatus| {
                let mut all = rejected.iter();
                all.any(|rejection| rejection.section.as_ref() == Some(&listener.name))
            };
            if !listeners.is_empty() && listeners.iter().all(is_rejected) {
                let reasons: BTreeSet<(Refuser, String)> = rejected.iter().map(reason).collect();
                reject(conditions, reasons.into_iter().collect());
            }
        }
        StatusBody::Unattached(_) => {}
        StatusBody::Parents { parents: entries, .. } | StatusBody::Ancestors { ancestors: entries, .. } => {
            for entry in entries {
                let fleet = parent_of(object, &entry.parent).and_then(|parent| fleets.get(&parent));
                let here = |rejection: &&Rejected| fleet.is_none_or(|fleet| *fleet == rejection.fleet);
                let here = rejected.iter().filter(here);
                reject(&mut entry.conditions, here.map(reason_with_section).collect());
            }
        }
    }
}

/// Says of an object that can't be read that it isn't accepted as it is now.
pub fn add_malformed(status: &mut Status, malformed: &Malformed) {
    status.observed_generation = malformed.generation;
    let message = format!(
        "The object can't be read: {}; what it said before, if anything, stays in force",
        malformed.message
    );
    let refused = Condition::no("Accepted", "Invalid", message);
    match &mut status.body {
        StatusBody::Conditions(conditions)
        | StatusBody::Class(ClassStatus { conditions, .. })
        | StatusBody::Gateway(GatewayStatus { conditions, .. })
        | StatusBody::ListenerSet(ListenerSetStatus { conditions, .. }) => set(conditions, refused),
        StatusBody::Unattached(_) => {}
        StatusBody::Parents { parents: entries, .. } | StatusBody::Ancestors { ancestors: entries, .. } => {
            for entry in entries {
                set(&mut entry.conditions, refused.clone());
            }
        }
    }
}

/// One condition for all.
fn reject(conditions: &mut Vec<Condition>, reasons: Vec<(Refuser, String)>) {
    let of = |refuser: Refuser, intro: &str| {
        let own = reasons.iter().filter(|(by, _)| *by == refuser);
        let own: Vec<&str> = own.map(|(_, reason)| &**reason).collect();
        (!own.is_empty()).then(|| format!("{intro}: {}", own.join("; ")))
    };
    let refused = of(Refuser::DataPlane, "Rejected by the data plane");
    let held = of(Refuser::Extension, "Kept back, the last good version stays in force");
    let messages: Vec<String> = refused.into_iter().chain(held).collect();
    if !messages.is_empty() {
        set(conditions, Condition::no(PROGRAMMED, "Invalid", messages.join("; ")));
    }
}

fn reason(rejection: &Rejected) -> (Refuser, String) {
    (rejection.by, rejection.reason.to_string())
}

/// A route or a policy says everything in one place, so the part of it is named.
fn reason_with_section(rejection: &Rejected) -> (Refuser, String) {
    match &rejection.section {
        Some(section) => (rejection.by, format!("{section}: {}", rejection.reason)),
        None => reason(rejection),
    }
}

/// The Gateway or ListenerSet that a parentRef of an object means.
pub(super) fn parent_of(object: &ObjectKey, parent: &ParentReference) -> Option<ObjectKey> {
    let kind = Kind::ALL.iter().find(|kind| kind.as_str() == &*parent.kind)?;
    let namespace = parent.namespace.as_deref().unwrap_or(&object.namespace);
    Some(ObjectKey::new(*kind, namespace, &*parent.name))
}

/// Those of a listener if it is named and known, else those of the object.
fn conditions_of<'a>(
    own: &'a mut Vec<Condition>,
    listeners: &'a mut [ListenerStatus],
    named: Option<&str>,
) -> &'a mut Vec<Condition> {
    match listeners.iter_mut().find(|known| Some(&*known.name) == named) {
        Some(listener) => &mut listener.conditions,
        None => own,
    }
}

fn set(conditions: &mut Vec<Condition>, condition: Condition) {
    match conditions.iter_mut().find(|known| known.kind == condition.kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
