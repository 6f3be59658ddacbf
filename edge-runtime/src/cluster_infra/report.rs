//! How a fleet is doing, from what was seen of its objects. Pure.
//!
//! Only the objects that the fleet is made of count: whoever may create a Service with our labels and marks can't put an
//! address into a Gateway's status.

use super::{
    seen::{ObjectId, Seen, View},
    succession::WORKLOADS,
    write::Fault,
};
use crate::state::{Address, Availability, Report};
use edge_infra::{ObjectKind, object_name};
use edge_ir::Infra;
use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

/// Fields of a Service with the addresses that a Gateway asks for.
const ADDRESS_FIELDS: [&str; 2] = ["spec.externalIPs", "spec.clusterIP"];

/// Of a fleet that isn't there.
pub(super) fn nothing_yet() -> Report {
    Report {
        availability: Availability::Starting,
        replicas: 0,
        addresses: Vec::new(),
        unusable: None,
    }
}

/// What there is to say of a fleet.
pub(super) fn report(infra: &Infra, view: &View, nodes: &[IpAddr], fault: Option<&Fault>) -> Report {
    // While one workload takes another's place, the one that serves more counts.
    let workloads = WORKLOADS.iter().filter_map(|kind| own(infra, view, *kind));
    let pods = workloads.map(|(kind, workload)| workload.pods(kind));
    let (replicas, available) = pods.max_by_key(|(_, available)| *available).unwrap_or((0, 0));
    let service = own(infra, view, ObjectKind::Service).map(|(_, service)| service);
    let unusable = unusable(infra, service, fault);
    let availability = match (fault, available) {
        (Some(Fault::Refused { text, .. }), _) if unusable.is_none() => Availability::Failed(text.as_str().into()),
        // What runs goes on while the API server is away.
        (Some(Fault::Failing(text)), 0) => Availability::Unavailable(text.as_str().into()),
        (_, 0) => Availability::Starting,
        (_, available) => Availability::Available(available),
    };
    Report {
        availability,
        replicas,
        addresses: service.map_or_else(Vec::new, |service| addresses(infra, service, nodes)),
        unusable,
    }
}

/// The fleet's object of a kind, unless it is on its way out.
fn own<'a>(infra: &Infra, view: &'a View, kind: ObjectKind) -> Option<(ObjectKind, &'a Seen)> {
    let id = ObjectId {
        kind,
        namespace: Arc::clone(&infra.namespace),
        name: object_name(infra, kind),
    };
    let seen = view.get(&id).filter(|seen| !seen.leaves)?;
    Some((kind, seen))
}

/// Where clients reach the Service: at the addresses that were asked for as far as it has them, else at those of its type.
fn addresses(infra: &Infra, service: &Seen, nodes: &[IpAddr]) -> Vec<Address> {
    let given = given(infra, service);
    let granted = |ip: &IpAddr| infra.addresses.iter().any(|asked| is_address(asked, ip));
    let asked: Vec<Address> = given
        .iter()
        .filter(|ip| granted(ip))
        .map(|ip| Address::Ip(*ip))
        .collect();
    if !asked.is_empty() {
        return asked;
    }
    service.addresses_of_type(nodes)
}

/// The addresses of a Service among which those are that a Gateway has asked for.
fn given(infra: &Infra, service: &Seen) -> Vec<IpAddr> {
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

fn is_address(text: &str, ip: &IpAddr) -> bool {
    text.parse::<IpAddr>().as_ref() == Ok(ip)
}

/// Addresses that the Gateway asks for and doesn't get, and why, where that is known.
fn unusable(infra: &Infra, service: Option<&Seen>, fault: Option<&Fault>) -> Option<Arc<str>> {
    // Without a listener there is no Service, and nothing to be reached.
    if infra.addresses.is_empty() || infra.ports.is_empty() {
        return None;
    }
    let why = match fault {
        Some(Fault::Refused { text, fields }) => {
            let is_about = |field: &String| ADDRESS_FIELDS.iter().any(|of| field.starts_with(of));
            if !fields.iter().any(is_about) {
                // Something else is wrong, and that is to be said.
                return None;
            }
            Some(text)
        }
        _ => None,
    };
    let given = service.map_or_else(Vec::new, |service| given(infra, service));
    let is_given = |asked: &&Arc<str>| given.iter().any(|ip| is_address(asked, ip));
    let missing: BTreeSet<&str> = infra
        .addresses
        .iter()
        .filter(|asked| !is_given(asked))
        .map(|asked| &**asked)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let join = |list: Vec<String>| list.join(", ");
    Some(match why {
        Some(why) => format!("{}: {why}", join(missing.into_iter().map(str::to_owned).collect())).into(),
        None => join(missing.into_iter().map(told).collect()).into(),
    })
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
