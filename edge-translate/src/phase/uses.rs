//! What a route uses: the listeners that count it, and backends in fleets.

use super::listeners::Serving;
use crate::engine::{
    key::{BackendId, FleetId, ListenerId, RouteId, RouteKind},
    reader::Reader,
};

/// What a route uses. Both lists are sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Uses {
    /// Backends, in the fleets that need them.
    pub(crate) backends: Vec<(FleetId, BackendId)>,
    /// Listeners that count it as attached, whatever becomes of its rules.
    pub(crate) listeners: Vec<ListenerId>,
}

/// Lists what a route uses; none when it is gone. A route without hostnames that requests can reach needs no backend.
pub(crate) fn uses(reader: &Reader<'_>, route: RouteId) -> Option<Uses> {
    let attachments = reader.attachments(route)?;
    let rules = reader.rules(route)?;
    let attached = || attachments.parents.iter().flat_map(|p| p.verdict.iter().flatten());
    let takes_all = matches!(route.kind, RouteKind::Tcp | RouteKind::Udp);
    let fleets = sorted(
        attached()
            .filter(|a| !a.hosts.is_empty() || (takes_all && a.serving == Serving::Yes))
            .map(|a| a.fleet),
    );
    let backends = fleets
        .iter()
        .flat_map(|fleet| rules.backends.iter().map(|backend| (*fleet, *backend)))
        .collect();
    let listeners = sorted(attached().map(|a| a.listener));
    Some(Uses { backends, listeners })
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = all.collect();
    list.sort_unstable();
    list.dedup();
    list
}
