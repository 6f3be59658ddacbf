//! EdgeProxy, under each class and Gateway that names it.

use super::ancestor;
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::Id,
    phase::{
        backends::defaults,
        gateways::{
            class::Class,
            gateway::{Gateway, Merge, NO_SAY},
            proxy_settings, telemetry,
        },
    },
    status::{Condition, ParentStatus, Status, StatusBody},
};

/// The status of an EdgeProxy; none inside when nobody of ours names it.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.edge_proxy(id)?;
    let settings = reader.settings();
    let mut told = telemetry::telemetry(reader, object, "").problems;
    told.extend(defaults::defaults(reader, object).err());
    let mut conditions = vec![match proxy_settings::check(object, settings) {
        Err(errors) => Condition::no("Accepted", "InvalidParameters", errors),
        Ok(()) if !told.is_empty() => Condition::no("Accepted", "InvalidParameters", told.join("; ")),
        Ok(()) => Condition::yes("Accepted", "Accepted", "EdgeProxy has been accepted."),
    }];
    if object.spec.lua_validation.is_some() {
        let message = "spec.luaValidation is deprecated, use spec.lua.validationType instead";
        conditions.push(Condition::yes("Warning", "DeprecatedField", message));
    }
    let users = reader
        .proxy_users(id)
        .filter(|(kind, user)| is_ours(reader, *kind, *user));
    let under = |(kind, user)| ParentStatus {
        parent: ancestor::whole(reader, kind, user),
        conditions: match shares_a_fleet(reader, kind, user) {
            true => vec![Condition::no("Accepted", "InvalidParameters", format!("It {NO_SAY}."))],
            false => conditions.clone(),
        },
    };
    let mut ancestors: Vec<_> = users.map(under).collect();
    let order = |a: &ParentStatus| (a.parent.kind.clone(), a.parent.namespace.clone(), a.parent.name.clone());
    ancestors.sort_by_key(order);
    if ancestors.is_empty() {
        return Some(None);
    }
    let body = StatusBody::Ancestors {
        controller_name: settings.controller_name.clone(),
        ancestors,
    };
    Some(Some(Status {
        observed_generation: object.metadata.generation,
        body,
    }))
}

fn is_ours(reader: &Reader<'_>, kind: Kind, id: Id) -> bool {
    match kind {
        Kind::GatewayClass => reader.class(id.name).is_some_and(|c| !matches!(**c, Class::Foreign)),
        _ => reader.gateway(id).is_some_and(|g| !matches!(**g, Gateway::Foreign)),
    }
}

/// Whether it is a Gateway that shares the fleet of its class.
fn shares_a_fleet(reader: &Reader<'_>, kind: Kind, id: Id) -> bool {
    let gateway = reader.gateway(id).filter(|_| kind == Kind::Gateway);
    gateway.is_some_and(|gateway| matches!(&**gateway, Gateway::Member(member) if member.merge == Merge::Class))
}
