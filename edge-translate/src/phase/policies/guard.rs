//! Policies that this version can't honour and that protect something: what they cover is closed. The list of them is
//! kept by the world (`world/guards.rs`).

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{ListenerId, RouteId},
};

/// Whether such a policy protects a listener, through its Gateway or its ListenerSet.
pub(crate) fn covers_listener(reader: &Reader<'_>, listener: ListenerId) -> bool {
    reader.is_guarded(Kind::Gateway, listener.gateway)
        || listener
            .set
            .is_some_and(|set| reader.is_guarded(Kind::ListenerSet, set))
}

/// Whether such a policy protects a route.
pub(crate) fn covers_route(reader: &Reader<'_>, route: RouteId) -> bool {
    reader.is_guarded(route.kind.kind(), route.id)
}
