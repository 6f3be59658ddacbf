//! What policies decide for a route at a parent listener: the one door by which they reach routes.
//!
//! What a listener brings (its own mode, the policies on it, its ListenerSet and its Gateway) is put together once a
//! listener and inherited by every route there; a route adds the policies on itself. The result is a number, so that
//! routes, hosts and sockets compare decisions and never policies: [`Context`].
//!
//! | decided by | what | where it acts |
//! |---|---|---|
//! | a listener that passes TLS through | the client encrypts | the variant of the clusters |
//! | a policy that this version can't honour and that protects something (`world/places.rs` has the list) | closed | the route answers 500, or lets nothing through |
//!
//! A policy that decides something new is read here, by precedence, and becomes a field of [`Context`] that
//! `routes/bound` puts into the rules, or of `Variant`, which `backends/settings` puts into the cluster.

use crate::{
    api::{self, Kind, Protocol, TlsMode},
    engine::reader::Reader,
    name::{Context, ContextId, Encryption, Id, ListenerId, RouteId, Variant, VariantId},
};
use smallvec::SmallVec;

/// Policies in no order.
pub(crate) type Policies = SmallVec<[(Kind, Id); 1]>;

/// What every route of a listener inherits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inherited {
    /// Policies that protect the listener and that this version can't honour.
    unhonoured: Policies,
    /// What changes about clusters.
    variant: VariantId,
}

/// What a listener brings.
pub(crate) fn inherited(reader: &Reader<'_>, listener: ListenerId, spec: &api::Listener) -> Inherited {
    let set = listener.set.into_iter();
    let set = set.flat_map(|set| reader.guards(Kind::ListenerSet, set));
    Inherited {
        unhonoured: reader.guards(Kind::Gateway, listener.gateway).chain(set).collect(),
        variant: reader.variant_id(Variant {
            encryption: encryption(spec),
        }),
    }
}

fn encryption(spec: &api::Listener) -> Encryption {
    match spec.tls.as_deref() {
        Some(tls) if spec.protocol == Protocol::Tls && tls.mode == TlsMode::Passthrough => Encryption::Client,
        _ => Encryption::Proxy,
    }
}

/// What policies on a route itself decide, the same under every parent.
pub(crate) fn own(reader: &Reader<'_>, route: RouteId) -> Policies {
    reader.guards(route.kind.kind(), route.id).collect()
}

/// What is decided for a route at a listener.
pub(crate) fn effective(reader: &Reader<'_>, own: &Policies, inherited: &Inherited) -> ContextId {
    let mut unhonoured: Vec<_> = own.iter().chain(&inherited.unhonoured).copied().collect();
    unhonoured.sort_unstable();
    unhonoured.dedup();
    reader.context_id(Context {
        unhonoured: unhonoured.into(),
        variant: inherited.variant,
    })
}
