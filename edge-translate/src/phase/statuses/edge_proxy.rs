//! EdgeProxy, under each class and Gateway that names it.

use crate::{
    api::{Kind, ParentReference, text::Symbol},
    engine::reader::Reader,
    name::Id,
    phase::gateways::{class::Class, gateway::Gateway, proxy_settings},
    status::{Condition, ParentStatus, Status, StatusBody},
};
use std::sync::Arc;

/// The status of an EdgeProxy; none inside when nobody of ours names it.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.edge_proxy(id)?;
    let settings = reader.settings();
    let mut conditions = vec![match proxy_settings::check(object, settings) {
        Ok(()) => Condition::yes("Accepted", "Accepted", "EdgeProxy has been accepted."),
        Err(errors) => Condition::no("Accepted", "InvalidParameters", errors),
    }];
    if object.spec.lua_validation.is_some() {
        let message = "spec.luaValidation is deprecated, use spec.lua.validationType instead";
        conditions.push(Condition::yes("Warning", "DeprecatedField", message));
    }
    let users = reader
        .proxy_users(id)
        .filter(|(kind, user)| is_ours(reader, *kind, *user));
    let mut parents: Vec<ParentReference> = users.map(|(kind, user)| ancestor(reader, kind, user)).collect();
    parents.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    let ancestors: Vec<_> = parents
        .into_iter()
        .map(|parent| ParentStatus {
            parent: Arc::new(parent),
            conditions: conditions.clone(),
        })
        .collect();
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

fn ancestor(reader: &Reader<'_>, kind: Kind, id: Id) -> ParentReference {
    let namespace = reader.text(id.namespace);
    ParentReference {
        group: Symbol::new(kind.group()),
        kind: Symbol::new(kind.as_str()),
        namespace: (!namespace.is_empty()).then(|| (&*namespace).into()),
        name: (&*reader.text(id.name)).into(),
        section_name: None,
        port: None,
    }
}
