//! What services are shown beside resources: objects of kinds that only they know.

use super::Hook;
use edge_ir::{CustomObject, CustomObjects, CustomPolicy, Discovery, Fleet, Listener, Origin};
use std::{collections::BTreeMap, sync::Arc};

/// What services are shown beside the resources of a fleet. It is kept apart from these, because what patches change
/// has no source in the IR any more, and equal bytes may come from a rule that refers to another object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// By the name of the route, without the host that stands behind it on the wire.
    routes: BTreeMap<Arc<str>, Arc<CustomObjects>>,
    /// By the name of the listener.
    listeners: BTreeMap<Arc<str>, Arc<CustomObjects>>,
    /// By the name of the cluster: what stands for its backend.
    clusters: BTreeMap<Arc<str>, Arc<CustomObjects>>,
    /// By the name of the list: what stands for the backend of a cluster that uses it.
    endpoints: BTreeMap<Arc<str>, Arc<CustomObjects>>,
    /// Policies for anything of the fleet.
    all: Option<Arc<CustomObjects>>,
}

impl Shown {
    /// What goes with a fleet.
    pub fn of(fleet: &Fleet) -> Self {
        let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
        let routes = hosts.flat_map(|host| &host.routes);
        let routes = routes.filter_map(|route| {
            let custom = route.effect.custom.as_ref()?;
            Some((route.name.to_string().into(), Arc::clone(custom)))
        });
        let routes: BTreeMap<_, _> = routes.collect();
        let listeners = fleet.listeners.iter().filter_map(|listener| {
            let custom = policies(policies_for(&fleet.custom_policies, listener))?;
            Some((listener.name.clone().into(), custom))
        });
        let backends = || {
            fleet
                .clusters
                .iter()
                .filter_map(|cluster| Some((cluster, cluster.custom.as_ref()?)))
        };
        let clusters = backends().map(|(cluster, custom)| (cluster.name.clone().into(), Arc::clone(custom)));
        let endpoints = backends().filter_map(|(cluster, custom)| match &cluster.discovery {
            Discovery::Endpoints(list) => Some((list.clone().into(), Arc::clone(custom))),
            Discovery::Dns(_) | Discovery::OfRequest(_) | Discovery::Fixed(_) => None,
        });
        let of_gateways = fleet.custom_policies.iter().map(|custom| Arc::clone(&custom.policy));
        let of_routes = routes.values().flat_map(|custom| custom.policies.iter().cloned());
        let mut all: Vec<Arc<CustomObject>> = Vec::new();
        for policy in of_gateways.chain(of_routes) {
            if !all.contains(&policy) {
                all.push(policy);
            }
        }
        Self {
            listeners: listeners.collect(),
            clusters: clusters.collect(),
            endpoints: endpoints.collect(),
            all: policies(all),
            routes,
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

    /// What goes with a resource that is asked about by itself.
    pub(super) fn beside(&self, hook: Hook, name: &str) -> Option<Arc<CustomObjects>> {
        let found = match hook {
            Hook::HttpListener => self.listeners.get(name),
            Hook::Cluster => self.clusters.get(name),
            Hook::Endpoints => self.endpoints.get(name),
            Hook::Route | Hook::VirtualHost | Hook::Translation => None,
        };
        found.cloned()
    }

    /// What goes with all of a fleet.
    pub(super) fn beside_all(&self) -> Option<Arc<CustomObjects>> {
        self.all.clone()
    }
}

fn policies(policies: Vec<Arc<CustomObject>>) -> Option<Arc<CustomObjects>> {
    let resources = Vec::new();
    CustomObjects { resources, policies }.shared()
}

/// Policies for the Gateway listeners that share a socket.
fn policies_for(all: &[CustomPolicy], socket: &Listener) -> Vec<Arc<CustomObject>> {
    let is_same = |a: &Origin, b: &Origin| {
        (&a.kind, &a.namespace, &a.name, &a.section) == (&b.kind, &b.namespace, &b.name, &b.section)
    };
    let is_for = |custom: &&CustomPolicy| {
        let mut listeners = custom.listeners.iter();
        listeners.any(|listener| socket.origins.iter().any(|origin| is_same(listener, origin)))
    };
    let meant = all.iter().filter(is_for);
    meant.map(|custom| Arc::clone(&custom.policy)).collect()
}
