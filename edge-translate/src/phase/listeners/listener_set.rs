//! ListenerSets: whose listeners they add to, whether they may, and who holds a listener.

use crate::{
    api::{self, FromNamespaces, Kind, Metadata},
    engine::reader::Reader,
    name::Id,
    phase::{namespace, precedence::Seniority},
};
use std::sync::Arc;

/// Who brings a listener.
#[derive(Clone)]
pub(crate) enum Holder {
    /// A Gateway itself.
    Gateway(Arc<api::Gateway>),
    /// A ListenerSet, to a Gateway.
    Set(Arc<api::Gateway>, Arc<api::ListenerSet>),
}

impl Holder {
    /// The Gateway that the listener is one of.
    pub(crate) fn gateway(&self) -> &Arc<api::Gateway> {
        match self {
            Self::Gateway(gateway) | Self::Set(gateway, _) => gateway,
        }
    }

    /// The listeners as written.
    pub(crate) fn listeners(&self) -> &[api::Listener] {
        match self {
            Self::Gateway(gateway) => &gateway.spec.listeners,
            Self::Set(_, set) => &set.spec.listeners,
        }
    }

    /// Of the object that the listeners stand in.
    pub(crate) fn metadata(&self) -> &Metadata {
        match self {
            Self::Gateway(gateway) => &gateway.metadata,
            Self::Set(_, set) => &set.metadata,
        }
    }

    /// The kind of that object.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Gateway(_) => Kind::Gateway,
            Self::Set(..) => Kind::ListenerSet,
        }
    }

    /// What the full names of its listeners begin with.
    pub(crate) fn full_name(&self) -> String {
        let gateway = &self.gateway().metadata;
        let prefix = format!("{}/{}", gateway.namespace, gateway.name);
        match self {
            Self::Gateway(_) => prefix,
            Self::Set(_, set) => format!("{prefix}/{}/{}", set.metadata.namespace, set.metadata.name),
        }
    }
}

/// Whether a Gateway takes a ListenerSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It does.
    Allowed,
    /// `allowedListeners` leaves its namespace out.
    NotAllowed,
}

/// The Gateway that a ListenerSet adds to; none when it names something else.
pub(crate) fn parent(reader: &Reader<'_>, set: &api::ListenerSet) -> Option<Id> {
    let parent = &set.spec.parent_ref;
    if parent.group != "gateway.networking.k8s.io" || parent.kind != "Gateway" {
        return None;
    }
    let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
    Some(reader.id(namespace, &parent.name))
}

/// The ListenerSets of a Gateway, oldest first.
pub(crate) fn sets_of(
    reader: &Reader<'_>,
    id: Id,
    gateway: &api::Gateway,
) -> Vec<(Id, Arc<api::ListenerSet>, Admission)> {
    let mut sets: Vec<_> = reader
        .listener_sets(id)
        .filter_map(|set| {
            let object = Arc::clone(reader.listener_set(set)?);
            let admission = admission(reader, gateway, &object);
            Some((set, object, admission))
        })
        .collect();
    sets.sort_by_cached_key(|(_, object, _)| Seniority::of(&object.metadata));
    sets
}

/// What keeps the selector of a Gateway's `allowedListeners` from choosing any namespace.
pub(crate) fn selector_fault(gateway: &api::Gateway) -> Option<String> {
    let namespaces = &gateway.spec.allowed_listeners.as_ref()?.namespaces;
    if namespaces.from != FromNamespaces::Selector {
        return None;
    }
    match &namespaces.selector {
        Some(selector) => selector.fault(),
        None => Some("it must be specified when from is Selector".to_owned()),
    }
}

fn admission(reader: &Reader<'_>, gateway: &api::Gateway, set: &api::ListenerSet) -> Admission {
    let Some(allowed) = &gateway.spec.allowed_listeners else {
        return Admission::NotAllowed;
    };
    let namespace = &set.metadata.namespace;
    let is_allowed = match &allowed.namespaces.from {
        FromNamespaces::All => true,
        FromNamespaces::Same => *namespace == gateway.metadata.namespace,
        FromNamespaces::Selector => allowed
            .namespaces
            .selector
            .as_ref()
            .is_some_and(|selector| namespace::is_selected(reader, selector, namespace)),
        FromNamespaces::None | FromNamespaces::Other(_) => false,
    };
    match is_allowed {
        true => Admission::Allowed,
        false => Admission::NotAllowed,
    }
}
