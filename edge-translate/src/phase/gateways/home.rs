//! Where the objects of a fleet are, and what they are called unless an EdgeProxy gives them other names: by rule, so that
//! it is known of a fleet whose infrastructure can't be told, too.

use super::infra::object_name;
use crate::settings::Settings;
use edge_ir::{FleetKey, Placement};
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
    /// The home of a fleet; none of a fleet that Gateways share where fleets are in the namespace of their Gateway: there is
    /// no such fleet.
    pub fn home(&self, key: &FleetKey) -> Option<Home> {
        let namespace = match self.placement {
            Placement::Controller => Arc::clone(&self.controller_namespace),
            Placement::Gateway => key.as_str().split_once('/')?.0.into(),
        };
        Some(Home {
            namespace,
            name: object_name(key.as_str()).into(),
            placement: self.placement,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
