//! Which policy holds a target, the same for every kind of policy.
//!
//! A policy names its targets, in its own namespace, or chooses them by labels, elsewhere with a ReferenceGrant in the
//! namespace of the target (`world/covers` knows which). It is for the whole target or for a part of it, a listener or
//! a rule. Of several policies of a kind for the same the oldest holds it, then the first by name (GEP-713); the others
//! are conflicted.

use super::policy;
use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Id, PolicyId, Sym},
    phase::precedence::Seniority,
};
use smallvec::SmallVec;

/// What policies of a kind may be for.
struct Row {
    policy: Kind,
    targets: &'static [Kind],
}

/// The table of attachment.
const TABLE: &[Row] = &[
    Row {
        policy: Kind::ClientTrafficPolicy,
        targets: &[Kind::Gateway, Kind::ListenerSet],
    },
    Row {
        policy: Kind::BackendTrafficPolicy,
        targets: &[
            Kind::Gateway,
            Kind::ListenerSet,
            Kind::HttpRoute,
            Kind::GrpcRoute,
            Kind::TcpRoute,
            Kind::UdpRoute,
            Kind::TlsRoute,
        ],
    },
    Row {
        policy: Kind::EdgeExtensionPolicy,
        targets: &[
            Kind::Gateway,
            Kind::ListenerSet,
            Kind::HttpRoute,
            Kind::GrpcRoute,
            Kind::TcpRoute,
            Kind::UdpRoute,
            Kind::TlsRoute,
        ],
    },
    Row {
        policy: Kind::SecurityPolicy,
        targets: &[
            Kind::Gateway,
            Kind::ListenerSet,
            Kind::HttpRoute,
            Kind::GrpcRoute,
            Kind::TcpRoute,
        ],
    },
];

/// Whether policies of a kind may be for objects of another.
pub(crate) fn may_target(policy: Kind, target: Kind) -> bool {
    TABLE
        .iter()
        .any(|row| row.policy == policy && row.targets.contains(&target))
}

/// Kinds of policies that say something of routes, which inherit those above them.
pub(super) fn of_routes() -> impl Iterator<Item = Kind> {
    let kinds = TABLE.iter().map(|row| row.policy);
    kinds.filter(|policy| may_target(*policy, Kind::HttpRoute))
}

/// Who holds a target, of the policies of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Holders {
    /// The whole of it.
    whole: Option<Id>,
    /// Parts of it by name, sorted: listeners of a Gateway or ListenerSet, rules of a route.
    parts: SmallVec<[(Sym, Id); 1]>,
}

/// Who holds a target, by kind of policy; kinds of which nobody does are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PolicyHolders(SmallVec<[(Kind, Holders); 2]>);

impl PolicyHolders {
    fn by(&self, policy: Kind) -> Option<&Holders> {
        self.0
            .iter()
            .find(|(kind, _)| *kind == policy)
            .map(|(_, holders)| holders)
    }

    /// Which policy of a kind holds the whole.
    pub(crate) fn whole(&self, policy: Kind) -> Option<Id> {
        self.by(policy)?.whole
    }

    /// Which policy of a kind holds a part; none where it holds the whole alone.
    pub(crate) fn part(&self, policy: Kind, part: Sym) -> Option<Id> {
        let parts = &self.by(policy)?.parts;
        parts.iter().find(|(name, _)| *name == part).map(|(_, id)| *id)
    }

    /// Which policy of a kind holds what was named: the whole, or a part.
    pub(crate) fn of(&self, policy: Kind, section: Option<Sym>) -> Option<Id> {
        section.map_or_else(|| self.whole(policy), |part| self.part(policy, part))
    }

    /// Parts that policies of a kind hold, each with its holder, sorted.
    pub(crate) fn parts(&self, policy: Kind) -> &[(Sym, Id)] {
        self.by(policy).map_or(&[], |holders| &holders.parts)
    }

    /// Parts that policies of any kind hold, sorted.
    pub(super) fn named_parts(&self) -> SmallVec<[Sym; 2]> {
        let parts = self.0.iter().flat_map(|(_, holders)| &holders.parts);
        let mut names: SmallVec<_> = parts.map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Every holder, with the part that it holds.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<Sym>, PolicyId)> {
        self.0.iter().flat_map(|(kind, holders)| {
            let whole = holders.whole.map(|id| (None, id));
            let parts = holders.parts.iter().map(|(name, id)| (Some(*name), *id));
            let all = whole.into_iter().chain(parts);
            all.map(|(part, id)| (part, PolicyId { kind: *kind, id }))
        })
    }

    /// The same for who keeps many of them, nearly all empty.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (!self.0.is_empty()).then(|| Box::new(self))
    }
}

/// What decides who holds an object, or a part of it: kind of policy, part, age, and the policy.
type Claim<'a> = (Kind, Option<Sym>, &'a Seniority, Id);

/// Who holds an object. Of a route for its attachment alone, which everybody else asks (`Reader::covers`).
pub(crate) fn held(reader: &Reader<'_>, target: Kind, id: Id) -> PolicyHolders {
    let covers = reader.covers(target, id);
    let mut claims: SmallVec<[Claim<'_>; 4]> = covers
        .filter(|cover| may_target(cover.policy.kind, target))
        .filter_map(|cover| {
            // From what is read of it, so that an edit which changes nothing of that wakes no route.
            let profile = policy::profile(reader, cover.policy)?;
            Some((cover.policy.kind, cover.section, profile.seniority, cover.policy.id))
        })
        .collect();
    let mut held = PolicyHolders::default();
    if claims.is_empty() {
        // Nearly all routes.
        return held;
    }
    claims.sort_unstable();
    claims.dedup_by_key(|(kind, section, ..)| (*kind, *section));
    for claims in claims.chunk_by(|a, b| a.0 == b.0) {
        let mut holders = Holders::default();
        for (_, section, _, by) in claims {
            match section {
                None => holders.whole = Some(*by),
                Some(part) => holders.parts.push((*part, *by)),
            }
        }
        held.0.push((claims[0].0, holders));
    }
    held
}
