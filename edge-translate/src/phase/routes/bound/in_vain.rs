//! What a BackendTrafficPolicy asks of backends in vain, which its status tells: found where rules are bound, for only
//! there it is known what reaches which backend. Whose words they are, where a policy merges into another, is for the
//! statuses to find out: rules are bound by what policies decide, and never look at these themselves.

use super::{Binding, Due};
use crate::{
    api::{BackendTrafficPolicySpec, Kind, Object, health_check::HealthCheckType},
    engine::reader::Reader,
    name::{BackendId, Id, ListenerId, PolicyId, Sym, VariantId},
    phase::{
        backends::endpoints::is_of_request,
        policies::policy::merges,
        routes::attach::{Attachment, Attachments},
    },
};
use edge_ir::{AppProtocol, Probe};

/// Whose words they are.
const KIND: Kind = Kind::BackendTrafficPolicy;

/// What has no effect on a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Futile {
    /// That it is probed by calls of gRPC: it isn't spoken to in HTTP/2.
    Calls,
    /// How its names are resolved: they are whatever clients ask for.
    Names,
}

/// By what a policy reaches a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reach {
    /// By the listener, or what that stands in.
    Listener,
    /// By the route.
    Route,
    /// By the rule itself.
    Rule(Sym),
}

/// Where a policy asks for something in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InVain {
    /// For what.
    pub(crate) what: Futile,
    /// By what it reaches the rule.
    pub(crate) reach: Reach,
    /// At which listener.
    pub(crate) listener: ListenerId,
    /// The policy of the route or rule that stands between, and may be merged into it.
    pub(crate) through: Option<Id>,
}

/// Whether a policy itself says something.
pub(crate) fn says(spec: &BackendTrafficPolicySpec, what: Futile) -> bool {
    let active = || spec.health_check.as_deref().and_then(|check| check.active.as_deref());
    match what {
        Futile::Calls => active().is_some_and(|active| active.r#type == HealthCheckType::Grpc),
        Futile::Names => spec.dns.is_some(),
    }
}

/// What a context asks of a backend in vain.
fn of_backend(reader: &Reader<'_>, backend: BackendId) -> impl Iterator<Item = Futile> {
    // Nearly all backends, of which nothing is asked.
    let asked = (backend.variant != VariantId::OWN).then(|| reader.variant(backend.variant));
    let upstream = asked.map(|variant| variant.upstream.clone());
    let upstream = upstream.as_deref();
    let check = upstream.and_then(|upstream| upstream.health_check.as_deref());
    let is_called = check.is_some_and(|check| matches!(check.probe, Probe::Grpc { .. }));
    let is_resolved = upstream.is_some_and(|upstream| upstream.dns.is_some());
    let calls = (is_called && backend.protocol != AppProtocol::Http2).then_some(Futile::Calls);
    let names = (is_resolved && is_of_request(reader, backend.port)).then_some(Futile::Names);
    calls.into_iter().chain(names)
}

impl super::Binder<'_, '_> {
    /// Keeps whom a rule sends to, and what is asked of them in vain.
    pub(super) fn sends(&mut self, to: impl IntoIterator<Item = BackendId>, due: &Due<'_>) {
        for backend in to {
            self.backends.push(backend);
            let futile = of_backend(self.reader, backend).map(|what| (due.rule, what));
            self.in_vain.extend(futile);
        }
    }
}

/// What policies ask in vain where a route attaches to a listener.
pub(in crate::phase::routes) fn at(
    reader: &Reader<'_>,
    attachments: &Attachments,
    attachment: &Attachment,
    binding: &Binding,
) -> Vec<(Id, InVain)> {
    let held = attachments.held.as_deref();
    let listener = attachment.listener;
    let above = || {
        let views = reader.listener_views(listener.gateway)?;
        let view = views.listeners.iter().find(|view| view.id == listener)?;
        view.inherited.policy(KIND)
    };
    let mut told = Vec::new();
    for (rule, what) in &binding.in_vain {
        let of_rule = rule.and_then(|rule| Some((held?.part(KIND, rule)?, Reach::Rule(rule))));
        let of_route = || Some((held?.whole(KIND)?, Reach::Route));
        let own = of_rule.or_else(of_route);
        let one = |reach, through| InVain {
            what: *what,
            reach,
            listener,
            through,
        };
        told.extend(own.map(|(policy, reach)| (policy, one(reach, None))));
        told.extend(above().map(|policy| (policy, one(Reach::Listener, own.map(|(policy, _)| policy)))));
    }
    told
}

impl InVain {
    /// Whether it is said by the policy that is told, and not by the one of the route through which it reaches the
    /// rule.
    pub(crate) fn is_own(&self, reader: &Reader<'_>) -> bool {
        self.through.is_none_or(|id| match reader.object(KIND, id) {
            Some(Object::BackendTrafficPolicy(policy)) => {
                merges(reader, PolicyId { kind: KIND, id }) && !says(&policy.spec, self.what)
            }
            _ => false,
        })
    }
}
