//! What services are shown beside resources: objects of kinds that only they know.

use edge_ir::{CustomObjects, Fleet};
use std::{collections::BTreeMap, sync::Arc};

/// What services are shown beside the resources of a fleet. It is kept apart from these, because what patches change has
/// no source in the IR any more, and equal bytes may come from a rule that refers to another object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// By the name of the route, without the host that stands behind it on the wire.
    routes: BTreeMap<Arc<str>, Arc<CustomObjects>>,
}

impl Shown {
    /// What goes with a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
        let routes = hosts.flat_map(|host| &host.routes);
        let shown = routes.filter_map(|route| {
            let custom = route.effect.custom.as_ref()?;
            Some((Arc::clone(&route.name), Arc::clone(custom)))
        });
        Self {
            routes: shown.collect(),
        }
    }

    /// What goes with a route of this name on the wire.
    pub(super) fn beside_route(&self, name: &str) -> Option<Arc<CustomObjects>> {
        if self.routes.is_empty() {
            return None;
        }
        // Behind the name stands `/<host>`, and hosts have no slash.
        let own = name.rsplit_once('/').map_or(name, |(own, _)| own);
        let found = self.routes.get(own).or_else(|| self.routes.get(name));
        found.cloned()
    }
}
