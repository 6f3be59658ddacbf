//! Names as types: a cluster's name can't be passed where a secret's is wanted.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text; cheap to clone afterwards.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name!(
    /// Identifies a fleet: `<namespace>/<gateway>`, or the class name when Gateways are merged.
    FleetKey
);
name!(
    /// Name of a listening socket: `tcp-<port>` or `udp-<port>` with the port that clients know.
    ListenerName
);
name!(
    /// Name of a table of virtual hosts: `<namespace>/<gateway>/<listener>`.
    RouteTableName
);
name!(
    /// Which guards stand before the routes of a table ([`FilterKind::is_guard`](crate::FilterKind::is_guard)): a short
    /// digest of their names, empty where there are none.
    GuardSet
);
name!(
    /// Name of a cluster: `<kind>/<namespace>/<name>/<port>`, with `/<protocol>` and `~<hash>` where these differ.
    ClusterName
);
name!(
    /// Name of a set of endpoints: the cluster's name without protocol settings, shared by all variants.
    EndpointSetName
);
name!(
    /// Name of a secret: `<namespace>/<name>`, certificate authorities with `/ca.crt` behind.
    SecretName
);
name!(
    /// A domain that a virtual host answers for: `example.com`, `*.example.com` or `*`. Lower case.
    Domain
);

/// Who has a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetOwner<'a> {
    /// One Gateway.
    Gateway {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// All Gateways of a class.
    Class(&'a str),
}

impl<'a> FleetOwner<'a> {
    /// The owner by the text of a fleet's key. No name of an object has a `/`.
    pub fn of_key(key: &'a str) -> Self {
        match key.split_once('/') {
            Some((namespace, name)) => Self::Gateway { namespace, name },
            None => Self::Class(key),
        }
    }
}

impl FleetKey {
    /// The fleet of one Gateway.
    pub fn of_gateway(namespace: &str, name: &str) -> Self {
        Self::from(format!("{namespace}/{name}"))
    }

    /// The fleet that the Gateways of a class share.
    pub fn of_class(name: &str) -> Self {
        Self::from(name)
    }

    /// Whose it is.
    pub fn owner(&self) -> FleetOwner<'_> {
        FleetOwner::of_key(self)
    }
}

/// None.
impl Default for GuardSet {
    fn default() -> Self {
        "".into()
    }
}

#[cfg(test)]
mod tests {
    use super::{FleetKey, FleetOwner};

    #[test]
    fn a_key_tells_whose_its_fleet_is() {
        let own = FleetKey::of_gateway("ns", "gw");
        let (namespace, name) = ("ns", "gw");
        assert_eq!(
            (own.as_str(), own.owner()),
            ("ns/gw", FleetOwner::Gateway { namespace, name })
        );
        let shared = FleetKey::of_class("edge");
        assert_eq!((shared.as_str(), shared.owner()), ("edge", FleetOwner::Class("edge")));
    }
}
