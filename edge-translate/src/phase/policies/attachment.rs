//! Which policy holds a target, the same for every kind of policy.
//!
//! A policy names its targets, in its own namespace, or chooses them by labels, elsewhere with a ReferenceGrant in the
//! namespace of the target (`world/covers` knows which). It is for the whole target or for a part of it, a listener or a
//! rule. Of several policies of a kind for the same the oldest holds it, then the first by name (GEP-713); the others are
//! conflicted.

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
const TABLE: &[Row] = &[Row {
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
}];

/// Whether policies of a kind may be for objects of another.
pub(crate) fn may_target(policy: Kind, target: Kind) -> bool {
    TABLE
        .iter()
        .any(|row| row.policy == policy && row.targets.contains(&target))
}

/// Who holds a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Holders {
    /// The whole of it.
    pub(crate) whole: Option<Id>,
    /// Parts of it by name, sorted: listeners of a Gateway or ListenerSet, rules of a route.
    pub(crate) parts: SmallVec<[(Sym, Id); 1]>,
}

impl Holders {
    /// Who holds a part, and nobody the whole.
    pub(crate) fn of_part(&self, part: Sym) -> Option<Id> {
        self.parts
            .iter()
            .find(|(name, _)| *name == part)
            .map(|(_, policy)| *policy)
    }

    /// The same for who keeps many of them, nearly all empty.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        let is_empty = self.whole.is_none() && self.parts.is_empty();
        (!is_empty).then(|| Box::new(self))
    }

    /// Who holds what was named: the whole, or a part.
    pub(crate) fn of(&self, section: Option<Sym>) -> Option<Id> {
        section.map_or(self.whole, |part| self.of_part(part))
    }
}

/// Who holds an object. Of a route for its attachment alone, which everybody else asks (`Reader::covers`).
pub(crate) fn holders(reader: &Reader<'_>, policy: Kind, target: Kind, id: Id) -> Holders {
    let covers = reader.covers(target, id).filter(|cover| cover.policy.kind == policy);
    let mut claims: Vec<(Option<Sym>, Seniority, Id)> = covers
        .filter_map(|cover| {
            let seniority = seniority(reader, cover.policy)?;
            Some((cover.section, seniority, cover.policy.id))
        })
        .collect();
    if claims.is_empty() || !may_target(policy, target) {
        // Nearly all routes.
        return Holders::default();
    }
    claims.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    claims.dedup_by_key(|(section, ..)| *section);
    let mut holders = Holders::default();
    for (section, _, by) in claims {
        match section {
            None => holders.whole = Some(by),
            Some(part) => holders.parts.push((part, by)),
        }
    }
    holders
}

/// Age and name of a policy; from what is read of it, so that an edit which changes nothing of that wakes no route.
fn seniority(reader: &Reader<'_>, policy: PolicyId) -> Option<Seniority> {
    match policy.kind {
        Kind::BackendTrafficPolicy => Some(reader.traffic_policy(policy.id)?.seniority.clone()),
        _ => None,
    }
}
