//! Statuses: what we say about each object. Reasons are contract; messages are for people.

use crate::{
    api::Kind,
    engine::{
        key::{RouteId, RouteKind},
        reader::Reader,
    },
    name::Id,
    status::Status,
};

mod backend;
mod class;
mod edge_proxy;
mod gateway;
mod route;

pub(crate) use backend::backend_problem;

/// The status of an object; none when it doesn't exist, nothing inside when it isn't ours to speak of.
pub(crate) fn status(reader: &Reader<'_>, kind: Kind, id: Id) -> Option<Option<Status>> {
    match kind {
        Kind::GatewayClass => class::status(reader, id),
        Kind::Gateway => gateway::status(reader, id),
        Kind::HttpRoute => route::status(
            reader,
            RouteId {
                kind: RouteKind::Http,
                id,
            },
        ),
        Kind::Backend => backend::status(reader, id),
        Kind::EdgeProxy => edge_proxy::status(reader, id),
        _ => None,
    }
}

/// Kinds that we give a status to.
pub(crate) fn has_status(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::GatewayClass | Kind::Gateway | Kind::HttpRoute | Kind::Backend | Kind::EdgeProxy
    )
}
