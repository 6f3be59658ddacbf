//! What services are asked, and when they are called.

use crate::snapshot::ResourceType;
use bytes::Bytes;
use edge_ir::CustomObjects;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use xxhash_rust::xxh3::Xxh3Default;

/// When a service is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// For each route of a virtual host.
    Route,
    /// For each virtual host, its routes done.
    VirtualHost,
    /// For each listener of HTTP.
    HttpListener,
    /// For each cluster.
    Cluster,
    /// For the endpoints of each cluster.
    Endpoints,
    /// For all that the fleet is served, at the end.
    Translation,
}

/// When any service is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// For which resources.
    pub hooks: BTreeSet<Hook>,
    /// What [`Hook::Translation`] is given.
    pub whole: BTreeSet<ResourceType>,
}

/// Encoded resources by their kind.
pub type Resources = BTreeMap<ResourceType, Vec<Bytes>>;

/// What services are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// About one resource.
    One {
        /// Which it is.
        hook: Hook,
        /// The encoded resource.
        resource: Bytes,
        /// The domains of a route's host.
        hostnames: Box<[Box<str>]>,
        /// Objects that go with it.
        custom: Option<Arc<CustomObjects>>,
    },
    /// About all of a fleet.
    All {
        /// The resources.
        resources: Resources,
        /// Policies for anything of it.
        custom: Option<Arc<CustomObjects>>,
    },
}

/// What tells questions apart: a hash of all that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionKey(u128);

impl Question {
    /// What tells it from others.
    pub fn key(&self) -> QuestionKey {
        let mut hasher = Xxh3Default::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&bytes.len().to_le_bytes());
            hasher.update(bytes);
        };
        match self {
            Self::One {
                hook,
                resource,
                hostnames,
                custom,
            } => {
                add(&[*hook as u8]);
                add(resource);
                hostnames.iter().for_each(|name| add(name.as_bytes()));
                add_custom(custom.as_deref(), &mut add);
            }
            Self::All { resources, custom } => {
                add(&[Hook::Translation as u8]);
                for (kind, resources) in resources {
                    add(kind.type_url().as_bytes());
                    resources.iter().for_each(|resource| add(resource));
                }
                add_custom(custom.as_deref(), &mut add);
            }
        }
        QuestionKey(hasher.digest128())
    }
}

/// Nothing, where nothing goes with a resource.
fn add_custom(custom: Option<&CustomObjects>, add: &mut impl FnMut(&[u8])) {
    let Some(custom) = custom else { return };
    for (role, objects) in [(b"r", &custom.resources), (b"p", &custom.policies)] {
        add(role);
        objects.iter().for_each(|object| add(object.json.as_bytes()));
    }
}
