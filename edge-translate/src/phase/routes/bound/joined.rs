//! Backends of a rule that must be one to whoever sends to them, and so are one cluster, a set.
//!
//! Some stand by for others, so that who is healthy counts over all of them. Or a client must come to the same endpoint
//! again, by a hash, a session or because it names one: a weighted route would choose a backend anew for each request,
//! and only then an endpoint of it.

use super::{Binder, Due};
use crate::{
    name::{BackendId, RouteKind, SetMember, VariantId},
    phase::routes::rules::{Effect, RuleFinding, Share, StreamTo, hindrance},
};
use edge_ir::{FilterKind, LoadBalancing, RouteFilters};

/// A backend with its weight and how far behind others it stands.
type Ranked = (BackendId, u32, u32);

/// A set of backends with those who are in it.
type Joined = (BackendId, Vec<Ranked>);

impl Binder<'_, '_> {
    /// Backends as one cluster where they must be, others as they are. One that can't be spoken to as it asks has no
    /// part in it, and its weight stays behind.
    pub(super) fn joined(&mut self, shares: Vec<Share>, own: &RouteFilters, due: &Due<'_>) -> Vec<Share> {
        // Nearly all rules.
        if shares.len() < 2 {
            return shares;
        }
        let joined = match shares.iter().any(|share| share.priority > 0) {
            true => self.set(shares.iter().map(ranked), due).filter(has_standby),
            false => self.of_returning(&shares, own, due),
        };
        let Some((set, members)) = joined else {
            return shares;
        };
        let is_in = |share: &Share| share.weight > 0 && contains(&members, share.backend);
        let (joined, mut rest): (Vec<Share>, Vec<Share>) = shares.into_iter().partition(is_in);
        let weight = front(joined.iter().map(|share| (share.weight, share.priority)));
        // What has a set has nothing of its own: the rule would have failed, or there would be no set.
        rest.extend(joined.into_iter().next().map(|first| Share {
            backend: set,
            weight,
            priority: 0,
            ..first
        }));
        rest
    }

    /// The set of backends among which a client finds its endpoint again; none where none has to, or none can.
    fn of_returning(&mut self, shares: &[Share], own: &RouteFilters, due: &Due<'_>) -> Option<Joined> {
        if shares.iter().filter(|share| share.weight > 0).count() < 2 {
            return None;
        }
        let has_session = own.iter().any(|filter| filter.id.kind == FilterKind::StatefulSession);
        let of_rule = has_session.then_some("sessionPersistence");
        let wanted = of_rule.or_else(|| self.asked_to_return(due))?;
        let why = match hindrance(self.reader, shares) {
            Some(why) => why,
            None => match self.set(shares.iter().map(ranked), due) {
                Some(joined) if self.in_reach(joined.0, due) => return Some(joined),
                Some(_) => "not all of them can be spoken to in TLS from one cluster",
                // Nothing is sent at all.
                None => return None,
            },
        };
        self.findings.push(RuleFinding {
            rule: self.rule,
            effect: Effect::FallsShort,
            reason: "UnsupportedValue",
            message: format!(
                "backendRefs: {wanted} holds within the backend that a weight chooses, and not over all of them: {why}"
            ),
        });
        None
    }

    fn in_reach(&self, backend: BackendId, due: &Due<'_>) -> bool {
        self.backend(backend, due).is_some()
    }

    /// By what a policy has clients come to the same endpoint again; none where it doesn't.
    fn asked_to_return(&self, due: &Due<'_>) -> Option<&'static str> {
        // What nearly every route has.
        if due.variant == VariantId::OWN {
            return None;
        }
        let variant = self.reader.variant(due.variant);
        match variant.load_balancing {
            _ if !variant.upstream.endpoint_headers.is_empty() => Some("loadBalancer.endpointOverride of a policy"),
            LoadBalancing::ConsistentHash(_) => Some("loadBalancer.consistentHash of a policy"),
            _ => None,
        }
    }

    /// The set of backends, and who is in it: what is left alone is no set. None where nothing is.
    fn set(&self, backends: impl Iterator<Item = Ranked>, due: &Due<'_>) -> Option<Joined> {
        let usable = backends.filter(|(backend, weight, _)| *weight > 0 && self.in_reach(*backend, due));
        // A backend that is named twice is there once, with both weights.
        let mut all: Vec<Ranked> = Vec::new();
        for (backend, weight, priority) in usable {
            match all
                .iter_mut()
                .find(|(known, _, at)| (*known, *at) == (backend, priority))
            {
                Some((_, known, _)) => *known = known.saturating_add(weight),
                None => all.push((backend, weight, priority)),
            }
        }
        let (first, ..) = *all.first()?;
        if all.len() == 1 {
            return Some((first, all));
        }
        let member = |(backend, weight, priority): &Ranked| SetMember {
            port: backend.port,
            weight: *weight,
            priority: *priority,
        };
        let set = BackendId {
            port: self.reader.backend_set(all.iter().map(member).collect()),
            ..first
        };
        Some((set, all))
    }

    /// [`Self::joined`] for streams.
    pub(super) fn joined_streams(&self, shares: Vec<StreamTo>, due: &Due<'_>) -> Vec<StreamTo> {
        let is_ranked = shares.iter().any(|share| share.priority > 0);
        // Nobody knows which endpoints of UDP are healthy.
        if shares.len() < 2 || !is_ranked || self.kind == RouteKind::Udp {
            return shares;
        }
        let ranked = shares.iter().map(|share| (share.backend, share.weight, share.priority));
        let Some((set, members)) = self.set(ranked, due).filter(has_standby) else {
            return shares;
        };
        let is_in = |share: &StreamTo| share.weight > 0 && contains(&members, share.backend);
        let (joined, mut rest): (Vec<StreamTo>, Vec<StreamTo>) = shares.into_iter().partition(is_in);
        let weight = front(joined.iter().map(|share| (share.weight, share.priority)));
        rest.push(StreamTo {
            backend: set,
            weight,
            priority: 0,
        });
        rest
    }
}

fn ranked(share: &Share) -> Ranked {
    (share.backend, share.weight, share.priority)
}

fn has_standby((_, members): &Joined) -> bool {
    members.len() > 1 && members.iter().any(|(.., priority)| *priority > 0)
}

fn contains(members: &[Ranked], backend: BackendId) -> bool {
    members.iter().any(|(member, ..)| *member == backend)
}

/// What backends weigh together beside others of their rule: those count that stand by for nobody.
fn front(shares: impl Iterator<Item = (u32, u32)> + Clone) -> u32 {
    let first = shares.clone().map(|(_, priority)| priority).min();
    let first = shares.filter(|(_, priority)| Some(*priority) == first);
    first.map(|(weight, _)| weight).fold(0, u32::saturating_add)
}
