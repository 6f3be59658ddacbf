//! What a route uses: the listeners that count it, and backends in fleets.

use super::{
    attach::Attachments,
    bound::{Bindings, InVain, in_vain_at, under},
    rules::{Summary, every_rule_failed},
};
use crate::{
    engine::reader::Reader,
    name::{Ancestor, BackendId, BackendPort, FilterKey, FleetId, Id, ListenerId, RouteKind},
    phase::listeners::fleet::Serving,
};
use edge_ir::Seldom;
use smallvec::SmallVec;

/// What a route uses. The lists are sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Uses {
    /// Backends, in the fleets that need them.
    pub(crate) backends: SmallVec<[(FleetId, BackendId); 1]>,
    /// Backends that its rules lead to, with the parents that took the route.
    pub(crate) ancestors: SmallVec<[(BackendPort, Ancestor); 1]>,
    /// What the route needs of each listener where requests can reach it; mostly nothing.
    pub(crate) filters: Seldom<(ListenerId, FilterKey)>,
    /// What BackendTrafficPolicies ask of its backends in vain; mostly nothing.
    pub(crate) in_vain: Seldom<(Id, InVain)>,
    /// Listeners where it is attached, whatever becomes of its rules.
    pub(crate) listeners: SmallVec<[ListenerId; 1]>,
    /// Whether none of its parents accepts it, for what its rules are.
    is_refused: bool,
}

impl Uses {
    /// Listeners that count it: those where it is accepted. An HTTPRoute is counted wherever it is attached, as by the
    /// peer.
    pub(crate) fn counting(&self) -> &[ListenerId] {
        match self.is_refused {
            true => &[],
            false => &self.listeners,
        }
    }
}

/// Lists what a route uses. Where no request can reach any of its hostnames, it needs no backend and no filter.
pub(super) fn uses(
    reader: &Reader<'_>,
    kind: RouteKind,
    attachments: &Attachments,
    summary: &Summary,
    bindings: &Bindings,
) -> Uses {
    let attached = || attachments.attached();
    let takes_all = matches!(kind, RouteKind::Tcp | RouteKind::Udp);
    let serving = || attached().filter(|a| !a.hosts.is_empty() || (takes_all && a.serving == Serving::Yes));
    let fleets = sorted(serving().map(|a| (a.fleet, a.context)));
    let backends = sorted(fleets.iter().flat_map(|(fleet, context)| {
        let binding = under(bindings, *context).into_iter();
        binding.flat_map(move |binding| binding.backends.iter().map(move |backend| (*fleet, *backend)))
    }));
    let listeners = sorted(attached().map(|a| a.listener));
    let ancestors = sorted(
        attachments
            .parents
            .iter()
            .filter(|p| p.verdict.is_ok())
            .flat_map(|parent| {
                let ancestor = Ancestor {
                    port: parent.reference.port,
                    ..parent.ancestor()
                };
                summary.targets.iter().map(move |port| (*port, ancestor))
            }),
    );
    let filters = sorted(serving().flat_map(|a| {
        let binding = under(bindings, a.context).into_iter();
        binding.flat_map(move |binding| binding.filters.iter().map(move |filter| (a.listener, *filter)))
    }));
    let in_vain = sorted(serving().flat_map(|a| {
        let binding = under(bindings, a.context);
        binding
            .into_iter()
            .flat_map(|binding| in_vain_at(reader, attachments, a, binding))
    }));
    Uses {
        backends,
        ancestors,
        filters: filters.into_iter().collect(),
        in_vain: in_vain.into_iter().collect(),
        listeners,
        is_refused: kind != RouteKind::Http && every_rule_failed(summary),
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> SmallVec<[T; 1]> {
    let mut list: SmallVec<[T; 1]> = all.collect();
    list.sort_unstable();
    list.dedup();
    list
}
