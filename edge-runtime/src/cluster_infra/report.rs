//! How a fleet is doing, from what was seen of its objects. Pure.
//!
//! Only the objects that the fleet is made of count: whoever may create a Service with our labels and marks can't put
//! an address into a Gateway's status.

use super::{
    seen::{ObjectId, ObservedObject, View},
    write::Fault,
};
use crate::{
    cluster::objects::WORKLOADS,
    state::{AskedAddresses, Availability, Report},
};
use edge_infra::{ObjectKind, object_name};
use edge_ir::{Infra, Placement};
use edge_translate::Home;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// Fields of a Service with the addresses that a Gateway asks for.
const ADDRESS_FIELDS: [&str; 2] = ["spec.externalIPs", "spec.clusterIP"];

/// Of a fleet that isn't there.
pub(super) fn nothing_yet() -> Report {
    Report {
        availability: Availability::Starting,
        replicas: 0,
        stuck: None,
        addresses: Vec::new(),
        asked: AskedAddresses::default(),
    }
}

/// What the cluster shows of a fleet of which nobody knows what is wanted. None where that doesn't show where clients
/// reach it: somebody else may give a Service a name of their own and our marks, where fleets are in the namespaces of
/// their Gateways.
pub(super) fn report_of_unknown(home: &Home, view: &View, nodes: &[IpAddr]) -> Option<Report> {
    let at_home = || {
        let at_home = |id: &ObjectId, seen: &ObservedObject| id.namespace == home.namespace && !seen.leaves;
        view.iter().filter(move |(id, seen)| at_home(id, seen))
    };
    let mut services = at_home().filter(|(id, _)| id.kind == ObjectKind::Service);
    let by_rule = services.clone().find(|(id, _)| id.name == home.name);
    let service = match (by_rule, home.placement) {
        (Some((_, service)), _) => service,
        (None, Placement::Controller) => match (services.next(), services.next()) {
            (Some((_, service)), None) => service,
            _ => return None,
        },
        (None, Placement::Gateway) => return None,
    };
    let workloads = at_home().filter(|(id, _)| WORKLOADS.contains(&id.kind));
    let pods = workloads.map(|(id, workload)| workload.pods(id.kind));
    let (replicas, available) = pods.max_by_key(|(_, available)| *available).unwrap_or((0, 0));
    let external = service.external_addresses().into_iter();
    Some(Report {
        availability: match available {
            0 => Availability::Starting,
            available => Availability::Available(available),
        },
        replicas,
        stuck: None,
        addresses: service.addresses_of_type(nodes),
        asked: nothing_missing(external.map(|ip| (ip.to_string().into(), ip)).collect()),
    })
}

/// What there is to say of a fleet.
pub(super) fn report(infra: &Infra, view: &View, nodes: &[IpAddr], fault: Option<&Fault>) -> Report {
    // While one workload takes another's place, the one that serves more counts.
    let workloads = WORKLOADS.iter().filter_map(|kind| own(infra, view, *kind));
    let pods = workloads.map(|(kind, workload)| workload.pods(kind));
    let (replicas, available) = pods.max_by_key(|(_, available)| *available).unwrap_or((0, 0));
    let service = own(infra, view, ObjectKind::Service).map(|(_, service)| service);
    let asked = asked(infra, service, fault);
    let availability = match (fault, available) {
        (Some(Fault::Refused { text, .. }), _) if asked.missing.is_empty() => {
            Availability::Failed(text.as_str().into())
        }
        // What runs goes on while the API server is away.
        (Some(Fault::Failing(text)), 0) => Availability::Unavailable(text.as_str().into()),
        (_, 0) => Availability::Starting,
        (_, available) => Availability::Available(available),
    };
    let stuck = WORKLOADS.iter().find_map(|kind| own(infra, view, *kind)?.1.stuck());
    Report {
        availability,
        replicas,
        stuck: stuck.map(Into::into),
        addresses: service.map_or_else(Vec::new, |service| service.addresses_of_type(nodes)),
        asked,
    }
}

/// The fleet's object of a kind, unless it is on its way out.
fn own<'a>(infra: &Infra, view: &'a View, kind: ObjectKind) -> Option<(ObjectKind, &'a ObservedObject)> {
    let id = ObjectId {
        kind,
        namespace: Arc::clone(&infra.namespace),
        name: object_name(infra, kind),
    };
    let seen = view.get(&id).filter(|seen| !seen.leaves)?;
    Some((kind, seen))
}

/// The addresses of a Service among which those are that a Gateway has asked for.
fn given(infra: &Infra, service: &ObservedObject) -> Vec<IpAddr> {
    if infra.addresses.is_empty() {
        return Vec::new();
    }
    let mut given = service.external_addresses();
    if service.is_inside_only() {
        given.extend(service.cluster_addresses());
    }
    let families = service.families();
    given.retain(|ip| families.is_empty() || families.contains(&ip.is_ipv6()));
    given
}

/// What has become of the addresses that Gateways ask for, and why they don't get some, where that is known.
fn asked(infra: &Infra, service: Option<&ObservedObject>, fault: Option<&Fault>) -> AskedAddresses {
    let of_service = service.map_or_else(Vec::new, |service| given(infra, service));
    let given_of = |asked: &Arc<str>| {
        let number: IpAddr = asked.parse().ok()?;
        of_service.contains(&number).then(|| (Arc::clone(asked), number))
    };
    let given = infra.addresses.iter().filter_map(given_of).collect();
    let is_about = |field: &String| ADDRESS_FIELDS.iter().any(|of| field.starts_with(of));
    let refusal = match fault {
        Some(Fault::Refused { text, fields }) if fields.iter().any(is_about) => Some(text.as_str().into()),
        // Something else is wrong, and that is to be said.
        Some(Fault::Refused { .. }) => return nothing_missing(given),
        _ => None,
    };
    // Without a listener there is no Service, and nothing to be reached.
    if infra.ports.is_empty() {
        return nothing_missing(given);
    }
    let missing = infra.addresses.iter().filter(|asked| !given.contains_key(*asked));
    let missing = missing.map(|asked| (Arc::clone(asked), told(asked).into())).collect();
    AskedAddresses {
        given,
        missing,
        refusal,
    }
}

fn nothing_missing(given: BTreeMap<Arc<str>, IpAddr>) -> AskedAddresses {
    AskedAddresses {
        given,
        ..AskedAddresses::default()
    }
}

/// An address that isn't given, and why, where that is known from the address itself.
fn told(address: &str) -> String {
    match address.parse().is_ok_and(edge_infra::is_reserved) {
        true => format!("{address} (reserved by RFC 6890: nobody can be reached there)"),
        false => address.to_owned(),
    }
}

#[cfg(test)]
mod tests;
