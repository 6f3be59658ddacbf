//! Statuses: what we say about each object. Reasons are contract; messages are for people.

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Id, RouteId, RouteKind},
    status::Status,
    world::is_in_force,
};

mod ancestor;
mod attached;
mod backend;
mod backend_tls_policy;
mod class;
mod custom_policy;
mod edge_patch_policy;
mod edge_proxy;
mod fault;
mod features;
mod gateway;
mod listener_set;
mod of_services;
mod out_of_place;
mod route;
mod target;
mod warning;

/// The status of an object; none when it doesn't exist, nothing inside when it isn't ours to speak of.
pub(crate) fn status(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    let mut status = of_kind(reader, kind, id)?;
    if let (Some(status), Some(object)) = (&mut status, reader.object(kind, id)) {
        warning::add(status, object.metadata());
    }
    Some(status)
}

fn of_kind(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    let mut status = by_kind(reader, kind, id)?;
    let faults = reader.faults(kind, id);
    if let Some(status) = status.as_mut().filter(|_| !faults.is_empty()) {
        fault::mark(status, &faults);
        // What stays in force is older than what this is about.
        status.observed_generation = reader.object(kind, id)?.metadata().generation;
    }
    Some(status)
}

fn by_kind(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    match kind {
        Kind::GatewayClass => class::status(reader, id),
        Kind::Gateway => gateway::status(reader, id),
        Kind::ListenerSet => listener_set::status(reader, id),
        Kind::Backend => backend::status(reader, id),
        Kind::EdgeProxy => edge_proxy::status(reader, id),
        Kind::EdgePatchPolicy => edge_patch_policy::status(reader, id),
        Kind::BackendTlsPolicy => backend_tls_policy::status(reader, id),
        Kind::CustomPolicy => custom_policy::status(reader, id),
        kind if is_in_force(kind) => attached::status(reader, kind, id),
        _ => route::status(
            reader,
            RouteId {
                kind: RouteKind::of(kind)?,
                id,
            },
        ),
    }
}

/// Kinds that we give a status to.
pub(crate) fn has_status(kind: Kind) -> bool {
    let is_own = matches!(
        kind,
        Kind::GatewayClass
            | Kind::Gateway
            | Kind::ListenerSet
            | Kind::Backend
            | Kind::EdgeProxy
            | Kind::EdgePatchPolicy
            | Kind::BackendTlsPolicy
            | Kind::CustomPolicy
    );
    is_own || is_in_force(kind) || RouteKind::of(kind).is_some()
}
