//! What policies decide for a route at a parent listener: the one door by which they reach routes.
//!
//! What a listener brings (its own mode, the policies on it, its ListenerSet and its Gateway) is put together once a
//! listener and inherited by every route there; a route adds the policies on itself. The result is a number, so that
//! routes, hosts and sockets compare decisions and never policies: [`Context`].
//!
//! | decided by | what | where it acts |
//! |---|---|---|
//! | a listener that passes TLS through | the client encrypts | the variant of the clusters |
//! | a policy that this version can't honour and that protects something (`world/policies.rs` has the list) | closed | the route answers 500, or lets nothing through |
//!
//! A policy that decides something new is read here, by precedence, and becomes a field of [`Context`] that
//! `routes/bound` puts into the rules, or of `Variant`, which `backends/settings` puts into the cluster.

use crate::{
    api::{self, Kind, Protocol, TlsMode},
    engine::reader::Reader,
    name::{Ancestor, Context, ContextId, Encryption, Id, ListenerId, PolicyId, RouteId, Variant, VariantId},
    world::Cover,
};

/// Policies, each once, in no order that can be seen.
pub(crate) type Policies = Box<[PolicyId]>;

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
    let set = set.flat_map(|set| reader.covers(Kind::ListenerSet, set));
    let all = reader.covers(Kind::Gateway, listener.gateway).chain(set);
    let policies = all.map(|cover| cover.policy);
    Inherited {
        unhonoured: policies.filter(|policy| reader.protects(*policy)).collect(),
        variant: reader.variant_id(Variant {
            encryption: encryption(spec),
        }),
    }
}

/// Gateway and ListenerSets as the targets of policies, each under itself, sorted.
pub(crate) fn covered(reader: &Reader<'_>, gateway: Id) -> Box<[(PolicyId, Ancestor)]> {
    let sets = reader.listener_sets(gateway).map(|set| (Kind::ListenerSet, set));
    let objects = [(Kind::Gateway, gateway)].into_iter().chain(sets);
    let covered = objects.flat_map(|(kind, id)| {
        let under = move |cover: Cover| Ancestor {
            section: cover.section,
            ..Ancestor::object(kind, id)
        };
        reader.covers(kind, id).map(move |cover| (cover.policy, under(cover)))
    });
    let mut covered: Vec<_> = covered.collect();
    covered.sort_unstable();
    covered.dedup();
    covered.into()
}

fn encryption(spec: &api::Listener) -> Encryption {
    match spec.tls.as_deref() {
        Some(tls) if spec.protocol == Protocol::Tls && tls.mode == TlsMode::Passthrough => Encryption::Client,
        _ => Encryption::Proxy,
    }
}

/// Policies on a route itself, the same under every parent.
pub(crate) fn own(reader: &Reader<'_>, route: RouteId) -> Policies {
    let mut policies: Vec<_> = reader.covers(route.kind.kind(), route.id).map(|c| c.policy).collect();
    policies.sort_unstable();
    policies.dedup();
    policies.into()
}

/// What is decided for a route at a listener.
pub(crate) fn effective(reader: &Reader<'_>, own: &Policies, inherited: &Inherited) -> ContextId {
    let own = own.iter().filter(|policy| reader.protects(**policy));
    let mut unhonoured: Vec<_> = own.chain(&inherited.unhonoured).copied().collect();
    unhonoured.sort_unstable();
    unhonoured.dedup();
    reader.context_id(Context {
        unhonoured: unhonoured.into(),
        variant: inherited.variant,
    })
}
