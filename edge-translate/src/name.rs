//! Interned names: a word of 4 bytes that hashes and compares at once, for keys that are looked up millions of times;
//! the identities made of them; and numbers for what policies decide.
//!
//! An [`Interner`] belongs to one engine and only grows; an engine that has outgrown its world begins anew. What goes
//! in is names that people choose (namespaces, Gateways, routes, Services, hostnames); generated names that come and
//! go, such as those of EndpointSlices, stay out.

mod alike;
mod context;
mod decisions;
mod id;
mod numbered;
pub(crate) mod outside;
mod placement;
mod set;
mod table;

pub(crate) use context::{
    Context, ContextId, Decision, Encryption, Extending, Extension, ExtensionId, FilterSettingsId, InstanceId,
    LoadReports, ModuleId, Patience, PlacementId, PolicyFilters, PolicyInstance, Protection, SecretForm, SecretKey,
    Security, SecurityId, Streams, Surroundings, Traffic, TrafficId, Treatment, Variant, VariantId,
};
pub(crate) use decisions::Decisions;
pub(crate) use id::{
    Ancestor, BackendId, BackendKind, BackendPort, EndpointsId, FilterKey, FilterOwner, FleetId, HostId, Id,
    ListenerId, PolicyId, RouteId, RouteKind, SocketId, Target, holder,
};
pub(crate) use numbered::TableRef;
pub(crate) use outside::{OutsideService, Scheme};
pub(crate) use placement::{Placement, Routing, Zones, hashed};
pub(crate) use set::{BackendSet, BackendSets, SetMember};
pub(crate) use table::Table;

use numbered::Numbered;
use std::sync::Arc;

/// An interned name. Its order is that of first appearance: never let it decide anything that can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sym(u32);

/// The table behind [`Sym`]. Units add to it while they run.
#[derive(Debug)]
pub(crate) struct Interner(Numbered<str>);

impl Interner {
    /// A table that knows the empty name.
    pub(crate) fn new() -> Self {
        Self(Numbered::beginning_with(Arc::from("")))
    }

    /// The empty name, namespace of cluster-scoped objects.
    pub(crate) const EMPTY: Sym = Sym(0);

    /// The word for a name.
    pub(crate) fn sym(&self, name: &str) -> Sym {
        Sym(self.0.number_of(name, || name.into()))
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The word for a name that is shared already, where no units run.
    pub(crate) fn sym_of_shared(&mut self, name: &Arc<str>) -> Sym {
        Sym(self.0.number_alone(name, || Arc::clone(name)))
    }

    /// The name behind a word.
    pub(crate) fn text(&self, sym: Sym) -> TableRef<'_, str> {
        self.0.value(sym.0)
    }

    /// Makes what is new as cheap to read as the rest.
    pub(crate) fn settle(&mut self) {
        self.0.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_word() {
        let table = Interner::new();
        let a = table.sym("a");
        assert_eq!(table.sym("a"), a);
        assert_ne!(table.sym("b"), a);
        assert_eq!(&*table.text(a), "a");
        assert_eq!(table.sym(""), Interner::EMPTY);
    }
}
