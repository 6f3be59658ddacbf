//! Policies that this version can't honour and that protect something: what they cover is closed. The list of them is
//! kept by the world (`world/places.rs`).

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Id, ListenerId, RouteId},
};
use std::collections::BTreeSet;

/// Whether such a policy protects a listener, through its Gateway or its ListenerSet.
pub(crate) fn covers_listener(reader: &Reader<'_>, listener: ListenerId) -> bool {
    of_listener(reader, listener).next().is_some()
}

/// Whether such a policy protects a route.
pub(crate) fn covers_route(reader: &Reader<'_>, route: RouteId) -> bool {
    of_route(reader, route).next().is_some()
}

fn of_listener(reader: &Reader<'_>, listener: ListenerId) -> impl Iterator<Item = (Kind, Id)> {
    let set = listener.set.into_iter();
    let set = set.flat_map(|set| reader.guards(Kind::ListenerSet, set));
    reader.guards(Kind::Gateway, listener.gateway).chain(set)
}

fn of_route(reader: &Reader<'_>, route: RouteId) -> impl Iterator<Item = (Kind, Id)> {
    reader.guards(route.kind.kind(), route.id)
}

/// Such policies over a route on listeners that took it, as `Kind namespace/name`, sorted.
pub(crate) fn names(
    reader: &Reader<'_>,
    route: RouteId,
    listeners: impl Iterator<Item = ListenerId>,
) -> BTreeSet<String> {
    let policies = of_route(reader, route).chain(listeners.flat_map(|l| of_listener(reader, l)));
    let name = |(kind, id): (Kind, Id)| {
        format!(
            "{} {}/{}",
            kind.as_str(),
            reader.text(id.namespace),
            reader.text(id.name)
        )
    };
    policies.map(name).collect()
}
