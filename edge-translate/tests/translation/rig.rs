//! A translator, what it made last, and looks into both.

use edge_ir::{FilterSettings, Fleet, Network, Route, RouteAction, VirtualHost};
use edge_translate::{
    Change, Fact, Settings, Translation, Translator,
    api::{Kind, ObjectKey},
    load::{Limits, Source, load},
    status::{Condition, StatusBody},
};
use std::sync::Arc;

/// Our class.
pub(crate) const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec: {controllerName: gateway.edge/gatewayclass-controller}
";

/// A Gateway of that class.
pub(crate) const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: edge, listeners: [{name: http, protocol: HTTP, port: 80}]}
";

/// A translator with objects, all of them in namespace `default` unless they say otherwise.
pub(crate) struct Rig {
    pub(crate) translator: Translator,
    /// What it made last.
    pub(crate) last: Translation,
}

impl Rig {
    /// With our class and these objects.
    pub(crate) fn new(text: &str) -> Self {
        Self::with(Settings::default(), text)
    }

    /// The same, of a controller with settings of its own.
    pub(crate) fn with(settings: Settings, text: &str) -> Self {
        let mut rig = Self {
            translator: Translator::new(settings),
            last: Translation::default(),
        };
        rig.put(&format!("{CLASS}---{text}"));
        rig
    }

    /// Puts objects of which loading has nothing to say.
    pub(crate) fn put(&mut self, text: &str) -> &Translation {
        let loaded = load(&Source { name: "world", text }, &Limits::default());
        assert_eq!(loaded.findings, [], "{text}");
        for object in loaded.objects {
            self.translator.apply(Change::Put(object.object));
        }
        self.translate()
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &str) -> &Translation {
        self.translator.apply(Change::Remove(key(kind, name)));
        self.translate()
    }

    pub(crate) fn tell(&mut self, fact: Fact) -> &Translation {
        self.translator.apply(Change::Fact(fact));
        self.translate()
    }

    pub(crate) fn translate(&mut self) -> &Translation {
        self.last = self.translator.translate();
        &self.last
    }

    /// The only fleet there is.
    pub(crate) fn fleet(&self) -> &Fleet {
        let mut fleets = self.last.fleets.values();
        match (fleets.next(), fleets.next()) {
            (Some(fleet), None) => fleet,
            _ => panic!("not one fleet: {:?}", self.last.fleets.keys()),
        }
    }

    /// The conditions of an object: its own, or, where it has some for each parent or ancestor, those under the first.
    pub(crate) fn conditions(&self, kind: Kind, name: &str) -> Vec<Condition> {
        let statuses = self.translator.statuses();
        match &statuses[&key(kind, name)].body {
            StatusBody::Conditions(conditions) => conditions.clone(),
            StatusBody::Class(class) => class.conditions.clone(),
            StatusBody::Gateway(gateway) => gateway.conditions.clone(),
            StatusBody::ListenerSet(set) => set.conditions.clone(),
            StatusBody::Parents { parents: all, .. } | StatusBody::Ancestors { ancestors: all, .. } => {
                all[0].conditions.clone()
            }
            StatusBody::Unattached(why) => panic!("{kind} {name} leads to nothing of ours: {why:?}"),
        }
    }

    /// Type and reason of each of these conditions.
    pub(crate) fn reasons(&self, kind: Kind, name: &str) -> Vec<String> {
        let conditions = self.conditions(kind, name);
        conditions
            .iter()
            .map(|one| format!("{} {}", one.kind, one.reason))
            .collect()
    }

    /// The condition of a type that an object has under its first parent or ancestor.
    pub(crate) fn condition(&self, kind: Kind, name: &str, of_type: &str) -> Option<Condition> {
        self.conditions(kind, name).into_iter().find(|one| one.kind == of_type)
    }

    /// The condition of a type that a listener of a Gateway has.
    pub(crate) fn listener_condition(&self, gateway: &str, listener: &str, of_type: &str) -> Option<Condition> {
        let statuses = self.translator.statuses();
        let StatusBody::Gateway(gateway) = &statuses[&key(Kind::Gateway, gateway)].body else {
            panic!("{gateway} has no status of a Gateway");
        };
        let found = gateway.listeners.iter().find(|one| &*one.name == listener);
        found
            .unwrap()
            .conditions
            .iter()
            .find(|one| one.kind == of_type)
            .cloned()
    }
}

/// A route of that Gateway that redirects all requests for `<name>.example`.
pub(crate) fn redirect(name: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: g}}]
  hostnames: [{name}.example]
  rules: [{{filters: [{{type: RequestRedirect, requestRedirect: {{statusCode: 301}}}}]}}]
"
    )
}

/// An object in namespace `default`; a class in none.
pub(crate) fn key(kind: Kind, name: &str) -> ObjectKey {
    let namespace = if kind == Kind::GatewayClass { "" } else { "default" };
    ObjectKey::new(kind, namespace, name)
}

/// All hosts of a fleet.
pub(crate) fn hosts(fleet: &Fleet) -> Vec<Arc<VirtualHost>> {
    let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
    hosts.cloned().collect()
}

/// Whether there are routes, and all of them are closed.
pub(crate) fn all_closed(routes: &[Arc<Route>]) -> bool {
    !routes.is_empty() && routes.iter().all(|route| is_closed(route))
}

/// Whether a route answers 500, whatever is asked for.
pub(crate) fn is_closed(route: &Route) -> bool {
    matches!(&route.effect.action, RouteAction::Respond(answer) if answer.status == 500)
}

/// The settings of all HTTP filters of a fleet.
pub(crate) fn filters(fleet: &Fleet) -> impl Iterator<Item = &FilterSettings> {
    let listeners = fleet.listeners.iter();
    let chains = listeners.flat_map(|listener| listener.chains.iter().chain(&listener.default_chain));
    let managers = chains.filter_map(|chain| match &chain.network {
        Network::Http(manager) => Some(manager),
        Network::Tcp(_) => None,
    });
    managers.flat_map(|manager| manager.filters.iter().map(|filter| &filter.settings))
}
