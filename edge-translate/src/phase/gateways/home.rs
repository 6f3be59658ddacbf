//! Where the objects of a fleet are, and what they are called unless an EdgeProxy gives them other names: by rule, so
//! that it is known of a fleet whose infrastructure can't be told, too.

use super::infra::object_name;
use crate::{
    Translator,
    api::{Kind, Object, ObjectKey},
    settings::Settings,
};
use edge_ir::{FleetKey, FleetOwner, Placement};
use std::sync::Arc;

/// Where a fleet's objects are by rule, and what they are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// Their name.
    pub name: Arc<str>,
    /// Whose namespace that is.
    pub placement: Placement,
}

impl Settings {
    /// The home of a fleet; none of a fleet that Gateways share where fleets are in the namespace of their Gateway:
    /// there is no such fleet.
    pub fn home(&self, key: &FleetKey) -> Option<Home> {
        let namespace = match (self.placement, key.owner()) {
            (Placement::Controller, _) => Arc::clone(&self.controller_namespace),
            (Placement::Gateway, FleetOwner::Gateway { namespace, .. }) => namespace.into(),
            (Placement::Gateway, FleetOwner::Class(_)) => return None,
        };
        Some(Home {
            namespace,
            name: object_name(key.as_str()).into(),
            placement: self.placement,
        })
    }
}

impl Translator {
    /// Fleets that the Gateways of this one may have instead, of which nobody can tell that they aren't wanted. `key`:
    /// a fleet whose infrastructure can't be told.
    pub fn alternatives(&self, key: &FleetKey) -> Vec<FleetKey> {
        match key.owner() {
            FleetOwner::Gateway { namespace, name } => self.perhaps_shared(namespace, name).into_iter().collect(),
            FleetOwner::Class(_) => self.perhaps_own(key),
        }
    }

    /// The fleets that Gateways have of their own unless the EdgeProxy of their class is in force, by which they share
    /// one.
    fn perhaps_own(&self, key: &FleetKey) -> Vec<FleetKey> {
        let gateways = self.members(key).into_iter();
        gateways
            .map(|gateway| FleetKey::of_gateway(&gateway.namespace, &gateway.name))
            .collect()
    }

    /// The fleet that a Gateway shares with the others of its class if the EdgeProxy of that says so, which isn't there
    /// to be asked, or said so until it couldn't be used any more.
    fn perhaps_shared(&self, namespace: &str, name: &str) -> Option<FleetKey> {
        let Object::Gateway(gateway) = self.object(&ObjectKey::new(Kind::Gateway, namespace, name))? else {
            return None;
        };
        let class = &*gateway.spec.gateway_class_name;
        let Object::GatewayClass(object) = self.object(&ObjectKey::new(Kind::GatewayClass, "", class))? else {
            return None;
        };
        let parameters = object.spec.parameters_ref.as_ref()?;
        let proxy = ObjectKey::new(Kind::EdgeProxy, parameters.namespace.as_deref()?, &*parameters.name);
        let is_told = self.object(&proxy).is_some() && !self.refuses_class(class);
        (!is_told).then(|| FleetKey::of_class(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Change,
        load::{Limits, Source, load},
    };

    #[test]
    fn a_fleet_may_be_shared_while_nobody_can_be_asked() {
        let mut translator = Translator::new(Settings::default());
        let text = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec:
  controllerName: gateway.edge/gatewayclass-controller
  parametersRef: { group: gateway.edge, kind: EdgeProxy, name: proxy, namespace: system }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: ns }
spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
---
apiVersion: gateway.edge/v1alpha1
kind: EdgeProxy
metadata: { name: proxy, namespace: system }
spec: { mergeGateways: true }
";
        let source = Source { name: "world", text };
        let mut answers = Vec::new();
        for loaded in load(&source, &Limits::default()).objects {
            translator.apply(Change::Put(loaded.object));
            answers.push(translator.alternatives(&"ns/gw".into()));
        }
        assert_eq!(answers, [vec![], vec!["edge".into()], vec![]]);
        translator.translate();
        assert_eq!(translator.alternatives(&"edge".into()), ["ns/gw".into()]);
        let slip = text.replace("mergeGateways: true", "filterOrder: [{ name: nobody, before: nobody }]");
        let source = Source {
            name: "world",
            text: &slip,
        };
        for loaded in load(&source, &Limits::default()).objects {
            translator.apply(Change::Put(loaded.object));
        }
        translator.translate();
        assert_eq!(translator.alternatives(&"ns/gw".into()), ["edge".into()]);
        assert_eq!(translator.alternatives(&"other".into()), []);
    }

    #[test]
    fn a_fleet_is_at_home_where_its_objects_are_made() {
        let home = |placement, key: &str| {
            let settings = Settings {
                placement,
                ..Settings::default()
            };
            settings
                .home(&key.into())
                .map(|home| (home.namespace.to_string(), home.name.to_string()))
        };
        let system = Settings::default().controller_namespace.to_string();
        for key in ["ns/gw", "class"] {
            assert_eq!(
                home(Placement::Controller, key),
                Some((system.clone(), object_name(key)))
            );
        }
        assert_eq!(
            home(Placement::Gateway, "ns/gw"),
            Some(("ns".to_owned(), object_name("ns/gw")))
        );
        assert_eq!(home(Placement::Gateway, "class"), None);
    }
}
